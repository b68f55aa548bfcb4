"""The latency picture: a row's parts are the request's own times, and what has not happened is no data."""

from __future__ import annotations

from dataclasses import replace

import plotly.graph_objects as go
import pytest

from engine.metrics import RunMetrics, measure
from engine.timeline import Timings
from pages.figures.latency import latency, latency_alt
from pages.figures.marks import Selection
from pages.figures.primitives import Figure, Trace
from pages.ui.theme import DARK, LIGHT
from tests.pages.fakes import Run, crowd, lanes, pressure


def timed(run: Run, count: int, ms: float = 2.0) -> RunMetrics:
    """The first `count` steps as if each had taken `ms`."""
    return measure([replace(step, timings=Timings(0, ms, 0)) for step in run.steps[:count]])


def named(figure: Figure, name: str) -> Trace:
    found: Trace = next(item for item in figure["data"] if item["name"] == name)
    return found


def test_a_row_adds_up_to_queue_first_token_and_gaps() -> None:
    metrics = timed(lanes(), 60)
    request = next(each for each in metrics.requests if each.request == "request-with-a-long-name")
    assert request.queue_ms is not None
    assert request.ttft_ms is not None
    assert request.queue_ms > 0  # the sequence limit is 3 and it is the fourth
    figure = latency(metrics, None, LIGHT, "en")
    row = metrics.requests.index(request)
    queue = named(figure, "queues")["width"][row]
    first = named(figure, "first tokens")["width"][row]
    assert (queue, queue + first) == (request.queue_ms, request.ttft_ms)
    mine = "request:request-with-a-long-name"
    gaps = named(figure, "gaps")
    widths = gaps["width"] if isinstance(gaps["width"], list) else [gaps["width"]] * len(gaps["x"])
    assert [width for width, ref in zip(widths, gaps["customdata"], strict=True) if ref == mine] == list(request.itl_ms)
    assert request.itl_ms == (2.0,) * (request.output_tokens - 1)


def test_what_has_not_happened_is_said() -> None:
    metrics = timed(lanes(), 1)
    assert named(latency(metrics, None, LIGHT, "en"), "words")["text"] == ["TTFT 2"]
    assert latency_alt(metrics, "en") == (
        "Latency in ms, measured: median TTFT 2, TPOT no data, gap no data, largest gap no data."
    )
    empty = measure([])
    assert named(latency(empty, None, LIGHT, "en"), "words")["text"] == ["No request has arrived yet."]


def test_the_selected_request_keeps_its_row() -> None:
    metrics = timed(crowd(), 60)
    figure = latency(metrics, Selection("request", "req-00"), LIGHT, "en")
    assert figure["layout"]["yaxis"]["ticktext"][0] == "req-00"


@pytest.mark.parametrize("run", [pressure, lanes, crowd])
def test_plotly_accepts_it_and_its_traces_keep_their_order(run: object) -> None:
    done: Run = run()  # type: ignore[operator]
    for count in range(0, len(done.steps), max(1, len(done.steps) // 6)):
        figure = latency(measure(done.steps[:count]), Selection("request", "A"), DARK, "zh")
        go.Figure(figure)
        assert [item["name"] for item in figure["data"]] == ["queues", "first tokens", "gaps", "words"]

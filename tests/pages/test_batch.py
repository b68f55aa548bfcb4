"""The batch view shows the launch that really ran: its numbers are those of the runner's own metadata."""

from __future__ import annotations

from itertools import chain, pairwise

import plotly.graph_objects as go
import pytest

from engine.config import EngineConfig
from engine.engine import Engine
from engine.model.load import load_model
from engine.model_runner import ModelRunner
from engine.request import RequestSpec
from engine.timeline import Step
from pages.figures.batch import batch, batch_alt, launch_rows, slot_ranges
from pages.figures.marks import Selection
from pages.ui.theme import DARK, LIGHT
from tests.pages.fakes import crowd, lanes, pressure


@pytest.fixture(scope="module")
def real_steps() -> list[Step]:
    """Chunked prefill beside decode, a preemption, on the toy model."""
    config = EngineConfig(num_blocks=12, block_size=4, max_num_batched_tokens=10, max_num_seqs=4)
    engine = Engine(config, ModelRunner(load_model("toy"), config))
    for place, name in enumerate("ABC"):
        engine.add(RequestSpec(name, tuple(range(20 * place, 20 * place + 13 + place)), 9, arrival_step=place))
    steps = []
    while not engine.is_done:
        steps.append(engine.step())
    return steps


def test_rows_are_those_the_kernel_got(real_steps: list[Step]) -> None:
    launched = [step for step in real_steps if step.kernel is not None]
    assert len(launched) > 10
    for step in launched:
        assert step.kernel is not None
        rows = launch_rows(step.scheduled, list(step.scheduled_tokens))
        for row, kernel in zip(rows, step.kernel.rows, strict=True):
            assert row.view.id == kernel.request
            assert (row.query_start, row.query_len, row.context) == (
                kernel.query_start,
                kernel.query_len,
                kernel.context_len,
            )
            slots = chain.from_iterable(range(first, last + 1) for first, last in slot_ranges(row, 4))
            assert tuple(slots) == kernel.slot_mapping


def test_a_run_of_slots_breaks_where_blocks_are_not_neighbours(real_steps: list[Step]) -> None:
    rows = [row for step in real_steps for row in launch_rows(step.scheduled, list(step.scheduled_tokens))]
    ranges = [tuple(slot_ranges(row, 4)) for row in rows]
    assert any(len(found) > 1 for found in ranges)
    for found in ranges:
        assert all(after[0] != before[1] + 1 for before, after in pairwise(found))


@pytest.mark.parametrize("run", [pressure, lanes, crowd])
def test_plotly_accepts_it_and_its_traces_keep_their_order(run: object) -> None:
    done = run()  # type: ignore[operator]
    names = set()
    for step in done.steps:
        for selection in (None, Selection("request", "A")):
            figure = batch(step.scheduled, list(step.scheduled_tokens), selection, DARK, "zh")
            go.Figure(figure)
            names.add(tuple(item["name"] for item in figure["data"]))
    assert names == {("contexts", "queries", "words", "block edges", "query tokens", "numbers")}


def test_a_query_ends_where_its_context_ends() -> None:
    step = lanes().steps[2]
    figure = batch(step.scheduled, list(step.scheduled_tokens), None, LIGHT, "en")
    queries = next(item for item in figure["data"] if item["name"] == "queries")
    ends = [
        x + width for x, width in zip(queries["x"], _each(queries["width"], len(queries["x"])), strict=True)
    ]  # fmt: skip
    in_flight = {view.id: view.computed_tokens for view in step.scheduled.requests}
    assert ends == [in_flight[name] for name in step.scheduled_tokens]


def _each(value: object, count: int) -> list[float]:
    return value if isinstance(value, list) else [value] * count  # type: ignore[list-item]


def test_the_words_count_the_same() -> None:
    step = lanes().steps[0]
    (name, tokens), *_ = step.scheduled_tokens.items()
    assert f"{name}: {tokens} query tokens" in batch_alt(step.scheduled, list(step.scheduled_tokens), "en")
    assert batch_alt(step.scheduled, [], "en") == "Nothing was launched in this step."

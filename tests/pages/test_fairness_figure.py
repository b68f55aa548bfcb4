"""The fairness diagram draws the waits of the run: lines as long as they lasted, the longest marked, labels apart."""

from __future__ import annotations

from itertools import pairwise

import plotly.graph_objects as go
import pytest

from engine.waits import Wait, waits
from pages.figures.fairness import fairness, fairness_alt
from pages.figures.marks import Selection
from pages.figures.primitives import Figure, Trace
from pages.ui.text import LANGS, Lang
from pages.ui.theme import DARK, LIGHT
from scenarios.recording import recordings, replay

STEPS = replay("lpm_starvation")


def named(figure: Figure, name: str) -> Trace:
    found: Trace = next(item for item in figure["data"] if item["name"] == name)
    return found


def at(step: int, selection: Selection | None = None) -> Figure:
    return fairness(waits(STEPS[: step + 1]), step, selection, LIGHT, "en")


def test_the_starved_request_rises_above_all_others() -> None:
    """At step 16 cold, which came at step 2, has waited 14 steps and been overtaken 7 times (the scenario's note)."""
    figure = at(16)
    longest = named(figure, "longest")
    assert (longest["x"], longest["y"]) == ([2.5, 16.5, None], [0, 14, None])
    assert named(figure, "top label")["text"] == ["cold: 14 steps, overtaken ×7"]
    assert named(figure, "labels")["text"] == ["hot10: 0 steps"]
    assert "cold: 2 steps, overtaken ×1" in named(at(4), "labels")["text"], (
        "early in the run there is room on the right"
    )
    assert max(y for y in named(figure, "ended")["y"] if y is not None) == 2
    alt = fairness_alt(waits(STEPS[:17]), "en")
    assert "The longest so far is cold with 14 steps, overtaken 7 times" in alt and "Waits: 2 go on" in alt


def test_an_ended_wait_stays_where_it_ended() -> None:
    figure = at(23)
    ends = named(figure, "ends")
    place = ends["customdata"].index("request:cold")
    assert (ends["x"][place], ends["y"][place], ends["marker"]["color"][place]) == (20.5, 18, LIGHT.muted)
    assert named(figure, "waiting")["x"] == []
    assert "waited 18 steps" in ends["hovertext"][place] and "overtaken by 8" in ends["hovertext"][place]


def test_who_never_waited_has_no_line() -> None:
    assert {"request:hot1", "request:hot2"}.isdisjoint(named(at(23), "ends")["customdata"])
    assert named(at(0), "words")["text"] == ["nobody has waited a step"]


def test_a_selected_request_is_drawn_once_more_and_labelled() -> None:
    figure = at(23, Selection("request", "hot5"))
    assert named(figure, "selected")["y"] == [0, 2, None]
    assert "hot5: 2 steps" in named(figure, "labels")["text"]
    assert named(at(23, Selection("block", 3)), "selected")["x"] == []


def test_a_wait_after_a_preemption_is_a_line_of_its_own() -> None:
    steps = replay("memory_pressure")
    found = waits(steps)
    again = [wait for wait in found if wait.resumed]
    figure = fairness(found, len(steps) - 1, None, DARK, "en")
    assert len(again) == 1
    assert named(figure, "after preemption")["y"] == [0, again[0].steps, None]
    assert named(figure, "after preemption")["line"]["dash"] == "dot"


def test_labels_keep_apart_and_off_the_floor() -> None:
    found = [Wait(f"r{n}", n, None, 20 - n) for n in range(10)] + [Wait("late", 20, None, 0)]
    labels = named(fairness(found, 20, None, LIGHT, "en"), "labels")
    heights = sorted(labels["y"])
    assert len(heights) == 5, "the oldest six, the first of them over its line"
    assert all(high - low >= 24 * 0.11 - 0.01 for low, high in pairwise(heights))
    crowd = [Wait(f"r{n}", 5, None, 1) for n in range(6)]
    assert min(named(fairness(crowd, 6, None, LIGHT, "en"), "labels")["y"]) >= 0
    more = named(fairness(found, 20, None, LIGHT, "en"), "words")
    assert more["text"] == ["+5 more"]


@pytest.mark.parametrize("lang", LANGS)
def test_plotly_accepts_every_run_and_its_traces_keep_their_order(lang: Lang) -> None:
    names = set()
    for name in recordings():
        steps = replay(name)
        for step in (-1, 0, len(steps) // 2, len(steps) - 1):
            found = waits(steps[: step + 1])
            figure = fairness(found, step, None, DARK, lang)
            go.Figure(figure)
            names.add(tuple(trace["name"] for trace in figure["data"]))
            assert fairness_alt(found, lang)
            assert not {"shapes", "annotations"} & figure["layout"].keys()
    assert len(names) == 1

"""A frame is small, serialisable, and says what its step says."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from engine.timeline import LawResult
from pages.figures.marks import Selection
from pages.ui.frame import frame
from pages.ui.text import LANGS, Lang
from pages.ui.theme import DARK, LIGHT, Palette
from tests.pages.fakes import RUNS, Run, lanes, pressure

MAX_KB = 70


def build(
    run: Run,
    cursor: int,
    selection: Selection | None = None,
    lang: Lang = "en",
    palette: Palette = LIGHT,
    **more: Any,
) -> dict[str, Any]:
    return frame(run.steps, cursor, selection, palette, lang, run.config, initial=run.initial, **more)


@pytest.mark.parametrize("name", RUNS)
@pytest.mark.parametrize("lang", LANGS)
def test_serialisable_at_every_step(name: str, lang: Lang) -> None:
    run = RUNS[name]()
    for cursor in range(-1, len(run.steps), max(1, len(run.steps) // 8)):
        for selection in (None, Selection("request", "A"), Selection("block", 2)):
            json.dumps(build(run, cursor, selection, lang, DARK), allow_nan=False)


@pytest.mark.parametrize("name", ["pressure", "lanes"])
def test_at_most_70_kb_a_step(name: str) -> None:
    run = RUNS[name]()
    for cursor in range(-1, len(run.steps)):
        data = build(run, cursor, prompts={view.id: "word " * 200 for view in run.steps[-1].snapshot.requests})
        assert len(json.dumps(data, ensure_ascii=False).encode()) < MAX_KB * 1000


def test_before_the_first_step() -> None:
    data = build(lanes(), -1)
    assert data["step"] == -1
    assert data["requests"]["rows"] == []
    assert data["laws"]["state"] == "unchecked"
    assert data["why"]["sentences"]
    assert {tile["id"]: tile["value"] for tile in data["kpis"]}["pool"] == "0"


def test_kpis_repeat_the_snapshot() -> None:
    run = pressure()
    for cursor, step in enumerate(run.steps):
        tiles = {tile["id"]: tile for tile in build(run, cursor)["kpis"]}
        assert tiles["requests"]["value"] == str(len(step.snapshot.running))
        assert tiles["tokens"]["value"] == str(sum(step.scheduled_tokens.values()))
        assert tiles["blocks"]["value"] == str(step.scheduled.budgets.blocks.used)
        assert tiles["pool"]["value"] == str(step.snapshot.pool.owned)
        binding = [name for name in ("tokens", "blocks", "sequences") if tiles[name]["binds"]]
        assert binding == ([step.scheduled.budgets.binding] if step.scheduled.budgets.binding else [])


def test_queue_header_sums_to_the_pool() -> None:
    run = pressure()
    for cursor in range(len(run.steps)):
        left, _, total = build(run, cursor)["panels"]["queue"]["sub"].partition(" = ")
        assert sum(int(part.split()[0]) for part in left.split(" + ")) == int(total) == run.config.usable_blocks


def test_law_badge_tells_unchecked_from_holding() -> None:
    run = lanes()
    step = run.steps[2]
    laws = build(run, 2)["laws"]
    unchecked = sum(1 for result in step.laws if not result.checked)
    assert laws["badge"] == f"{10 - unchecked} laws hold, {unchecked} not checked"
    broken = replace(step, laws=(*step.laws[:2], LawResult(3, False, broken_by="block 7"), *step.laws[3:]))
    changed = [*run.steps[:2], broken, *run.steps[3:]]
    for lang, badge in (("en", "law 3 broken by block 7"), ("zh", "定律 3 被违反：块 7")):
        data = frame(changed, 2, None, LIGHT, lang, run.config, initial=run.initial)  # type: ignore[arg-type]
        assert data["laws"]["badge"] == badge
        assert data["laws"]["items"][2]["state"] == "broken"


def test_request_table_repeats_the_snapshot() -> None:
    run = pressure()
    for cursor, step in enumerate(run.steps):
        rows = build(run, cursor)["requests"]["rows"]
        assert [row["id"] for row in rows] == [view.id for view in step.snapshot.requests]
        for row, view in zip(rows, step.snapshot.requests, strict=True):
            assert row["cells"][2] == f"{view.computed_tokens} / {view.known_tokens}"
            assert row["cells"][5] == str(len(view.block_table))


def test_kernel_panel_follows_the_selection() -> None:
    run = lanes()
    step = next(step for step in run.steps if step.kernel is not None and len(step.kernel.rows) >= 2)
    assert step.kernel is not None
    second = step.kernel.rows[1].request
    data = build(run, step.index, Selection("request", second), prompts={second: "hello"})
    assert second in data["kernel"]["sub"]
    assert data["kernel"]["prompt"] == "hello"
    assert len(data["kernel"]["top"]) == 5
    assert "≤" in data["kernel"]["footer"][0]
    gone = build(run, step.index, Selection("request", "nobody"))
    assert gone["kernel"]["empty"] == "nobody was not in this step's batch."


def test_kernel_panel_without_a_model_says_so() -> None:
    run = RUNS["wide"]()
    assert build(run, 0)["kernel"]["empty"].startswith("Scripted run")


def test_unchanged_panels_are_byte_identical_for_another_selection_of_nothing() -> None:
    run = lanes()
    first, second = (json.dumps(build(run, 4)["panels"]) for _ in range(2))
    assert first == second


def test_flags_are_passed_on() -> None:
    data = build(lanes(), 0, running=True, done=True, ack=7, notice="toy model")
    assert (data["running"], data["done"], data["ack"], data["notice"]) == (True, True, 7, "toy model")


def test_every_panel_has_words_for_screen_readers() -> None:
    run = pressure()
    for cursor in (-1, 0, len(run.steps) - 1):
        for lang in LANGS:
            assert all(panel["alt"] for panel in build(run, cursor, lang=lang)["panels"].values())

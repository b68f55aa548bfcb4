"""Numbers in a figure are the numbers of its snapshot, and its shape never changes."""

from __future__ import annotations

import re
from typing import Any

import plotly.graph_objects as go
import pytest

from engine.events import BlockAllocated, BlockTouched, HashEvicted, Preempted
from engine.request import RequestStatus
from engine.timeline import Step
from pages.figures.attention import attention
from pages.figures.block_tables import block_tables
from pages.figures.free_queue import free_queue
from pages.figures.marks import Selection, block_marks
from pages.figures.pool import pool
from pages.figures.primitives import Rects
from pages.figures.schedule import cells, schedule, window
from pages.ui import theme
from pages.ui.text import LANGS, Lang
from pages.ui.theme import DARK, LIGHT, Palette
from tests.pages.fakes import RUNS, Run, crowd, lanes, pressure, wide

Figures = dict[str, dict[str, Any]]


def figures(
    run: Run, cursor: int, selection: Selection | None = None, palette: Palette = LIGHT, lang: Lang = "en"
) -> Figures:
    step: Step | None = run.steps[cursor] if cursor >= 0 else None
    snapshot = step.snapshot if step is not None else run.initial
    marks = block_marks(step.events, snapshot) if step is not None else {}
    row = step.kernel.rows[0] if step is not None and step.kernel is not None and step.kernel.rows else None
    budget = run.config.max_num_batched_tokens
    return {
        "pool": pool(snapshot, marks, selection, palette, lang),
        "tables": block_tables(snapshot, marks, selection, palette, lang),
        "queue": free_queue(snapshot, marks, selection, palette, lang),
        "schedule": schedule(run.steps, cursor, budget, selection, palette, lang),
        "attention": attention(row, palette, lang),
    }


def trace(figure: dict[str, Any], name: str) -> dict[str, Any]:
    found: dict[str, Any] = next(item for item in figure["data"] if item["name"] == name)
    return found


def refs(item: dict[str, Any]) -> list[str]:
    """What a click on each mark reports."""
    return [data if isinstance(data, str) else data[0] for data in item.get("customdata", ())]


def hovers(item: dict[str, Any]) -> list[str]:
    """The hover sentence of each mark, as the browser would fill it in."""
    if "hovertext" in item:
        return list(item["hovertext"])

    def fill(data: list[Any]) -> str:
        return re.sub(r"%\{customdata\[(\d+)\]\}", lambda found: str(data[int(found[1])]), item["hovertemplate"])

    return [fill(data) for data in item["customdata"]]


def cursors(run: Run) -> range:
    return range(-1, len(run.steps), max(1, len(run.steps) // 12))


@pytest.mark.parametrize("name", RUNS)
def test_plotly_accepts_every_figure(name: str) -> None:
    run = RUNS[name]()
    for cursor in cursors(run):
        for selection in (None, Selection("request", "A"), Selection("block", 3)):
            for figure in figures(run, cursor, selection, DARK, "zh").values():
                go.Figure(figure)


@pytest.mark.parametrize("name", RUNS)
def test_trace_names_and_order_are_constant(name: str) -> None:
    run = RUNS[name]()
    shapes = [
        {key: [item["name"] for item in figure["data"]] for key, figure in figures(run, cursor).items()}
        for cursor in cursors(run)
    ]
    assert all(shape == shapes[0] for shape in shapes)


@pytest.mark.parametrize("name", RUNS)
def test_fewer_than_130_texts_a_panel(name: str) -> None:
    run = RUNS[name]()
    for cursor in cursors(run):
        for key, figure in figures(run, cursor).items():
            texts = sum(len(item.get("text", ())) for item in figure["data"])
            ticks = sum(len(axis.get("ticktext", ())) for axis in figure["layout"].values() if isinstance(axis, dict))
            assert texts + ticks < 130, key


@pytest.mark.parametrize("name", RUNS)
def test_no_shapes_annotations_or_heatmaps(name: str) -> None:
    run = RUNS[name]()
    for figure in figures(run, len(run.steps) // 2).values():
        assert not {"shapes", "annotations"} & set(figure["layout"])
        assert {item["type"] for item in figure["data"]} <= {"bar", "scatter"}
        assert all("text" not in item for item in figure["data"] if item["type"] == "bar")


@pytest.mark.parametrize("name", ["pressure", "lanes"])
def test_axis_ranges_hold_while_nothing_arrives(name: str) -> None:
    run = RUNS[name]()
    last = len(run.steps) - 1
    early, late = figures(run, last - 1), figures(run, last)
    for key in ("pool", "queue", "tables"):
        assert early[key]["layout"]["xaxis"] == late[key]["layout"]["xaxis"]
        assert early[key]["layout"]["yaxis"] == late[key]["layout"]["yaxis"]


@pytest.mark.parametrize("name", ["pressure", "lanes"])
def test_every_clickable_bar_has_customdata(name: str) -> None:
    run = RUNS[name]()
    found = figures(run, len(run.steps) // 2)
    for key, bars in (("pool", "cells"), ("tables", "chips"), ("queue", "chips"), ("schedule", "lanes")):
        item = trace(found[key], bars)
        assert len(refs(item)) == len(item["x"])
        assert all(ref.startswith(("block:", "request:")) for ref in refs(item))
        assert all(hover and "customdata" not in hover for hover in hovers(item))


def test_pool_shows_state_and_fill_of_every_block() -> None:
    run = pressure()
    for step in run.steps:
        view = step.snapshot.pool
        figure = pool(step.snapshot, {}, None, LIGHT, "en")
        item = trace(figure, "cells")
        sentences = hovers(item)
        assert refs(item) == [f"block:{block}" for block in range(view.num_blocks)]
        for block in range(1, view.num_blocks):
            fill = item["marker"]["color"][block]
            partial = view.ref_count[block] > 0 and view.fill[block] < view.block_size
            if view.ref_count[block] == 0:
                assert fill == (LIGHT.cached if view.hashes[block] is not None else LIGHT.free)
            elif partial:
                assert fill == LIGHT.card
            else:
                assert fill == (LIGHT.shared if view.ref_count[block] >= 2 else LIGHT.used)
            assert f"ref count {view.ref_count[block]}," in sentences[block]
            assert f"{view.fill[block]} of {view.block_size} slots" in sentences[block]
        gauges = trace(figure, "gauges")["x"]
        owned_partial = [
            block for block in range(1, view.num_blocks) if view.ref_count[block] and view.fill[block] < view.block_size
        ]
        assert len(gauges) == len(owned_partial)


def test_pool_prints_shared_counts_and_glyphs() -> None:
    run = pressure()
    for step in run.steps:
        marks = block_marks(step.events, step.snapshot)
        counts = trace(pool(step.snapshot, marks, None, LIGHT, "en"), "counts")["text"]
        shared = [count for count in step.snapshot.pool.ref_count if count >= 2]
        assert sorted(text.partition("×")[2] for text in counts if "×" in text and text[-1].isdigit()) == sorted(
            map(str, shared)
        )


def test_pool_merges_neighbours_when_there_are_thousands() -> None:
    run = wide()
    step = run.steps[0]
    figure = pool(step.snapshot, block_marks(step.events, step.snapshot), None, LIGHT, "en")
    item = trace(figure, "cells")
    assert len(item["x"]) < 500
    widths = item["width"]
    assert round(sum(width + 0.12 for width in widths)) == run.config.num_blocks


def test_evicted_block_is_marked_and_freed_block_is_not_new() -> None:
    run = pressure()
    step = run.steps[run.first(HashEvicted)]
    marks = block_marks(step.events, step.snapshot)
    for event in step.events:
        if isinstance(event, HashEvicted) and step.snapshot.pool.ref_count[event.block]:
            assert marks[event.block].kind == "evicted"
    for earlier in run.steps:
        for block, mark in block_marks(earlier.events, earlier.snapshot).items():
            assert (mark.kind == "freed") == (earlier.snapshot.pool.ref_count[block] == 0)


def test_block_tables_list_each_requests_blocks_in_order() -> None:
    run = pressure()
    for step in run.steps:
        figure = block_tables(step.snapshot, {}, None, LIGHT, "en")
        chips = trace(figure, "chips")
        rows: dict[int, list[str]] = {}
        for base, ref in zip(chips["base"], refs(chips), strict=True):
            rows.setdefault(int(base), []).append(ref)
        expected = {
            row: [f"block:{block}" for block in view.block_table]
            for row, view in enumerate(step.snapshot.requests)
            if view.block_table
        }
        assert rows == expected
        assert trace(figure, "ids")["text"] == [
            str(block) for view in step.snapshot.requests for block in view.block_table
        ]


def test_only_the_request_that_hit_a_block_is_ringed() -> None:
    run = pressure()
    step = run.steps[run.first(BlockTouched)]
    marks = block_marks(step.events, step.snapshot)
    chips = trace(block_tables(step.snapshot, marks, None, LIGHT, "en"), "rings")
    got = {(event.request, event.block) for event in step.events if isinstance(event, (BlockTouched, BlockAllocated))}
    assert len(chips["x"]) == len(got)


def test_requests_without_blocks_are_said_in_words() -> None:
    run = pressure()
    step = run.steps[run.first(Preempted)]
    words = trace(block_tables(step.snapshot, {}, None, LIGHT, "en"), "words")["text"]
    assert "preempted" in words
    assert "被抢占" in trace(block_tables(step.snapshot, {}, None, LIGHT, "zh"), "words")["text"]


def test_long_tables_are_elided_in_the_middle() -> None:
    step = wide().steps[0]
    figure = block_tables(step.snapshot, {}, None, LIGHT, "en")
    assert any(text.startswith("+") for text in trace(figure, "ids")["text"])


def test_crowd_says_how_many_are_left_out_and_keeps_the_selected() -> None:
    run = crowd()
    step = run.steps[-1]
    picked = step.snapshot.requests[-1].id
    figure = block_tables(step.snapshot, {}, Selection("request", picked), LIGHT, "en")
    names = trace(figure, "names")["text"]
    left_out = len(step.snapshot.requests) - len(names)
    assert f"+{left_out} more" in trace(figure, "words")["text"]
    assert any(picked in name for name in names)


def test_selection_fades_the_rest() -> None:
    run = lanes()
    step = next(step for step in run.steps if len(step.snapshot.running) >= 2)
    chosen = step.snapshot.request(step.snapshot.running[0])
    chips = trace(block_tables(step.snapshot, {}, Selection("request", chosen.id), LIGHT, "en"), "chips")
    bright = {ref for ref, opacity in zip(refs(chips), chips["marker"]["opacity"], strict=True) if opacity == 1}
    assert bright == {f"block:{block}" for block in chosen.block_table}


def test_free_queue_keeps_the_order_and_elides_the_middle() -> None:
    for run in (pressure(), lanes(), crowd()):
        for step in run.steps:
            queue = list(step.snapshot.pool.free_queue)
            figure = free_queue(step.snapshot, {}, None, LIGHT, "en")
            shown = [int(ref.partition(":")[2]) for ref in refs(trace(figure, "chips"))]
            hidden = [text for text in trace(figure, "ids")["text"] if text.startswith("+")]
            if hidden:
                gap = int(hidden[0][1:])
                assert len(shown) + gap == len(queue)
                assert shown == queue[: len(shown) - 6] + queue[-6:]
            else:
                assert shown == queue
            assert trace(figure, "ends")["text"][0] == "HEAD"


def test_schedule_counts_tokens_of_each_step() -> None:
    run = pressure()
    cursor = min(len(run.steps) - 1, 11)
    first, _ = window(cursor)
    figure = schedule(run.steps, cursor, 64, None, LIGHT, "en")
    totals = [sum(step.scheduled_tokens.values()) for step in run.steps[first : cursor + 1]]
    assert trace(figure, "tokens")["y"] == totals
    assert trace(figure, "sums")["text"] == [str(total) for total in totals]
    assert trace(figure, "budget")["y"] == [64, 64]
    assert trace(figure, "cursor")["x"][0] == cursor


@pytest.mark.parametrize("palette", [LIGHT, theme.palette("light", "projector")], ids=["desk", "projector"])
def test_words_at_a_lanes_end_have_a_column_of_the_narrowest_window(palette: Palette) -> None:
    """Else "✓ done" is cut off at the panel's edge."""
    run = pressure()
    narrowest = None
    for cursor in range(len(run.steps)):
        figure = schedule(run.steps, cursor, 64, None, palette, "en")
        low, high = figure["layout"]["xaxis"]["range"]
        narrowest = narrowest or high - low
        for x in trace(figure, "ends")["x"]:
            assert (high - x) / (high - low) > 0.8 / narrowest, cursor


@pytest.mark.parametrize("name", ["pressure", "lanes"])
def test_lanes_add_up_to_what_was_scheduled(name: str) -> None:
    run = RUNS[name]()
    for view in run.steps[-1].snapshot.requests:
        history = [
            (step.index, next((item for item in step.scheduled.requests if item.id == view.id), None))
            for step in run.steps
        ]
        lane = list(cells(history))
        assert sum(cell.tokens for cell in lane) == sum(step.scheduled_tokens.get(view.id, 0) for step in run.steps)
        assert (view.preemptions > 0) == any(cell.kind == "preempted" for cell in lane)
        assert view.status is RequestStatus.FINISHED


def test_attention_has_a_cell_for_each_head_and_block() -> None:
    step = lanes().steps[1]
    assert step.kernel is not None
    row = step.kernel.rows[0]
    item = trace(attention(row, LIGHT, "en"), "cells")
    assert len(item["x"]) == row.attention_mass.size
    share = f"{100 / row.attention_mass.shape[1]:.1f} %"
    assert all(share in hover for hover in hovers(item))


def test_names_from_outside_are_escaped() -> None:
    run = lanes()
    for figure in figures(run, len(run.steps) // 2).values():
        for item in figure["data"]:
            shown = [*item.get("text", ()), *(hovers(item) if "customdata" in item and item["type"] == "bar" else ())]
            assert not any("<b>&</b>" in text for text in shown)


@pytest.mark.parametrize("key", ["pool", "tables", "queue", "schedule"])
def test_labels_follow_the_language(key: str) -> None:
    run = pressure()
    cursor = run.first(Preempted)
    english, chinese = (figures(run, cursor, lang=lang)[key] for lang in LANGS)
    assert english != chinese
    assert [len(item["x"]) for item in english["data"]] == [len(item["x"]) for item in chinese["data"]]


def test_a_pattern_never_hides_the_fill() -> None:
    """Plotly.js takes the pattern's background for the fill where all marks have the same one."""
    rects = Rects("same")
    for place in range(3):
        rects.add(place, 0, 1, 1, LIGHT.preempted, pattern="/")
    assert rects.trace(LIGHT.card)["marker"]["pattern"]["bgcolor"] == LIGHT.preempted

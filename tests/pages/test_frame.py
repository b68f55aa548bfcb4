"""A frame is small, serialisable, and says what its step says."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from typing import Any, get_args

import plotly.graph_objects as go
import pytest

from engine.config import Cache, EngineConfig
from engine.events import BlockAllocated
from engine.radix_events import NodeInserted
from engine.timeline import LawResult
from pages.figures.marks import Selection
from pages.ui import theme
from pages.ui.frame import PANELS, cards, first_open, pack, parts
from pages.ui.scene import Scene
from pages.ui.text import LANGS, Lang
from pages.ui.theme import DARK, LIGHT
from tests.pages.fakes import RUNS, Run, lanes, pressure, spec

MAX_KB = 70
CACHES: tuple[Cache, ...] = get_args(Cache)
ALL = [panel.name for panel in PANELS if panel.cache != "radix"]


def scene(run: Run, cursor: int, selection: Selection | None = None, **more: Any) -> Scene:
    defaults: dict[str, Any] = {"palette": LIGHT, "lang": "en"}
    return Scene(run.steps, cursor, run.initial, run.config, selection=selection, **defaults | more)


def build(run: Run, cursor: int, selection: Selection | None = None, **more: Any) -> dict[str, Any]:
    """Every part of a frame, those of closed panels too."""
    return parts(scene(run, cursor, selection, **more), ALL)


def tiles(run: Run, cursor: int) -> dict[str, Any]:
    return {tile["id"]: tile for tile in build(run, cursor)["strip"]["tiles"]}


@pytest.mark.parametrize("name", RUNS)
@pytest.mark.parametrize("lang", LANGS)
def test_serialisable_at_every_step(name: str, lang: Lang) -> None:
    run = RUNS[name]()
    for cursor in range(-1, len(run.steps), max(1, len(run.steps) // 8)):
        for selection in (None, Selection("request", "A"), Selection("block", 2)):
            json.dumps(build(run, cursor, selection, lang=lang, palette=DARK), allow_nan=False)


def test_before_the_first_step() -> None:
    data = build(lanes(), -1)
    assert data["requests"]["rows"] == []
    assert data["laws"]["state"] == "unchecked"
    assert data["why"]["sentences"]
    assert tiles(lanes(), -1)["pool"]["value"] == "0"
    assert data["head"]["moved"] == []


def test_kpis_repeat_the_snapshot() -> None:
    run = pressure()
    for cursor, step in enumerate(run.steps):
        shown = tiles(run, cursor)
        assert shown["requests"]["value"] == str(len(step.snapshot.running))
        assert shown["tokens"]["value"] == str(sum(step.scheduled_tokens.values()))
        assert shown["blocks"]["value"] == str(step.scheduled.budgets.blocks.used)
        assert shown["pool"]["value"] == str(step.snapshot.pool.owned)
        binding = [name for name in ("tokens", "blocks", "sequences") if shown[name]["binds"]]
        assert binding == ([step.scheduled.budgets.binding] if step.scheduled.budgets.binding else [])


def test_queue_header_sums_to_the_pool() -> None:
    run = pressure()
    for cursor in range(len(run.steps)):
        left, _, total = build(run, cursor)["queue"]["sub"].partition(" = ")
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
        data = parts(Scene(changed, 2, run.initial, run.config, LIGHT, lang), ())  # type: ignore[arg-type]
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


def test_every_diagram_has_words_for_screen_readers() -> None:
    run = pressure()
    diagrams = [panel.name for panel in PANELS if panel.kind in ("figure", "kernel") and panel.name in ALL]
    for cursor in (-1, 0, len(run.steps) - 1):
        for lang in LANGS:
            data = build(run, cursor, lang=lang)
            assert all(data[name]["alt"] for name in diagrams)


def test_every_panel_lies_in_a_card_and_one_of_each_is_open() -> None:
    for lang in LANGS:
        shown = cards("hash", lang)
        assert sorted(panel["name"] for card in shown for panel in card["panels"]) == sorted(ALL)
        assert all(panel["title"] for card in shown for panel in card["panels"])
    assert sorted(first_open("hash")) == sorted(card["panels"][0]["name"] for card in cards("hash", "en"))


@pytest.mark.parametrize("cache", CACHES)
def test_a_projector_gets_fewer_cards_with_the_same_panels(cache: Cache) -> None:
    def names(shown: list[dict[str, Any]]) -> list[str]:
        return sorted(panel["name"] for card in shown for panel in card["panels"])

    desk, projector = cards(cache, "en"), cards(cache, "en", "projector")
    assert names(projector) == names(desk)
    assert [card["slot"] for card in projector] == ["tables", "pool", "schedule", "why"]
    assert sorted(first_open(cache, "projector")) == sorted(card["panels"][0]["name"] for card in projector)
    assert {"tables", "pool", "why"} <= set(first_open(cache, "projector"))


def _type_sizes(figure: Any) -> Iterator[float]:
    """Every size of type in a figure, wherever it stands."""
    if isinstance(figure, dict):
        for key, value in figure.items():
            if key in ("font", "textfont", "tickfont"):
                yield value["size"]
            else:
                yield from _type_sizes(value)
    elif isinstance(figure, list):
        for value in figure:
            yield from _type_sizes(value)


@pytest.mark.parametrize("cache", CACHES)
def test_type_is_larger_for_a_projector_in_every_figure(cache: Cache) -> None:
    config = EngineConfig(cache=cache, num_blocks=40, block_size=4, max_num_batched_tokens=64, max_num_seqs=4)
    run = Run(config, [spec(name, 30, 6, at=4 * place, shared=20) for place, name in enumerate("ABCDE")])
    names = [panel["name"] for card in cards(cache, "en") for panel in card["panels"]]
    desk, projector = (
        parts(replace(scene(run, 20), palette=theme.palette("light", look)), names) for look in theme.LOOKS
    )
    for name in names:
        if "figure" not in desk[name]:
            continue
        small, large = (list(_type_sizes(look[name]["figure"])) for look in (desk, projector))
        assert large == pytest.approx([size * theme.PROJECTOR_SCALE for size in small], rel=0.01), name
        assert min(small) >= 12.5
        go.Figure(projector[name]["figure"])


def test_a_selected_node_keeps_its_pages_bright() -> None:
    config = EngineConfig(cache="radix", num_blocks=40, block_size=4, max_num_batched_tokens=64, max_num_seqs=4)
    run = Run(config, [spec(name, 30, 6, at=4 * place, shared=20) for place, name in enumerate("ABC")])
    view = run.steps[10].snapshot.radix
    assert view is not None
    node = next(each for each in view if len(each.pages))
    figure = parts(scene(run, 10, Selection("node", node.id)), ["pool"])["pool"]["figure"]
    cells = next(item for item in figure["data"] if item["name"] == "cells")
    bright = {
        data[0] for data, opacity in zip(cells["customdata"], cells["marker"]["opacity"], strict=True) if opacity == 1
    }
    assert bright == {f"block:{page}" for page in map(int, node.pages)}


def test_the_radix_cache_shows_its_tree_and_heap_instead_of_hash_chains() -> None:
    config = EngineConfig(cache="radix", num_blocks=40, block_size=4, max_num_batched_tokens=64, max_num_seqs=4)
    run = Run(config, [spec(name, 30, 6, at=4 * place, shared=20) for place, name in enumerate("ABCDE")])
    names = [panel["name"] for card in cards("radix", "en") for panel in card["panels"]]
    assert {"tree", "heap"} <= set(names)
    assert "chains" not in names
    assert {"tree", "heap"} <= set(first_open("radix"))
    for cursor in range(-1, len(run.steps)):
        shown = parts(scene(run, cursor, Selection("node", 1)), names)
        assert shown["tree"]["alt"].startswith("Radix tree: ")
        go.Figure(shown["tree"]["figure"])
        go.Figure(shown["heap"]["figure"])
    for step in run.steps:
        new = {f"node:{event.node}" for event in step.events if isinstance(event, NodeInserted)}
        assert new <= set(parts(scene(run, step.index), ())["head"]["moved"])
    assert any(ref.startswith("node:") for ref in parts(scene(run, 0), ())["head"]["moved"])
    heap = next(item for item in shown["heap"]["figure"]["data"] if item["name"] == "nodes")
    tree = next(item for item in shown["tree"]["figure"]["data"] if item["name"] == "nodes")
    held = dict(zip(tree["customdata"], tree["hovertext"], strict=True))
    assert heap["customdata"]
    for ref, hover in zip(heap["customdata"], heap["hovertext"], strict=True):
        assert ref not in held or hover.endswith(held[ref]), "the same card in both diagrams"
    labels = next(item for item in shown["tree"]["figure"]["data"] if item["name"] == "labels")
    assert len(labels["text"]) > 5


def test_the_blocks_handed_out_are_named_for_the_eye() -> None:
    run = pressure()
    step = run.first(BlockAllocated)
    allocated = [f"block:{event.block}" for event in run.steps[step].events if isinstance(event, BlockAllocated)]
    assert build(run, step)["head"]["moved"] == allocated


class TestPack:
    def test_only_open_panels_travel(self) -> None:
        names = pack([scene(lanes(), 3)], ["pool"])["frames"][0]["parts"]
        assert set(names) == {"strip", "laws", "head", "pool"}

    def test_a_part_travels_once_and_not_at_all_if_known(self) -> None:
        run = lanes()
        both = pack([scene(run, 3), scene(run, 3)], first_open("hash"))
        first, second = both["frames"]
        assert first == second
        assert set(both["parts"]) == set(first["parts"].values())
        again = pack([scene(run, 3)], first_open("hash"), known=both["parts"].keys())
        assert (again["frames"], again["parts"]) == ([first], {})

    def test_a_changed_part_has_another_name(self) -> None:
        run = lanes()
        names = [frame["parts"] for frame in pack([scene(run, 3), scene(run, 4)], first_open("hash"))["frames"]]
        assert names[0]["schedule"] != names[1]["schedule"]

    def test_what_did_not_change_between_steps_keeps_its_name(self) -> None:
        """A decode step that takes no block leaves the free queue as it was."""
        run = lanes()
        quiet = next(
            index
            for index in range(1, len(run.steps))
            if run.steps[index].snapshot.pool.free_queue == run.steps[index - 1].snapshot.pool.free_queue
            and not scene(run, index).marks
            and not scene(run, index - 1).marks
        )
        names = [
            frame["parts"] for frame in pack([scene(run, quiet - 1), scene(run, quiet)], first_open("hash"))["frames"]
        ]
        assert names[0]["queue"] == names[1]["queue"]

    @pytest.mark.parametrize("name", ["pressure", "lanes"])
    def test_a_step_is_light(self, name: str) -> None:
        """As a browser with the step before gets it, however long the prompts."""
        run = RUNS[name]()
        known: set[str] = set()
        for cursor in range(len(run.steps)):
            prompts = {view.id: "word " * 200 for view in run.steps[-1].snapshot.requests}
            packed = pack([scene(run, cursor, prompts=prompts)], first_open("hash"), known)
            known = set(packed["frames"][0]["parts"].values())
            assert len(json.dumps(packed, ensure_ascii=False).encode()) < MAX_KB * 1000

"""The compare and memory pages: numbers come from the run, links open cold, nonsense is one sentence."""

from __future__ import annotations

import json

import plotly.graph_objects as go
import pytest

from engine.roofline import read_clock
from engine.usage import slot_use
from pages.figures.differences import differing_blocks, differing_requests, pool_rings, table_rings
from pages.figures.memory import KINDS, slot_bars, uses
from pages.figures.staircase import first_lookups, staircase, usable_hit
from pages.ui.theme import DARK, LIGHT
from scenarios.compare import compare_recorded
from scenarios.recording import replay
from tests.pages.test_pages import open_page

CLOCK = read_clock("SmolLM2-135M@H100-SXM")


def test_what_differs_is_marked_from_the_step_on_where_the_two_part() -> None:
    found = compare_recorded("contiguous", (), (("kv_layout", "paged"),), CLOCK)
    a, b = found.a.steps[6].snapshot, found.b.steps[6].snapshot
    assert [mine.id for mine, _ in differing_requests(a, b)] == ["D"]
    blocks = differing_blocks(a, b)
    assert blocks
    assert blocks == tuple(n for n in range(13) if a.pool.ref_count[n] != b.pool.ref_count[n] or n in blocks)
    assert len(pool_rings(a, b, LIGHT)["x"]) == len(blocks)
    assert differing_blocks(a, a) == ()
    assert table_rings(a, a, LIGHT)["x"] == []
    go.Figure({"data": [pool_rings(a, b, DARK), table_rings(a, b, DARK)]})


def test_slots_of_the_contiguous_scenario_are_those_of_its_notes() -> None:
    first, sixth = (slot_use(replay("contiguous")[step], contiguous=True) for step in (0, 6))
    assert (first.written, first.reserved, first.internal, first.external) == (28, 23, 5, 0)
    assert (sixth.external, sixth.free) == (64, 0)


@pytest.mark.parametrize("layout", ["paged", "contiguous"])
def test_slots_by_kind_add_up_to_the_pool(layout: str) -> None:
    steps = replay("contiguous", (("kv_layout", layout),))
    bars = uses(steps, layout == "contiguous")
    assert {sum(getattr(use, kind) for kind in KINDS) for _, use in bars} == {12 * 8}
    figure = slot_bars(bars, bars[-1][0], LIGHT, "en")
    go.Figure(figure)
    assert [trace["name"] for trace in figure["data"]] == list(KINDS)
    written = figure["data"][0]
    heights = written["y"] if isinstance(written["y"], list) else [written["y"]]
    assert heights == [use.written for _, use in bars]


def test_stairs_are_the_engines_own_limit() -> None:
    for size in (1, 4, 16):
        lookups = first_lookups(replay("shared_prefix", (("block_size", size), ("num_blocks", 1 + 256 // size))))
        assert len(lookups) == 4
        assert [lookup.limit for lookup in lookups] == [usable_hit(lookup.tokens, size) for lookup in lookups]
        figure = staircase(lookups, size, LIGHT, "en")
        assert figure["data"][2]["y"] == [lookup.hit_tokens for lookup in lookups]
        go.Figure(figure)


@pytest.mark.parametrize("lang", ["en", "zh"])
def test_compare_opens_cold_on_a_link(lang: str) -> None:
    page = open_page("pages/compare.py", scenario="contiguous", a="", b="kv_layout:paged", step="7", lang=lang)
    assert not page.exception
    assert not page.error and not page.warning
    assert page.slider[0].value == 6
    assert len(page.get("plotly_chart")) == 6
    assert any("D" in each.value for each in page.markdown)
    assert "source" in page.dataframe[0].value or "来源" in page.dataframe[0].value


@pytest.mark.parametrize(
    ("query", "says"),
    [
        ({"a": "colour:red"}, "There is no setting called colour"),
        ({"b": "block_size:0"}, "block_size is 0"),
        ({"b": "block_size:["}, "block_size=["),
        ({"scenario": "<img>"}, "There is no recorded scenario called"),
        ({"scenario": "contiguous", "a": "num_blocks:2"}, "On side A"),
        ({"step": "1e9"}, ""),
        ({"step": "999999"}, ""),
    ],
)
def test_nonsense_in_a_compare_link_is_a_sentence(query: dict[str, str], says: str) -> None:
    page = open_page("pages/compare.py", **query)
    assert not page.exception
    said = " ".join(each.value for each in [*page.error, *page.warning])
    assert says in said
    assert bool(said) == bool(says)


def test_presets_step_and_slider_name_absolute_steps() -> None:
    page = open_page("pages/compare.py", scenario="three_requests")
    page.button(key="pair-layout").click().run()
    assert not page.exception
    assert page.query_params["b"] == "kv_layout:paged"
    before = page.slider[0].value
    page.button(key="compare-step").click().run()
    assert page.slider[0].value == before + 1
    page.slider[0].set_value(3).run()
    assert page.query_params["step"] == "4"


def test_memory_opens_cold_and_its_block_size_changes_the_waste() -> None:
    page = open_page("pages/memory.py", scenario="contiguous", block="16")
    assert not page.exception
    assert len(page.get("plotly_chart")) == 5
    large = json.loads(page.get("plotly_chart")[0].proto.spec)
    page.select_slider[0].set_value("4").run()
    assert not page.exception
    assert page.query_params["block"] == "4"
    assert json.loads(page.get("plotly_chart")[0].proto.spec) != large


@pytest.mark.parametrize("query", [{"block": "7"}, {"reserve": "all"}, {"clock": "abacus"}, {"scenario": "nope"}])
def test_nonsense_in_a_memory_link_is_a_sentence(query: dict[str, str]) -> None:
    page = open_page("pages/memory.py", **query)
    assert not page.exception
    assert len(page.warning) == 1

"""The prefix page: rulers and stages say what the engine did, links open cold, bad input is one sentence."""

from __future__ import annotations

import json

import plotly.graph_objects as go
import pytest
from streamlit.testing.v1 import AppTest

from pages.figures.heap_stages import Stage, heap_stages, stages, stages_alt
from pages.figures.match_ruler import Ruler, match_ruler, ruler_alt
from pages.figures.primitives import Figure, Trace
from pages.ui.text import LANGS, Lang
from pages.ui.theme import DARK, LIGHT
from scenarios.prefix_caches import replayable
from scenarios.tree_operations import EXAMPLES, parse, play
from tests.pages.test_pages import open_page

PAGE = "pages/prefix.py"
RULERS = [Ruler("hash 16", 16, 57, 32, 32), Ruler("radix 4", 4, 57, 43, 40), Ruler("radix 16", 16, 57, 0, 0)]


def named(figure: Figure, name: str) -> Trace:
    found: Trace = next(item for item in figure["data"] if item["name"] == name)
    return found


def opened(**query: str) -> AppTest:
    page = open_page(PAGE, **query)
    assert not page.exception
    return page


def charts(page: AppTest) -> list[Figure]:
    return [json.loads(each.proto.spec) for each in page.get("plotly_chart")]


def html(page: AppTest) -> str:
    return " ".join(part.proto.body for part in page.get("html"))


@pytest.mark.parametrize("lang", LANGS)
def test_a_ruler_is_as_long_as_the_prompt_in_its_three_parts(lang: Lang) -> None:
    figure = match_ruler(RULERS, LIGHT, lang)
    go.Figure(figure)
    assert named(figure, "usable")["y"] == [0.66, 0.66], "nothing usable has no bar"
    assert named(figure, "usable")["width"] == [32, 40]
    assert (named(figure, "lost")["x"], named(figure, "lost")["width"]) == ([40], 3)
    assert (named(figure, "computed")["x"], named(figure, "computed")["width"]) == ([32, 43, 0], [24, 13, 56])
    assert (named(figure, "last")["x"], named(figure, "last")["width"]) == ([56] * 3, 1), "computed in any case"
    assert named(figure, "lost")["marker"]["pattern"]["shape"] == ["/"]
    edges = [x for x in named(figure, "page edges")["x"] if x is not None]
    assert edges[::2] == [16, 32, 48, *range(4, 57, 4), 16, 32, 48]
    assert all(str(number) in ruler_alt(RULERS, lang) for number in (57, 43, 40, 17, 32, 25))


def test_labels_of_a_ruler_are_words_numbers_or_nothing() -> None:
    short = match_ruler([Ruler("radix 4", 4, 57, 43, 40)], DARK, "en")
    assert named(short, "labels")["text"] == ["usable 40", "3", "not matched 13"]
    assert named(match_ruler([Ruler("radix 1", 1, 600, 599, 599)], DARK, "en"), "labels")["text"] == ["usable 599"]


def test_stages_are_the_heap_after_each_event() -> None:
    """O08's last eviction: leaf 3 (the 9) goes, its parent 2 becomes a leaf and goes too."""
    example = EXAMPLES["in_use"]
    found = stages(play(parse(example.text), 1, 24)[-1].events)
    assert [(stage.node, stage.joined, [node for node, _ in stage.array]) for stage in found] == [
        (None, False, [3]), (3, False, []), (2, True, [2]), (2, False, []),
    ]  # fmt: skip
    figure = heap_stages(found, LIGHT, "en")
    go.Figure(figure)
    assert figure["layout"]["yaxis"]["ticktext"] == ["built", "node 3 out", "parent 2 in", "node 2 out"]
    assert [text[:2] for text in named(figure, "entries")["text"]] == ["3 ", "+2"]
    assert named(figure, "words")["text"] == ["empty: no leaf is left"] * 2
    assert stages_alt(found, "en").startswith("built: 3; node 3 out: ; parent 2 in: 2")


@pytest.mark.parametrize("lang", LANGS)
def test_long_and_missing_evictions_are_pictures_too(lang: Lang) -> None:
    many = [Stage(tuple((node, node) for node in range(20)), 1 if number else None) for number in range(30)]
    for found in ([], many):
        go.Figure(heap_stages(found, DARK, lang))
        assert stages_alt(found, lang)
    assert any("21" in text for text in named(heap_stages(many, LIGHT, lang), "words")["text"])


@pytest.mark.parametrize("lang", LANGS)
def test_a_cold_link_opens_scenario_step_and_language(lang: Lang) -> None:
    page = opened(scenario="radix_fork", step="3", hash="4", radix="4", request="B", lang=lang)
    assert not page.error and not page.warning
    assert page.slider[0].value == 2
    tree = next(figure for figure in charts(page) if any(trace["name"] == "matched path" for trace in figure["data"]))
    assert named(tree, "nodes")["marker"]["symbol"].count("diamond") == 1, "step 2 cuts an edge"
    ruler = next(figure for figure in charts(page) if any(trace["name"] == "page edges" for trace in figure["data"]))
    assert named(ruler, "usable")["width"] == [4, 6, 4], "O10: six match, four fill a page of 4, none one of 16"
    assert len(page.dataframe) == 3
    shown = {name: page.query_params[name] for name in ("scenario", "step", "hash", "radix", "request")}
    assert shown == {"scenario": "radix_fork", "step": "3", "hash": "4", "radix": "4", "request": "B"}


def test_tables_have_a_row_for_each_cache_and_the_numbers_of_the_run() -> None:
    page = opened(scenario="shared_prefix", step="4", request="B")
    mine, sums, every = (table.value for table in page.dataframe)
    assert list(mine.iloc[:, 0]) == list(sums.iloc[:, 0]) == ["hash 16", "radix 1", "radix 4", "radix 16"]
    assert mine["matched"].tolist() == [32, 43, 43, 43]
    assert mine["usable"].tolist() == [32, 43, 40, 32]
    assert mine["computed"].tolist() == [25, 14, 17, 25]
    assert len(every) == 4 * 4
    assert every["usable"].iloc[::4].sum() == sums["usable"].iloc[0]


def test_the_request_shown_follows_the_step_until_one_is_picked() -> None:
    page = opened(scenario="shared_prefix", step="1")
    assert any("Request A" in caption.value for caption in page.caption)
    page.slider[0].set_value(3).run()
    assert any("Request B" in caption.value for caption in page.caption)
    assert page.query_params["step"] == "4"
    page.button_group(key="prefix-request").set_value("A").run()
    page.button(key="prefix-step").click().run()
    assert page.slider[0].value == 4
    assert any("Request A" in caption.value for caption in page.caption)
    assert page.query_params["request"] == "A"


def test_another_scenario_opens_where_it_first_reuses_something() -> None:
    page = opened(scenario="shared_prefix", step="9", request="B")
    page.selectbox(key="prefix-scenario").set_value("radix_fork").run()
    assert not page.exception and not page.warning
    assert page.slider[0].value == 2, "B matches and the edge is cut (the scenario's own note)"


def test_a_run_that_is_over_stays_at_its_last_step() -> None:
    """Preemption costs the larger blocks steps: hash 16 takes 28, the tree at page 1 takes 25."""
    page = opened(scenario="memory_pressure", step="28")
    assert page.slider[0].value == 27
    assert "over since step 25" in html(page)


@pytest.mark.parametrize("name", replayable())
def test_every_scenario_opens_at_every_page_size(name: str) -> None:
    for size in ("1", "4", "16"):
        page = opened(scenario=name, hash=size, radix=size)
        assert not page.error and not page.warning


@pytest.mark.parametrize(
    ("query", "says"),
    [
        ({"scenario": "nope"}, "nope cannot be run over both caches"),
        ({"scenario": "parallel_sampling"}, "parallel_sampling cannot be run over both caches"),
        ({"hash": "7"}, "The link's hash is 7"),
        ({"radix": "²"}, "The link's radix is ²"),
        ({"request": "<b>"}, "no request called <b>"),
        ({"step": "1e9"}, ""),
        ({"step": "999999"}, ""),
        ({"mode": "upside down"}, ""),
        ({"mode": "tree", "example": "nope"}, "There is no example called nope"),
        ({"mode": "tree", "size": "3"}, "The link's size is 3"),
        ({"mode": "tree", "pool": "-1", "policy": "lru"}, "The link's pool is -1"),
        ({"mode": "tree", "ops": "insert 12\nunlock 12"}, "Operation 2: 12 is not locked"),
        ({"mode": "tree", "ops": "<script>"}, "Line 1: there is no operation called <script>"),
        ({"mode": "tree", "op": "99999"}, ""),
    ],
)
def test_nonsense_in_a_link_is_a_sentence(query: dict[str, str], says: str) -> None:
    page = opened(**query)
    said = " ".join(each.value for each in [*page.error, *page.warning])
    assert says in said
    assert bool(said) == bool(says)


@pytest.mark.parametrize("lang", LANGS)
@pytest.mark.parametrize("name", list(EXAMPLES))
def test_every_example_opens_cold_at_each_operation(name: str, lang: Lang) -> None:
    page = opened(mode="tree", example=name, op="1", lang=lang)
    assert page.slider[0].value == 1
    last = len(EXAMPLES[name].lines)
    assert page.slider[0].max == last
    page.slider[0].set_value(last).run()
    assert not page.exception and not page.error
    assert page.query_params["op"] == str(last)


def test_own_operations_travel_in_the_link() -> None:
    page = opened(mode="tree", ops="insert 12\nlock 12\nevict 5", op="3", size="1", pool="24", policy="mru")
    assert not page.warning
    assert page.text_area[0].value == "insert 12\nlock 12\nevict 5"
    assert "3/3: evict 5" in html(page) and "Asked for: 5, freed: 0" in html(page)
    assert (page.query_params["example"], page.query_params["policy"]) == ("own", "mru")


def test_one_more_operation_is_done_after_those_that_are_there() -> None:
    page = opened(mode="tree", ops="insert 1234", op="0")
    page.selectbox(key="tree-kind").set_value("match")
    page.text_input(key="tree-argument").set_value("129")
    next(button for button in page.button if button.label == "Do it").click().run()
    assert not page.exception and not page.error
    assert page.text_area[0].value == "insert 1234\nmatch 129"
    assert page.slider[0].value == 2
    assert "2/2: match 129" in html(page) and "Matched: 2." in html(page)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("insert 1234\nunlock 1234", "Operation 2: 1234 is not locked"),
        ("insert 1234\ninsert " + "9" * 30, "Line 2: the text has 30 characters"),
        ("insert 1234\nfly", "Line 2: there is no operation called fly"),
    ],
)
def test_bad_operations_leave_the_tree_as_it_was(text: str, says: str) -> None:
    page = opened(mode="tree", ops="insert 1234", op="1")
    before = charts(page)
    page.text_area[0].set_value(text).run()
    assert not page.exception
    (error,) = page.error
    assert says in error.value and error.value.endswith("The tree stays as it was.")
    assert charts(page) == before
    page.text_area[0].set_value("insert 1234\nmatch 12").run()
    assert not page.error and page.slider[0].max == 2


def test_a_pool_too_small_for_the_operations_is_refused() -> None:
    page = opened(mode="tree", ops="insert abcdefghijklmn", op="1", pool="24")
    page.selectbox(key="tree-pool").set_value("12").run()
    (error,) = page.error
    assert "needs 14 tokens, but only 12 are free" in error.value


def test_each_half_keeps_its_place() -> None:
    page = opened(scenario="radix_fork", step="3")
    page.button_group(key="prefix-mode").set_value("tree").run()
    assert not page.exception
    page.selectbox(key="tree-example").set_value("locked_ancestor").run()
    page.button_group(key="prefix-mode").set_value("side").run()
    assert not page.exception and not page.warning
    assert (page.query_params["scenario"], page.query_params["step"]) == ("radix_fork", "3")
    assert page.slider[0].value == 2
    page.button_group(key="prefix-mode").set_value("tree").run()
    assert page.query_params["example"] == "locked_ancestor"

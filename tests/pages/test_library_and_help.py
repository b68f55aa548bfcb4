"""The library and the help page: every scenario, question and term is there, with links that lead where they say."""

from __future__ import annotations

import base64
import xml.etree.ElementTree as ElementTree
from html import unescape
from urllib.parse import parse_qsl

import pytest
from streamlit.testing.v1 import AppTest

from pages.figures.svg import svg
from pages.help import ASKED
from pages.ui.covers import HEIGHT, WIDTH, cover
from pages.ui.help_messages import TERMS
from pages.ui.links import focus_of, step_query
from pages.ui.text import LANGS, Lang, t
from pages.ui.theme import DARK, LIGHT, Palette
from scenarios import load, recording
from scenarios.schema import QUESTIONS
from tests.pages.test_pages import frame, open_page, session_of

NAMES = load.library()
NS = "{http://www.w3.org/2000/svg}"


def links(test: AppTest) -> list[dict[str, str]]:
    """The queries of the links into the step page, the menu's left out."""
    found = [dict(parse_qsl(link.proto.query_string)) for link in test.get("page_link")]
    return [query for query in found if "step" in query]


def texts(test: AppTest) -> str:
    html = [unescape(part.proto.body) for part in test.get("html")]
    return "\n".join([part.value for part in (*test.markdown, *test.caption)] + html)


@pytest.mark.parametrize("lang", LANGS)
def test_the_library_shows_every_scenario(lang: Lang) -> None:
    test = open_page("pages/library.py", lang=lang)
    assert not test.exception
    shown, queries = texts(test), links(test)
    pictures = [part for part in test.get("html") if "kv-cover" in part.proto.body and "<img" in part.proto.body]
    assert len(pictures) == len(NAMES)
    for name in NAMES:
        scenario = load.load(name)
        assert scenario.summary.get(lang) in shown
        assert step_query(name, lang) in queries
        for answer in scenario.answers:
            select = focus_of(next(note for note in scenario.notes if note.step == answer.step))
            assert step_query(name, lang, answer.step, select=select) in queries
        for exercise in scenario.exercises:
            assert exercise.answer.get(lang) in shown
            assert step_query(name, lang, exercise.step, changes=exercise.config) in queries


@pytest.mark.parametrize("lang", LANGS)
def test_help_answers_every_question_and_names_every_term(lang: Lang) -> None:
    test = open_page("pages/help.py", lang=lang)
    assert not test.exception
    shown, queries = texts(test), links(test)
    assert set(ASKED) == set(range(1, QUESTIONS + 1))
    for number in ASKED:
        assert t(f"question.{number}", lang) in shown and t(f"answer.{number}", lang) in shown
    answers = {answer.question for name in NAMES for answer in load.load(name).answers}
    assert {query["scenario"] for query in queries} == {name for name in NAMES if load.load(name).answers}
    assert len(queries) >= len(answers)
    for key, both in TERMS.items():
        if key.startswith("term."):
            assert all(word in shown for word in both)
            assert t(key.replace("term.", "means."), lang) in shown


def test_a_link_of_the_library_opens_what_it_says_in_the_same_visit() -> None:
    test = open_page(scenario="memory_pressure", step="4")
    test.switch_page("pages/library.py").run()
    query = step_query("twins", "en", 0, select="request:B")
    test.switch_page("pages/step.py")
    for name, value in query.items():
        test.query_params[name] = value
    test.run()
    assert not test.exception
    assert test.session_state["scenario"] == "twins"
    assert frame(test)["step"] == 0


def test_a_link_starts_afresh_with_the_settings_it_names() -> None:
    test = open_page(scenario="memory_pressure", step="4")
    test.switch_page("pages/library.py").run()
    for changes, step in (({"num_blocks": 20}, 1), (None, -1)):
        test.switch_page("pages/step.py")
        test.query_params.clear()
        for name, value in step_query("memory_pressure", "en", step, changes=changes).items():
            test.query_params[name] = value
        test.run()
        assert session_of(test).engine.config.num_blocks == (20 if changes else 14)
        assert frame(test)["step"] == step
        test.switch_page("pages/library.py").run()


def test_the_way_back_from_the_library_keeps_the_place() -> None:
    test = open_page(scenario="memory_pressure", step="4")
    test.switch_page("pages/library.py").run()
    menu = next(dict(parse_qsl(link.proto.query_string)) for link in test.get("page_link"))
    assert menu == {"lang": "en", "scenario": "memory_pressure"}


@pytest.mark.parametrize("palette", [LIGHT, DARK], ids=lambda palette: palette.name)
@pytest.mark.parametrize("name", NAMES)
def test_a_cover_is_a_picture_of_the_run(name: str, palette: Palette) -> None:
    picture = cover(name, palette, "en")
    scenario = load.load(name)
    assert picture is not None and scenario.cover is not None and picture.alt
    root = ElementTree.fromstring(base64.b64decode(picture.source.split(",")[1]))
    assert (root.get("width"), root.get("height")) == (str(WIDTH), str(HEIGHT))
    words = {element.text for element in root.iter(f"{NS}text")}
    snapshot = recording.replay(name)[scenario.cover.step].snapshot
    expected = {
        "tables": {view.id for view in snapshot.requests},
        "pool": {str(block) for block in range(1, scenario.config.num_blocks) if snapshot.pool.ref_count[block] < 2},
        "queue": {str(block) for block in snapshot.pool.free_queue},
        "schedule": {view.id for view in snapshot.requests},
        "fairness": {f"{view.id}: 17 steps, overtaken ×8" for view in snapshot.requests if view.id == "cold"},
    }[scenario.cover.figure]
    assert expected <= words
    for rect in root.iter(f"{NS}rect"):
        assert float(rect.get("x", 0)) >= -1 and float(rect.get("x", 0)) + float(rect.get("width", 0)) <= WIDTH + 1
        assert float(rect.get("y", 0)) >= -1 and float(rect.get("y", 0)) + float(rect.get("height", 0)) <= HEIGHT + 1


def test_marks_of_a_picture_lie_where_the_figure_says() -> None:
    marker = {
        "color": "#111111",
        "line": {"color": ["#222222", "#333333"], "width": 1},
        "opacity": 1,
        "cornerradius": 2,
    }
    marker["pattern"] = {"shape": ["", "/"], "fgcolor": "#444444"}
    bars = {"type": "bar", "x": [0, 1], "base": [0, 1], "width": 1, "y": [1, 1], "marker": marker, "yaxis": "y"}
    label = {
        "type": "scatter",
        "mode": "text",
        "x": [1],
        "y": [1],
        "text": ["a &amp; b"],
        "textposition": "middle left",
    }
    label["textfont"] = {"size": 10, "family": "sans", "color": "#555555"}
    axes = {"xaxis": {"range": [0, 2]}, "yaxis": {"range": [2, 0]}}
    layout = {"margin": {"l": 10, "r": 10, "t": 20, "b": 20}, "font": {"family": "sans"}, **axes}
    root = ElementTree.fromstring(svg({"data": [bars, label], "layout": layout}, 220, 140))
    first, second, hatch = root.iter(f"{NS}rect")
    assert [first.get(name) for name in ("x", "y", "width", "height")] == ["10.0", "20.0", "100.00", "50.00"]
    assert [second.get(name) for name in ("x", "y", "stroke")] == ["110.0", "70.0", "#333333"]
    assert hatch.get("fill") == f"url(#{next(root.iter(f'{NS}pattern')).get('id')})"
    (text,) = root.iter(f"{NS}text")
    assert (text.text, text.get("text-anchor")) == ("a & b", "end")

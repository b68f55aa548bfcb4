"""The pages under Streamlit's own test runner: links, languages, upload, and no work done twice (case O18)."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest
from streamlit.testing.v1 import AppTest

from engine.config import EngineConfig
from engine.engine import Engine
from engine.runner import ScriptedRunner
from pages.figures.marks import Selection
from pages.figures.pool import pool
from pages.ui import models, workload
from pages.ui.session import REGISTRY
from pages.ui.theme import LIGHT
from pages.ui.workload import TraceChoice
from scenarios.traces.read import read
from tests.engine.replay import spec

ROOT = Path(__file__).parents[2]
TRACES = ROOT / "tests" / "traces"
TIMEOUT = 60
AZURE_3 = b"TIMESTAMP,ContextTokens,GeneratedTokens\r\n" + b"".join(
    b"2023-11-16 18:15:46.%d000000,%d,4\r\n" % (second, 20 + second) for second in range(1, 4)
)
AZURE_2 = b"".join(AZURE_3.splitlines(keepends=True)[:3])


def open_page(page: str = "", **query: str) -> AppTest:
    test = AppTest.from_file(str(ROOT / "app.py"), default_timeout=TIMEOUT)
    if page:
        test.switch_page(page)
    for name, value in {"model": "toy", "lang": "en", **query}.items():
        test.query_params[name] = value
    return test.run()


def frame(test: AppTest) -> dict[str, Any]:
    """What the stage was given to draw: the step in view."""
    (stage,) = test.get("bidi_component")
    data: dict[str, Any] = json.loads(stage.proto.json)
    (shown,) = data["frames"]
    return {**data, "step": shown["step"]}


def metrics(test: AppTest) -> dict[str, str]:
    return {metric.label: metric.value for metric in test.metric}


def session_of(test: AppTest) -> Any:
    return REGISTRY._sessions[test.session_state["visitor"]][0]


def test_first_page_shows_the_first_scenario_before_its_first_step() -> None:
    test = open_page()
    assert not test.exception
    assert frame(test)["step"] == -1
    assert frame(test)["lang"] == "en"


def test_link_opens_scenario_step_and_language() -> None:
    test = open_page(scenario="memory_pressure", step="4", lang="zh")
    assert not test.exception
    shown = frame(test)
    assert (shown["step"], shown["last"], shown["lang"]) == (3, 3, "zh")
    assert shown["select"] is None
    assert test.session_state["scenario"] == "memory_pressure"


@pytest.mark.parametrize(
    "query",
    [
        {"scenario": "nope"},
        {"scenario": "<img src=x>", "step": "1e9"},
        {"step": "-1"},
        {"step": "²"},
        {"lang": "fr"},
        {"model": "/etc/passwd"},
    ],
)
def test_nonsense_in_the_link_opens_a_page_all_the_same(query: dict[str, str]) -> None:
    test = open_page(**query)
    assert not test.exception
    assert frame(test)["step"] == -1


def test_a_rerun_runs_no_step_and_loads_nothing_again() -> None:
    test = open_page(scenario="three_requests", step="2")
    visit = session_of(test)
    with patch.object(workload, "Engine", side_effect=AssertionError("a second engine")):
        test.run()
        test.run()
    assert session_of(test) is visit
    assert len(visit.steps) == 2


def test_two_tabs_share_nothing() -> None:
    one, two = open_page(), open_page()
    session_of(one).want(2)
    assert session_of(one).wait_for(2, TIMEOUT)
    session_of(one).seek(2)
    session_of(one).select(Selection("block", 3))
    assert (session_of(two).cursor, session_of(two).last, session_of(two).selection) == (-1, -1, None)


@pytest.mark.parametrize(
    ("asked", "selection"),
    [
        ("request:A", Selection("request", "A")),
        ("block:3", Selection("block", 3)),
        ("request:nobody", None),
        ("block:99999", None),
        ("block:-1", None),
        ("\0", None),
    ],
)
def test_link_selects(asked: str, selection: Selection | None) -> None:
    test = open_page(scenario="three_requests", select=asked)
    assert not test.exception
    assert session_of(test).selection == selection


def test_a_visit_that_was_dropped_starts_again() -> None:
    test = open_page(scenario="three_requests", step="3")
    REGISTRY.close(test.session_state["visitor"])
    test.run()
    assert not test.exception
    assert session_of(test) is not None


def test_changing_the_scenario_starts_it_afresh() -> None:
    test = open_page(scenario="three_requests", step="3")
    picker = test.selectbox[0]
    picker.select("shared_prefix").run()
    assert not test.exception
    assert frame(test)["step"] == -1


def test_missing_weights_are_said_with_a_button(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pages.ui.options.find_smollm2", lambda: None)
    monkeypatch.setattr("pages.ui.model_choice.find_smollm2", lambda: None)
    test = AppTest.from_file(str(ROOT / "app.py"), default_timeout=TIMEOUT)
    test.query_params["lang"] = "en"
    test.run()
    assert not test.exception
    assert "toy model" in test.warning[0].value
    assert any("Fetch the real model" in button.label for button in test.button)
    assert frame(test)["step"] == -1


def test_a_model_that_cannot_be_loaded_is_a_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pages.ui.model_choice.default_model", lambda: "/no/such/model.gguf")
    monkeypatch.setattr("pages.ui.model_choice.SHELF", models.ModelShelf())
    test = AppTest.from_file(str(ROOT / "app.py"), default_timeout=TIMEOUT)
    test.query_params["lang"] = "en"
    test.run()
    assert not test.exception
    assert "model.gguf" in test.warning[0].value
    assert frame(test)["step"] == -1


class TestTraces:
    def upload(self, name: str, data: bytes, lang: str = "en") -> AppTest:
        test = open_page("pages/traces.py", lang=lang)
        assert not test.exception
        test.file_uploader[0].upload(name, data, "text/csv").run()
        return test

    def test_azure_file(self) -> None:
        test = self.upload("azure.csv", (TRACES / "azure_2023_conv_head40.csv").read_bytes())
        assert not test.exception
        assert not test.error
        assert (metrics(test)["Format"], metrics(test)["Requests"]) == ("Azure LLM", "40")
        assert len(test.dataframe[0].value) == 40
        assert "clipped" in test.info[0].value

    def test_mooncake_file(self) -> None:
        test = self.upload("mooncake.jsonl", (TRACES / "mooncake_conversation_head40.jsonl").read_bytes())
        assert not test.exception
        assert metrics(test)["Format"] == "Mooncake"
        assert metrics(test)["Hit rate, unlimited cache"].endswith("%")

    @pytest.mark.parametrize("lang", ["en", "zh"])
    def test_wrong_files_are_one_sentence(self, lang: str) -> None:
        for data in (b"", b"\x89PNG\r\n\x1a\n" + bytes(40), b"a,b\n1,2\n", b"{", "\u00e9".encode("latin-1")):
            test = self.upload("wrong.csv", data, lang)
            assert not test.exception
            assert len(test.error) == 1
            assert "wrong.csv" in test.error[0].value

    def test_o18_a_slider_moved_twice_loads_nothing_twice(self) -> None:
        test = self.upload("three.csv", AZURE_3)
        with patch("pages.traces.read", side_effect=AssertionError("parsed again")):
            test.number_input[0].set_value(2).run()
            test.number_input[0].set_value(3).run()
        assert not test.exception
        assert metrics(test)["Requests"] == "3"
        test.file_uploader[0].set_value(("two.csv", AZURE_2, "text/csv")).run()
        assert metrics(test)["Requests"] == "2"

    def test_o18_a_step_is_executed_once_and_a_second_file_is_one_load(self) -> None:
        test = self.upload("three.csv", AZURE_3)
        chosen = TraceChoice("trace-three", read(AZURE_3, "three.csv", None), 3, 1, 1.0)
        test.session_state["trace"], test.session_state["scenario"] = chosen, chosen.key
        test.switch_page("pages/step.py").run()
        assert not test.exception
        visit = session_of(test)
        visit.want(0)
        assert visit.wait_for(0, TIMEOUT)
        visit.seek(0)
        with patch.object(workload, "Engine", side_effect=AssertionError("a second engine")):
            test.run()
            test.run()
        assert not test.exception
        assert (len(visit.workload.requests), frame(test)["step"], visit.last) == (3, 0, 0)


def test_o18_a_pool_of_512_blocks_is_a_few_traces_and_no_shapes() -> None:
    engine = Engine(EngineConfig(num_blocks=512, max_num_batched_tokens=512), ScriptedRunner())
    engine.add(spec("A", 400, 60))
    for _ in range(20):
        step = engine.step()
    figure = pool(step.snapshot, {}, None, LIGHT, "en")
    assert len(figure["data"]) == 7
    assert not {"shapes", "annotations"} & figure["layout"].keys()
    assert len(next(trace for trace in figure["data"] if trace["name"] == "cells")["x"]) == 512

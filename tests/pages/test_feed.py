"""What the stage is fed over HTTP: only what was asked for, only to the visitor it belongs to, never a traceback."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from starlette.applications import Starlette
from starlette.testclient import TestClient

from engine.model.load import load_model
from pages.figures.marks import Selection
from pages.ui import feed
from pages.ui.frame import first_open
from pages.ui.session import REGISTRY, Session
from pages.ui.vendor import routes
from pages.ui.workload import scenario_workload

ANN = "ann-of-the-tests"
CLIENT = TestClient(Starlette(routes=routes()))


@pytest.fixture
def visit(monkeypatch: pytest.MonkeyPatch) -> Iterator[Session]:
    monkeypatch.setattr(feed, "WAIT_SECONDS", 20.0)
    session = Session(scenario_workload("three_requests", "toy", load_model("toy")))
    REGISTRY.put(ANN, session)
    yield session
    REGISTRY.close(ANN)


def asked(visit: Session, **more: Any) -> dict[str, Any]:
    return {"run": visit.run, "cursor": 0, "lang": "en", "theme": "light", "panels": first_open("hash"), **more}


def ask(visit: Session, **more: Any) -> dict[str, Any]:
    reply = CLIENT.post(f"/stage/{ANN}/frames", json=asked(visit, **more))
    assert reply.status_code == 200
    content: dict[str, Any] = reply.json()
    return content


def steps(reply: dict[str, Any]) -> list[int]:
    return [frame["step"] for frame in reply["frames"]]


def test_the_page_brings_the_step_in_view(visit: Session) -> None:
    data = feed.first(ANN, visit, "light", "en", {"scenario": "three_requests"})
    assert steps(data) == [-1]
    assert set(data["frames"][0]["parts"].values()) == set(data["parts"])
    assert (data["cursor"], data["last"], data["end"]) == (-1, -1, None)
    json.dumps(data, allow_nan=False)


def test_asking_ahead_computes_and_sends_what_is_there(visit: Session) -> None:
    first = ask(visit, cursor=-1, steps=[0, 1, 2])
    assert steps(first)[:1] == [0]
    assert visit.wait_for(2, 20.0)
    known = list(first["parts"])
    rest = ask(visit, cursor=0, steps=[1, 2], have=known)
    assert steps(rest) == [1, 2]
    assert not set(known) & set(rest["parts"])
    assert visit.cursor == 0


def test_far_ahead_the_newest_step_shows_how_far_it_is(visit: Session, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(feed, "WAIT_SECONDS", 0.0)
    reply = ask(visit, cursor=10**6, steps=[10**6], newest=True)
    assert steps(reply) == [reply["last"]]


def test_the_end_is_told(visit: Session) -> None:
    reply = ask(visit, cursor=10**6, steps=[10**6], newest=True)
    assert steps(reply) == [reply["end"]]
    assert (visit.cursor, visit.last) == (reply["end"], reply["end"])


def test_moving_and_selecting_are_told_without_asking_for_frames(visit: Session) -> None:
    ask(visit, cursor=1, steps=[1])
    reply = ask(visit, cursor=0, select={"kind": "block", "id": 2})
    assert (reply["frames"], reply["parts"]) == ([], {})
    assert (visit.cursor, visit.selection) == (0, Selection("block", 2))
    ask(visit, cursor=0)
    assert visit.selection is None


def test_another_run_or_visitor_is_gone(visit: Session) -> None:
    assert ask(visit, run="older") == {"gone": True}
    assert CLIENT.post("/stage/nobody/frames", json=asked(visit)).json() == {"gone": True}
    assert visit.cursor == -1


@pytest.mark.parametrize(
    "wrong",
    [
        {"steps": list(range(17))},
        {"steps": ["0"]},
        {"cursor": 1.5},
        {"lang": "fr"},
        {"theme": "<b>"},
        {"select": {"kind": "colour", "id": 1}},
        {"more": 1},
    ],
)
def test_nonsense_is_refused(visit: Session, wrong: dict[str, Any]) -> None:
    assert CLIENT.post(f"/stage/{ANN}/frames", json=asked(visit, **wrong)).status_code == 400
    assert visit.cursor == -1


def test_no_json_and_far_too_much_are_refused(visit: Session) -> None:
    assert CLIENT.post(f"/stage/{ANN}/frames", content=b"{").status_code == 400
    assert CLIENT.post(f"/stage/{ANN}/frames", content=b" " * 70_000).status_code == 413


def test_a_failure_is_said_in_the_visitors_language(visit: Session) -> None:
    visit.failure = "out of memory"
    for lang, word in (("en", "failed"), ("zh", "失败")):
        notice = ask(visit, lang=lang)["notice"]
        assert word in notice and "out of memory" in notice


def test_captions_are_the_notes_of_the_scenarios_own_run(visit: Session) -> None:
    assert ask(visit, cursor=0, steps=[0])["frames"]
    head = _part(ask(visit, cursor=0, steps=[0]), "head")
    assert head["caption"], "the summary: this is the toy model, the notes are another's"


def _part(reply: dict[str, Any], name: str) -> dict[str, Any]:
    part: dict[str, Any] = reply["parts"][reply["frames"][0]["parts"][name]]
    return part

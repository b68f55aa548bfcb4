"""Session files: what is saved opens the same view again, and a wrong file is one sentence in both languages."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from engine.errors import UserError
from engine.model.load import LoadedModel, load_model
from pages.figures.marks import Selection
from pages.ui.edits import Abort, Add, Configure, Fork
from pages.ui.session import Session
from pages.ui.session_file import VERSION, SessionFile, parse, restore, save, workload_of
from pages.ui.text import LANGS, t
from pages.ui.workload import TraceChoice, scenario_workload
from scenarios.schema import RequestEntry
from scenarios.traces.read import read

NAME = "mine.kvscope.json"
AZURE = b"TIMESTAMP,ContextTokens,GeneratedTokens\n2023-11-16 18:15:46.1,20,4\n2023-11-16 18:15:47.1,24,4\n"


@pytest.fixture(scope="module")
def loaded() -> LoadedModel:
    return load_model("toy")


@pytest.fixture
def visit(loaded: LoadedModel) -> Session:
    session = Session(scenario_workload("three_requests", "toy", loaded))
    session.edit(Configure(changes={"num_blocks": 40}))
    session.edit(Add(step=1, request=RequestEntry(id="mine", prompt="a question of my own", max_tokens=12)))
    session.edit(Fork(step=3, request="mine", n=1))
    session.edit(Abort(step=4, request="mine.1"))
    session.want(6)
    assert session.wait_for(6, 30.0)
    session.seek(6)
    session.select(Selection("request", "mine"))
    return session


def pictures(session: Session) -> list[Any]:
    return [
        (list(step.snapshot.requests), step.snapshot.pool.free_queue, dict(step.sampled), dict(step.text))
        for step in session.steps
    ]


def test_round_trip_opens_exactly_that_view(visit: Session, loaded: LoadedModel) -> None:
    saved = parse(save(visit, "zh").encode(), NAME)
    assert saved.lang == "zh"
    again = restore(saved, workload_of(saved, "toy", loaded, None))
    assert again.wait_for(6, 30.0)
    assert (again.cursor, again.selection, again.edits) == (6, visit.selection, visit.edits)
    assert again.engine.config.num_blocks == 40
    assert pictures(again)[:7] == pictures(visit)[:7]
    assert save(again, "zh") == save(visit, "zh")


def test_the_file_is_for_people_too(visit: Session) -> None:
    content = json.loads(save(visit, "en"))
    assert list(content)[:3] == ["kvscope", "scenario", "model"]
    assert content["config"] == {"num_blocks": 40}
    assert [edit["kind"] for edit in content["edits"]] == ["add", "fork", "abort"]
    assert content["selection"] == {"kind": "request", "id": "mine"}


def test_a_trace_is_a_reference(loaded: LoadedModel) -> None:
    choice = TraceChoice("trace-1", read(AZURE, "azure.csv", None), 2, 1, 1.0)
    saved = parse(save(Session(choice.workload("toy", loaded)), "en").encode(), NAME)
    assert workload_of(saved, "toy", loaded, choice).key == "trace-1@toy"
    for other in (None, TraceChoice("trace-2", choice.trace, 1, 1, 1.0)):
        with pytest.raises(UserError) as caught:
            workload_of(saved, "toy", loaded, other)
        assert "azure.csv" in str(caught.value)
        assert "2 requests" in str(caught.value)


def changed(**fields: Any) -> Callable[[dict[str, Any]], bytes]:
    return lambda content: json.dumps({**content, **fields}).encode()


def without(field: str) -> Callable[[dict[str, Any]], bytes]:
    return lambda content: json.dumps({name: value for name, value in content.items() if name != field}).encode()


WRONG: dict[str, tuple[Callable[[dict[str, Any]], bytes], str, str]] = {
    "empty": (lambda _: b"", "session.not_json", "line 1"),
    "picture": (lambda _: b"\x89PNG\r\n\x1a\n" + bytes(range(128, 256)), "session.not_text", "UTF-8"),
    "broken": (lambda _: b'{"kvscope": 1,\n"scenario": }', "session.not_json", "line 2"),
    "deep": (lambda _: b"[" * 200_000, "session.not_json", "line"),
    "list": (lambda _: b"[1, 2]", "session.other_file", "kvscope"),
    "other": (lambda _: b'{"a": 1}', "session.other_file", "kvscope"),
    "big": (lambda _: b" " * 600_000, "session.too_big", "512"),
    "newer": (changed(kvscope=VERSION + 1), "session.version", str(VERSION + 1)),
    "missing": (without("checksum"), "session.missing_field", "checksum"),
    "unknown": (changed(colour="red"), "session.unknown_field", "colour"),
    "cursor": (changed(cursor="six"), "session.bad_field", "cursor"),
    "nan": (lambda content: changed(cursor=float("nan"))(content), "session.bad_field", "cursor"),
    "kind": (changed(edits=[{"kind": "explode", "step": 1}]), "session.bad_field", "edits.0"),
    "step": (changed(edits=[{"kind": "abort", "step": -1, "request": "A"}]), "session.bad_field", "edits.0.step"),
    "prompt": (
        changed(edits=[{"kind": "add", "step": 1, "request": {"id": "x", "max_tokens": 1}}]),
        "session.missing_field",
        "edits.0.request.prompt",
    ),
}


@pytest.mark.parametrize("case", WRONG)
def test_a_wrong_file_is_one_sentence(visit: Session, case: str) -> None:
    spoil, key, words = WRONG[case]
    with pytest.raises(UserError) as caught:
        parse(spoil(json.loads(save(visit, "en"))), NAME)
    error = caught.value
    assert error.key == key
    assert NAME in str(error) and words in str(error)
    assert "\n" not in str(error)
    assert all(NAME in t(error.key, lang, **error.params) for lang in LANGS)


@pytest.mark.parametrize(
    ("fields", "key"),
    [
        ({"model": "smollm2"}, "session.model"),
        ({"scenario": "gone"}, "session.scenario"),
        ({"checksum": "0" * 16}, "session.changed"),
    ],
)
def test_what_cannot_be_had_here_is_said(visit: Session, loaded: LoadedModel, fields: dict[str, Any], key: str) -> None:
    saved = parse(changed(**fields)(json.loads(save(visit, "en"))), NAME)
    with pytest.raises(UserError) as caught:
        workload_of(saved, "toy", loaded, None)
    assert caught.value.key == key
    assert str(caught.value)


@pytest.mark.parametrize(
    ("fields", "key"),
    [
        ({"config": {"block_size": 0}}, "config.range"),
        ({"config": {"nonsense": 1}}, "config.unknown"),
        ({"edits": [{"kind": "abort", "step": 1, "request": "nobody"}]}, "request.unknown"),
    ],
)
def test_an_impossible_file_starts_nothing(
    visit: Session, loaded: LoadedModel, fields: dict[str, Any], key: str
) -> None:
    saved: SessionFile = parse(changed(**fields)(json.loads(save(visit, "en"))), NAME)
    with pytest.raises(UserError) as caught:
        restore(saved, workload_of(saved, "toy", loaded, None))
    assert caught.value.key == key

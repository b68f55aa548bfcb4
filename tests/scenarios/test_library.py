"""The scenarios of the library: what they claim holds on their model, and what they are about happens on both."""

from __future__ import annotations

import re

import pytest

from engine.events import Admitted, BlockTouched, Preempted, RequestFinished
from scenarios import claims, load, run
from scenarios.schema import Scenario

NAMES = ("three_requests", "shared_prefix", "memory_pressure")
PANELS = {"pool", "tables", "queue", "schedule", "attention", "requests", "laws"}
MODELS = ("toy", pytest.param("smollm2", marks=pytest.mark.model))


def test_the_library_in_teaching_order() -> None:
    assert load.library() == list(NAMES)


@pytest.mark.parametrize("name", NAMES)
def test_texts_are_there_in_both_languages(name: str) -> None:
    scenario = load.load(name)
    texts = [scenario.title, scenario.summary, scenario.story, *(note.say for note in scenario.notes)]
    for text in texts:
        assert text.en.isascii() and text.en.strip() == text.en
        assert not re.search("[，。；：？！、] ", text.zh)  # what YAML makes of a folded line
        assert any("\u4e00" <= char <= "\u9fff" for char in text.zh) and text.zh.strip() == text.zh
    assert scenario.notes and all(note.claims for note in scenario.notes)
    ids = {request.id for request in scenario.requests}
    for note in scenario.notes:
        assert note.focus is not None
        assert {"request": ids, "panel": PANELS}.get(note.focus.kind, {note.focus.id}) >= {note.focus.id}


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("model", MODELS)
def test_every_law_holds_and_all_finish(ran, name: str, model: str) -> None:  # type: ignore[no-untyped-def]
    job, steps = ran(name, model)
    assert run.complaint(job, steps) is None
    assert all(law.checked for step in steps if step.scheduled_tokens for law in step.laws if law.law != 8)
    assert all(view.status.value == "FINISHED" for view in steps[-1].snapshot.requests)
    assert len(steps) <= 40


@pytest.mark.model
@pytest.mark.parametrize("name", NAMES)
def test_every_claim_holds_on_smollm2(ran, name: str) -> None:  # type: ignore[no-untyped-def]
    _, steps = ran(name, "smollm2")
    scenario: Scenario = load.load(name)
    assert scenario.model == "smollm2"
    made = [(note.step, claim) for note in scenario.notes for claim in note.claims]
    assert len(made) >= 10
    assert [(step, claim) for step, claim in made if not claims.check(claim, steps[step])] == []


@pytest.mark.model
@pytest.mark.parametrize(
    ("name", "request_id", "text"),
    [
        ("three_requests", "A", " Paris.\n"),
        ("three_requests", "C", " Thursday,"),
        ("shared_prefix", "B", "A spider has 8 legs."),
        ("shared_prefix", "D", "The largest planet in our solar system is Jupiter."),
        ("memory_pressure", "C", " Mars, and Jupiter."),
    ],
)
def test_the_text_makes_sense(ran, name: str, request_id: str, text: str) -> None:  # type: ignore[no-untyped-def]
    assert ran(name, "smollm2")[1][-1].text[request_id].startswith(text)


def events(steps, kind):  # type: ignore[no-untyped-def]
    return [(step.index, event) for step in steps for event in step.events if isinstance(event, kind)]


@pytest.mark.parametrize("model", MODELS)
def test_three_requests_admits_one_step_after_a_finish(ran, model: str) -> None:  # type: ignore[no-untyped-def]
    _, steps = ran("three_requests", model)
    ended = next(index for index, event in events(steps, RequestFinished) if event.request == "A")
    late = [event.request for index, event in events(steps, Admitted) if index == ended + 1]
    [admitted] = late
    refused = next(view for view in steps[ended].snapshot.requests if view.id == admitted)
    assert refused.wait_reason is not None and refused.wait_reason.limit == "blocks"


@pytest.mark.parametrize("model", MODELS)
def test_shared_prefix_shares_loses_its_owner_and_is_revived(ran, model: str) -> None:  # type: ignore[no-untyped-def]
    _, steps = ran("shared_prefix", model)
    touched = events(steps, BlockTouched)
    shared = {event.block for _, event in touched if event.request == "B" and not event.revived}
    revived = {event.block for _, event in touched if event.request == "D" and event.revived}
    assert len(shared) >= 2 and revived == shared
    ends = {event.request: index for index, event in events(steps, RequestFinished)}
    back = next(index for index, event in touched if event.revived)
    assert max(ends["A"], ends["B"]) < back
    assert {event.request: event.hit_tokens for _, event in events(steps, Admitted)}["C"] == 0


@pytest.mark.parametrize("model", MODELS)
def test_memory_pressure_preempts_and_the_victim_finds_its_blocks(ran, model: str) -> None:  # type: ignore[no-untyped-def]
    _, steps = ran("memory_pressure", model)
    index, preempted = events(steps, Preempted)[0]
    assert preempted.need > preempted.have
    held = {view.id: view.block_table for view in steps[index - 1].snapshot.requests}[preempted.request]
    resumed = next(event for _, event in events(steps, Admitted) if event.resumed)
    assert resumed.request == preempted.request and resumed.hit_tokens > 0
    touched = [event for step, event in events(steps, BlockTouched) if step > index]
    found = {event.block for event in touched if event.request == resumed.request}
    assert found and found <= set(held)


@pytest.mark.parametrize("model", MODELS)
def test_a_preempted_request_writes_what_it_would_have_written(ran, model: str) -> None:  # type: ignore[no-untyped-def]
    _, steps = ran("memory_pressure", model)
    roomy = run.prepare("memory_pressure", run.Options(settings={"num_blocks": 64}, model=model))
    undisturbed = list(run.steps(roomy))
    assert not events(undisturbed, Preempted)
    assert undisturbed[-1].text == steps[-1].text

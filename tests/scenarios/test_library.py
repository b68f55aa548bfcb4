"""The scenarios of the library: what they claim holds on their model, and what they are about happens on both."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

import pytest
import yaml

from engine.errors import UserError
from engine.events import Admitted, BlockTouched, Preempted, RequestFinished
from engine.metrics import measure
from engine.model.load import load_model
from engine.model.weights import find_smollm2
from engine.timeline import Step
from pages.ui import frame
from scenarios import claims, load, recording, run
from scenarios.schema import Exercise, Scenario, Text

NAMES = (
    "three_requests", "shared_prefix", "middle_hit", "full_hit", "twins", "next_turn", "three_limits",
    "chunked_prefill", "memory_pressure", "swap", "static_batching", "contiguous", "parallel_sampling",
    "radix_fork", "leaf_heap", "lpm_starvation", "priorities",
)  # fmt: skip
LONG = {"static_batching"}  # hundreds of steps: live on the small model only, on SmolLM2 its beginning
BEGINNING = 30
PANELS = {panel.name for panel in frame.PANELS} | {"attention", "laws"}
MODELS = ("toy", pytest.param("smollm2", marks=pytest.mark.model))
SAY_LIMIT = {"en": 180, "zh": 90}  # two lines of the step page at 1280 px


def test_the_library_in_teaching_order() -> None:
    assert load.library() == list(NAMES)
    orders = [load.load(name).order for name in NAMES]
    assert len(set(orders)) == len(orders)


def test_the_readme_lists_every_scenario() -> None:
    readme = (Path(__file__).parents[2] / "README.md").read_text(encoding="utf-8")
    assert re.findall(r"^\| `(\w+)` \|", readme, re.MULTILINE) == list(NAMES)


def texts(part: object) -> Iterator[Text]:
    """All texts in a scenario, wherever they stand."""
    if isinstance(part, Text):
        yield part
    elif isinstance(part, tuple):
        for item in part:
            yield from texts(item)
    elif hasattr(part, "model_fields_set"):
        for name in type(part).model_fields:  # type: ignore[attr-defined]
            yield from texts(getattr(part, name))


def numbers(text: str) -> set[str]:
    return set(re.findall(r"\d+", re.sub(r"(?<=\d),(?=\d{3})", "", text)))


@pytest.mark.parametrize("name", NAMES)
def test_texts_are_there_in_both_languages(name: str) -> None:
    scenario = load.load(name)
    assert scenario.teaches and scenario.exercises and scenario.notes and scenario.cover is not None
    for text in texts(scenario):
        assert text.en.isascii() and text.en and text.en.strip() == text.en
        assert not re.search("[，。；：？！、] ", text.zh)  # what YAML makes of a folded line
        assert any("\u4e00" <= char <= "\u9fff" for char in text.zh) and text.zh.strip() == text.zh
        assert numbers(text.en) == numbers(text.zh)
    for note in scenario.notes:
        assert note.claims and note.focus is not None
        for lang, limit in SAY_LIMIT.items():
            said = note.say.get(lang)  # type: ignore[arg-type]
            assert len(said) <= limit, said


@pytest.mark.parametrize("name", NAMES)
def test_notes_point_at_what_is_there(name: str) -> None:
    scenario, steps = load.load(name), recording.replay(name)
    shown = [note.step for note in scenario.notes]
    assert shown == sorted(set(shown)) and shown[-1] < len(steps)
    for note in scenario.notes:
        assert note.focus is not None
        requests = {view.id for view in steps[note.step].snapshot.requests}
        blocks = set(range(1, scenario.config.num_blocks))
        assert note.focus.id in {"request": requests, "panel": PANELS, "block": blocks}[note.focus.kind]
    assert scenario.cover is not None and scenario.cover.step < len(steps)
    assert {answer.step for answer in scenario.answers} <= set(shown)


def test_every_question_is_answered() -> None:
    answered = {answer.question for name in NAMES for answer in load.load(name).answers}
    assert answered == set(range(1, 21))


@pytest.mark.parametrize("name", NAMES)
def test_every_yaml_parser_reads_the_same(name: str) -> None:
    text = (load.LIBRARY / f"{name}.yaml").read_text(encoding="utf-8")
    assert yaml.load(text, Loader=yaml.SafeLoader) == yaml.load(text, Loader=load._Loader)


RUNS = [(name, "toy") for name in NAMES] + [
    pytest.param(name, "smollm2", marks=pytest.mark.model) for name in NAMES if name not in LONG
]


@pytest.mark.parametrize(("name", "model"), RUNS)
def test_every_law_holds_and_all_finish(ran, name: str, model: str) -> None:  # type: ignore[no-untyped-def]
    job, steps = ran(name, model)
    assert run.complaint(job, steps) is None
    unchecked = {law.law for step in steps if step.scheduled_tokens for law in step.laws if not law.checked}
    # no tree, no hashes: nothing to see
    unseen = {7, 8} if job.config.kv_layout == "contiguous" else {7} if job.config.cache == "radix" else {8}
    assert unchecked <= unseen
    assert all(view.status.value == "FINISHED" for view in steps[-1].snapshot.requests)
    assert len(steps) <= (600 if name in LONG else 40)


def state(step: Step) -> tuple[object, ...]:
    pool = step.snapshot.pool
    return tuple(step.snapshot.requests), tuple(pool.ref_count), tuple(pool.hashes), tuple(pool.free_queue)


@pytest.mark.model
@pytest.mark.parametrize("name", NAMES)
def test_the_recording_is_what_the_model_gives(ran, name: str) -> None:  # type: ignore[no-untyped-def]
    if name in LONG:
        if find_smollm2() is None:
            pytest.skip("the SmolLM2 weights are not on this machine")
        live = list(islice(run.steps(run.prepare(name, run.Options(settings={}))), BEGINNING))
    else:
        live = ran(name, "smollm2")[1]
    kept = recording.replay(name)
    assert name in LONG or len(live) == len(kept)
    for step, replayed in zip(live, kept, strict=False):
        assert step.sampled == replayed.sampled
        assert step.scheduled_tokens == replayed.scheduled_tokens
        assert state(step) == state(replayed)
    specs = load.requests(load.load(name), load_model("smollm2").tokenizer)
    assert {spec.id: list(spec.prompt) for spec in specs} == recording.recordings()[name]["prompts"]


def test_a_scenario_without_a_recording_is_refused() -> None:
    with pytest.raises(UserError, match="no recording"):
        recording.replay(str(load.LIBRARY / "three_requests.yaml"))


def made(name: str) -> Iterator[tuple[str, tuple[Step, ...]]]:
    """Every claim of a scenario with the steps it speaks of, those of its exercises on the changed engine."""
    scenario: Scenario = load.load(name)
    assert scenario.model == "smollm2"
    for note in scenario.notes:
        yield from ((claim, recording.replay(name)[: note.step + 1]) for claim in note.claims)
    for exercise in scenario.exercises:
        yield from ((claim, answered(name, exercise)[: exercise.step + 1]) for claim in exercise.claims)


def answered(name: str, exercise: Exercise) -> tuple[Step, ...]:
    return recording.replay(name, tuple(exercise.config.items()))


@pytest.mark.parametrize("name", NAMES)
def test_every_claim_holds(name: str) -> None:
    assert sum(1 for _ in made(name)) >= 7
    assert [claim for claim, steps in made(name) if not claims.check(claim, steps)] == []


@pytest.mark.parametrize("name", NAMES)
def test_exercises_change_something_and_run_to_the_end(name: str) -> None:
    scenario = load.load(name)
    for exercise in scenario.exercises:
        steps = answered(name, exercise)
        assert exercise.step < len(steps) and exercise.claims
        assert scenario.config.with_changes(dict(exercise.config)) != scenario.config
        assert all(law.holds for step in steps for law in step.laws)
        assert all(view.status.value == "FINISHED" for view in steps[-1].snapshot.requests)


class _OneOff(ast.NodeTransformer):
    """Changes the number at `place` by `by`; those that only name a block or an item are left alone."""

    def __init__(self, place: int, by: int) -> None:
        self.place, self.by, self.seen = place, by, 0

    def visit_Subscript(self, node: ast.Subscript) -> ast.AST:
        return node

    def visit_Call(self, node: ast.Call) -> ast.AST:
        return node

    def visit_Constant(self, node: ast.Constant) -> ast.AST:
        if isinstance(node.value, bool) or not isinstance(node.value, int):
            return node
        self.seen += 1
        return ast.Constant(node.value + self.by) if self.seen - 1 == self.place else node


def one_off(claim: str) -> Iterator[str]:
    """The claim with each of its numbers one too large and one too small."""
    counter = _OneOff(-1, 0)
    counter.visit(ast.parse(claim, mode="eval"))
    for place in range(counter.seen):
        for by in (1, -1):
            yield ast.unparse(_OneOff(place, by).visit(ast.parse(claim, mode="eval")))


def test_one_off_changes_every_number_but_names() -> None:
    assert list(one_off("ref_count[3] == 2 and owners(1) == []")) == [
        "ref_count[3] == 3 and owners(1) == []",
        "ref_count[3] == 1 and owners(1) == []",
    ]
    assert len(list(one_off("copied == [[3, 4], [3, 5]]"))) == 8


@pytest.mark.parametrize("name", NAMES)
def test_every_claim_fails_when_a_number_is_changed(name: str) -> None:
    wrong = [(changed, steps) for claim, steps in made(name) for changed in one_off(claim)]
    assert wrong and [changed for changed, steps in wrong if claims.check(changed, steps)] == []


@pytest.mark.model
@pytest.mark.parametrize(
    ("name", "request_id", "text"),
    [
        ("three_requests", "A", " Paris.\n"),
        ("three_requests", "C", " Thursday,"),
        ("shared_prefix", "B", "A spider has 8 legs."),
        ("shared_prefix", "D", "The largest planet in our solar system is Jupiter."),
        ("memory_pressure", "C", " Mars, and Jupiter."),
        ("twins", "A", " Earth is always facing the Moon."),
        ("next_turn", "turn1", "The capital of France is Paris."),
        ("chunked_prefill", "C", " Paris"),
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


@pytest.mark.parametrize("name", ["full_hit", "twins"])
@pytest.mark.parametrize("model", MODELS)
def test_equal_prompts_get_equal_texts(ran, name: str, model: str) -> None:  # type: ignore[no-untyped-def]
    text = ran(name, model)[1][-1].text
    assert text["A"] == text["B"]


@pytest.mark.model
def test_three_answers_differ_though_their_prompt_is_one(ran) -> None:  # type: ignore[no-untyped-def]
    text = ran("parallel_sampling", "smollm2")[1][-1].text
    assert len({text["A"], text["A.1"], text["A.2"]}) == 3


@pytest.mark.model
def test_swapped_and_recomputed_requests_write_the_same(ran) -> None:  # type: ignore[no-untyped-def]
    assert ran("swap", "smollm2")[1][-1].text == ran("memory_pressure", "smollm2")[1][-1].text


@pytest.mark.parametrize(
    ("changes", "waited", "overtaken", "of_all"),
    [((), 18, 8, 8), ((("lpm_ageing", 4),), 7, 3, 3), ((("policy", "fcfs"),), 2, 0, 0)],
    ids=["lpm", "ageing", "fcfs"],
)
def test_who_waits_how_long_for_the_longest_prefix(
    changes: tuple[tuple[str, object], ...], waited: int, overtaken: int, of_all: int
) -> None:
    found = measure(recording.replay("lpm_starvation", changes)).fairness
    cold = next(each for each in found.requests if each.request == "cold")
    assert (cold.wait_steps, cold.overtaken, found.overtaken) == (waited, overtaken, of_all)
    assert found.wait_steps is not None
    assert max(each.wait_steps or 0 for each in found.requests if each.request != "cold") <= 4

"""Admission by estimate and retraction, with the numbers worked out by hand."""

from __future__ import annotations

import pytest

from engine.engine import Engine
from engine.events import Preempted, RatioRaised, WaitReason
from engine.request import RequestSpec, SamplingParams
from engine.sglang_admission import EstimatingScheduler, NewTokenRatio
from tests.engine.replay import assert_laws, engine_of, hits, run, spec

STOPS = SamplingParams(stop_token_ids=frozenset({1}))


def engine(slots: int, **config: object) -> Engine:
    return engine_of(
        admission="sglang", cache="radix", block_size=1, num_blocks=slots + 1, max_num_batched_tokens=64, **config
    )


def scheduler(of: Engine) -> EstimatingScheduler:
    assert isinstance(of.scheduler, EstimatingScheduler)
    return of.scheduler


def test_the_ratio_falls_to_its_least_in_600_steps_and_no_further() -> None:
    ratio = NewTokenRatio(1.0)
    assert (ratio.now, ratio.least) == (0.7, pytest.approx(0.098))
    ratio.decay()
    assert ratio.now == pytest.approx(0.7 - (0.7 - 0.098) / 600)
    for _ in range(700):
        ratio.decay()
    assert ratio.now == pytest.approx(0.098)
    ratio.reset()
    assert ratio.now == 0.7
    assert NewTokenRatio(10.0).now == 1.0


@pytest.mark.parametrize(("slots", "admitted"), [(37, False), (38, True)])
def test_a_request_is_admitted_if_its_whole_future_is_less_than_what_is_left(slots: int, admitted: bool) -> None:
    """A (6 + 10) is in: 6 slots taken, 10 + 1 page promised. B needs 8 + 11 + 1 = 20, so more than 20 must be left."""
    of = engine(slots)
    for each in (spec("A", 6, 10), spec("B", 8, 11)):
        of.add(each)
    step = of.step()
    assert ("B" in step.scheduled_tokens) is admitted
    if not admitted:
        assert step.snapshot.request("B").wait_reason == WaitReason("estimate", need=20, have=37 - 6 - 11)


def test_those_who_may_stop_early_are_expected_to_write_less() -> None:
    """One step later A is promised 0.7 of the 10 - 1 tokens to come, unless its length is fixed."""
    waits = {}
    for name, sampling in (("may stop", STOPS), ("fixed", SamplingParams())):
        of = engine(22)
        of.add(spec("A", 6, 10, sampling=sampling))
        of.add(spec("B", 8, 11, arrival_step=1))
        of.step()
        waits[name] = of.step().snapshot.request("B").wait_reason
    left = 22 - 6 - 1  # A's next token has its slot already
    ratio = 0.7 - (0.7 - 0.098) / 600
    assert waits["fixed"] == WaitReason("estimate", need=20, have=left - 9)
    assert waits["may stop"] == WaitReason("estimate", need=20, have=int(left - 9 * ratio))


def optimistic() -> tuple[Engine, list[RequestSpec]]:
    """Three that are expected to stop early, and do not: 30 slots, 3 · (4 + 12 - 1) positions."""
    of = engine(30, schedule_conservativeness=0.01, max_num_seqs=3)
    return of, [spec(name, 4, 12, sampling=STOPS, arrival_step=step) for step, name in enumerate("ABC")]


def test_retraction_takes_who_has_written_least_and_learns_from_it() -> None:
    of, specs = optimistic()
    steps = run(of, *specs)
    retracted = [(step.index, event) for step in steps for event in step.events if isinstance(event, Preempted)]
    index, first = retracted[0]
    assert first.request == "C", "the last to come has the fewest output tokens"
    outputs = {view.id: view.output_tokens for view in steps[index - 1].snapshot.requests}
    assert outputs["C"] == min(outputs.values())
    (raised, *_) = [event for event in steps[index].events if isinstance(event, RatioRaised)]
    assert raised.stay == ("A", "B")
    assert raised.ratio == min(1.0, (outputs["A"] + outputs["B"] + 2 * 20) / (12 + 12 + 1))
    assert hits(steps, "C")[1] in (0, 4), "its prompt may have stayed, its answer did not"


def test_a_retracted_request_goes_to_the_back() -> None:
    of, specs = optimistic()
    for each in (*specs, spec("D", 4, 12, sampling=STOPS, arrival_step=3)):
        of.add(each)
    while not of.is_done:
        step = of.step()
        assert_laws(step)
        if any(isinstance(event, Preempted) and event.request == "C" for event in step.events):
            assert step.snapshot.waiting[-1] == "C"
            return
    pytest.fail("nobody was retracted")


def test_a_request_that_fills_the_pool_alone_is_let_in() -> None:
    of = engine(10)
    steps = run(of, spec("A", 6, 5))
    assert steps[-1].snapshot.request("A").output_tokens == 5


def test_vllm_remains_the_default() -> None:
    assert not isinstance(engine_of().scheduler, EstimatingScheduler)

"""A thousand requests decide as they do in vLLM, recorded or not; a long replay keeps nothing of what is over."""

from __future__ import annotations

import pytest

from engine.arrivals import Arrivals
from engine.engine import Engine
from engine.runner import ScriptedRunner
from tests.engine import workload
from tests.engine.replay import engine_of, spec


def test_the_timed_vllm_workload_has_vllms_totals() -> None:
    engine = Engine(workload.CONFIG, ScriptedRunner(), record=False)
    for each in workload.make():
        engine.add(each)
    plans = []
    while not engine.is_done:
        plan = engine.advance()
        if plan.tokens or plan.preempted:
            plans.append(plan)
    assert len(plans) == workload.VLLM_STEPS
    assert sum(plan.total_tokens for plan in plans) == workload.VLLM_TOKENS
    assert sum(len(plan.preempted) for plan in plans) == workload.VLLM_PREEMPTIONS
    assert engine.events == []
    assert engine.kv.pool.num_free == workload.NUM_BLOCKS - 1


def test_recording_changes_no_decision() -> None:
    specs = workload.make(requests=60, gap=0.2)
    recorded, silent = (Engine(workload.CONFIG, ScriptedRunner(), record=record) for record in (True, False))
    for each in specs:
        recorded.add(each)
        silent.add(each)
    while not recorded.is_done:
        assert dict(recorded.step().scheduled_tokens) == silent.advance().tokens
    assert silent.is_done


def test_an_engine_that_does_not_record_says_so() -> None:
    engine = Engine(workload.CONFIG, ScriptedRunner(), record=False)
    engine.add(spec("A", 4, 2))
    with pytest.raises(RuntimeError, match="does not record"):
        engine.step()


def test_arrivals_keep_the_order_given_within_a_step() -> None:
    arrivals = Arrivals()
    for name, step in (("late", 5), ("b", 1), ("a", 1), ("gone", 0), ("first", 0)):
        arrivals.add(spec(name, 4, 1, arrival_step=step))
    arrivals.cancel("gone")
    assert "gone" not in arrivals
    assert [each.id for each in arrivals.due(1)] == ["first", "b", "a"]
    assert len(arrivals) == 1
    assert [each.id for each in arrivals.due(4)] == []


def test_an_id_given_back_by_an_abort_can_be_given_again() -> None:
    engine = engine_of(block_size=4, num_blocks=9)
    engine.add(spec("A", 4, 2, arrival_step=9))
    engine.abort_at("A", 0)
    engine.step()
    engine.add(spec("A", 4, 2))
    assert list(engine.step().scheduled_tokens) == ["A"]

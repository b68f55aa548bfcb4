"""Stretches of waiting agree with the metrics of the finished run; starvation has no bound, and ageing gives it one."""

from __future__ import annotations

import pytest

from engine.config import EngineConfig
from engine.engine import Engine
from engine.metrics import measure
from engine.request import RequestSpec
from engine.runner import ScriptedRunner
from engine.timeline import Step
from engine.waits import Wait, waits
from tests.engine.replay import engine_of, run, spec

HOT = tuple(range(100, 130))  # the prefix that all but one share


def stream(hot: int, output: int = 4) -> list[RequestSpec]:
    """One seat too few: a hot request every two steps for two seats of four steps each, and a cold one at step 2."""
    arrivals = [0, 1, *range(2, 2 * hot, 2)][:hot]
    specs = [spec(f"hot{n}", [*HOT, 200 + n], output, arrival_step=at) for n, at in enumerate(arrivals, 1)]
    return [*specs[:2], spec("cold", range(500, 520), output, arrival_step=2), *specs[2:]]


def served(hot: int, policy: str, ageing: int = 0) -> list[Step]:
    config = EngineConfig(
        cache="radix", block_size=1, num_blocks=401, max_num_batched_tokens=64, max_num_seqs=2, policy=policy,  # type: ignore[arg-type]
        lpm_ageing=ageing,
    )  # fmt: skip
    return run(Engine(config, ScriptedRunner()), *stream(hot))


def cold(steps: list[Step]) -> tuple[int, int]:
    (wait,) = (wait for wait in waits(steps) if wait.request == "cold")
    return wait.steps, wait.overtaken


@pytest.mark.parametrize("hot", [8, 16, 32])
def test_longest_prefix_first_starves_without_bound(hot: int) -> None:
    """Two hot ones enter every four steps; the cold one enters when none is left: after 2 · (hot - 1) steps."""
    assert cold(served(hot, "lpm")) == (2 * (hot - 1), hot - 2)


@pytest.mark.parametrize("hot", [16, 32, 48])
def test_ageing_bounds_the_wait_however_long_the_stream(hot: int) -> None:
    """At 4 tokens a step a hot one's 30 cached tokens are worth 7.5 steps: from 8 steps older on, cold goes first."""
    assert cold(served(hot, "lpm", 4)) == (10, 4)
    assert cold(served(hot, "lpm", 8)) == (6, 2)
    assert cold(served(hot, "fcfs")) == (2, 0)


@pytest.mark.parametrize("policy", ["lpm", "fcfs", "hrrn", "random"])
def test_first_waits_are_those_of_the_fairness_metrics(policy: str) -> None:
    steps = served(12, policy)
    mine = {wait.request: (wait.steps, wait.overtaken) for wait in waits(steps) if not wait.resumed}
    theirs = {each.request: (each.wait_steps, each.overtaken) for each in measure(steps).fairness.requests}
    assert mine == theirs


def test_a_wait_that_goes_on_grows_with_each_step() -> None:
    steps = served(8, "lpm")
    ages = [cold(steps[: step + 1])[0] for step in range(2, 16)]
    assert ages == list(range(14))
    seen = [cold(steps[: step + 1])[1] for step in range(2, 17)]
    assert seen == sorted(seen) and seen[-1] == 6
    assert [wait.end for wait in waits(steps[:10]) if wait.request == "cold"] == [None]
    assert [wait.end for wait in waits(steps) if wait.request == "cold"] == [16]


def test_a_preempted_request_waits_again() -> None:
    """Case O12: both compute in step 0; in step 1 B gives way to A, and computes again in step 9, when A is over."""
    engine = engine_of(
        block_size=4, num_blocks=6, max_num_batched_tokens=16, max_num_seqs=2, enable_prefix_caching=False
    )
    steps = run(engine, spec("A", 8, 9), spec("B", 8, 9))
    assert waits(steps) == (Wait("A", 0, 0, 0), Wait("B", 0, 0, 0), Wait("B", 1, 9, 8, resumed=True))


def test_a_second_wait_counts_nobody_again() -> None:
    """C overtakes B in the line; later A needs a block, and B, the least important, waits again."""
    engine = engine_of(
        block_size=4, num_blocks=6, max_num_batched_tokens=16, max_num_seqs=2, policy="priority",
        enable_prefix_caching=False,
    )  # fmt: skip
    specs = [spec("A", 8, 9, priority=0), spec("L", 4, 2, priority=0), spec("B", 4, 8, priority=2)]
    steps = run(engine, *specs, spec("C", 4, 1, priority=1, arrival_step=1))
    mine = [(wait.overtaken, wait.resumed) for wait in waits(steps) if wait.request == "B"]
    assert mine == [(1, False), (0, True)]


def test_an_aborted_request_stops_waiting_and_a_run_without_steps_has_no_waits() -> None:
    engine = engine_of(max_num_seqs=1)
    for each in (spec("A", 4, 6), spec("B", 4, 1)):
        engine.add(each)
    steps = [engine.step(), engine.step()]
    engine.abort_at("B", 2)
    steps += [engine.step(), engine.step()]
    assert waits(steps) == (Wait("A", 0, 0, 0), Wait("B", 0, 2, 2))
    assert waits([]) == ()

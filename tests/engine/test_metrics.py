"""Metrics add up to the events they come from; what has not happened is None, never zero."""

from __future__ import annotations

from engine.events import Preempted
from engine.metrics import measure
from tests.engine.replay import engine_of, run, spec


def test_nothing_run_is_no_data() -> None:
    metrics = measure([])
    assert metrics.requests == ()
    assert metrics.hit_rate is None
    assert metrics.computed_tokens == metrics.output_tokens == 0


def test_o12_recompute_is_told_from_useful_work() -> None:
    """Two requests of 8 + 9 tokens in 5 blocks: 32 useful positions, 8 computed again (case O12)."""
    engine = engine_of(
        block_size=4, num_blocks=6, max_num_batched_tokens=16, max_num_seqs=2, enable_prefix_caching=False
    )
    steps = run(engine, spec("A", 8, 9), spec("B", 8, 9))
    metrics = measure(steps)
    assert (metrics.computed_tokens, metrics.recomputed_tokens, metrics.useful_tokens) == (40, 8, 32)
    assert metrics.output_tokens == 18
    assert metrics.preemptions == sum(isinstance(event, Preempted) for step in steps for event in step.events) == 1
    assert metrics.usage.owned_blocks is not None
    assert metrics.usage.owned_blocks.max == 4  # A took the fifth only after B had given its two back
    assert metrics.steps == 17
    a, b = metrics.requests
    assert (a.first_token_step, a.finished_step, b.first_token_step, b.finished_step) == (0, 8, 0, 16)


def test_first_hits_and_finds_after_preemption_are_apart() -> None:
    engine = engine_of(block_size=4, num_blocks=6, max_num_batched_tokens=16, max_num_seqs=2)
    metrics = measure(run(engine, spec("A", 8, 9), spec("B", 8, 9)))
    assert (metrics.first_hit_tokens, metrics.resumed_hit_tokens) == (0, 4)
    assert metrics.hit_rate == 0.0
    again = measure(run(engine, spec("C", engine.requests["A"].spec.prompt, 1)))
    assert again.first_hit_tokens == 4
    assert again.hit_rate == 0.5


def test_latencies_follow_the_measured_clock() -> None:
    engine = engine_of(block_size=4, num_blocks=17)
    steps = run(engine, spec("A", 5, 4), spec("one", 5, 1, arrival_step=2))
    a, one = measure(steps).requests
    times = [step.timings.total_ms for step in steps]
    assert a.ttft_ms == times[0]
    assert a.e2e_ms is not None
    assert abs(a.e2e_ms - sum(times[:4])) < 1e-9
    assert a.tpot_ms is not None
    assert abs(a.tpot_ms - sum(times[1:4]) / 3) < 1e-9
    assert one.ttft_ms == one.e2e_ms
    assert one.tpot_ms is None, "one token has no gap"


def test_a_request_under_way_has_no_end() -> None:
    engine = engine_of(block_size=4, num_blocks=17, max_num_batched_tokens=4, max_num_seqs=4)
    engine.add(spec("A", 9, 4))
    (a,) = measure([engine.step()]).requests
    assert (a.first_token_step, a.ttft_ms, a.tpot_ms, a.e2e_ms, a.finished_step) == (None, None, None, None, None)

"""Metrics add up to the events they come from; what has not happened is None, never zero."""

from __future__ import annotations

import pytest

from engine.errors import UserError
from engine.events import Admitted, Preempted
from engine.metrics import Targets, measure
from engine.spread import Spread, spread
from engine.timeline import Step
from tests.engine.replay import engine_of, run, spec
from tests.engine.ticks import Ticks


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


def o12(**config: object) -> list[Step]:
    """A and B of 8 + 9 tokens in 5 blocks of 4: B is preempted when A needs its third, and resumes when A is over."""
    engine = engine_of(block_size=4, num_blocks=6, max_num_batched_tokens=16, max_num_seqs=2, **config)
    return run(engine, spec("A", 8, 9), spec("B", 8, 9))


def test_every_latency_of_a_preempted_request() -> None:
    """B computes in step 0, is preempted in step 1, resumes in step 9 and ends with step 16.

    Tokens at 10 ms and, after 8 suspended steps, at 100, 110 … 170 ms.
    """
    steps = o12(enable_prefix_caching=False)
    preempted = next(step.index for step in steps for event in step.events if isinstance(event, Preempted))
    resumed = next(
        step.index for step in steps for event in step.events if isinstance(event, Admitted) and event.resumed
    )
    metrics = measure(steps, Ticks())
    a, b = metrics.requests
    assert (a.ttft_ms, a.tpot_ms, a.itl_ms, a.e2e_ms, a.suspended_ms) == (10.0, 10.0, (10.0,) * 8, 90.0, 0.0)
    assert (preempted, resumed, b.finished_step) == (1, 9, 16)
    assert (b.ttft_ms, b.suspended_ms, b.e2e_ms, b.max_itl_ms) == (10.0, 80.0, 170.0, 90.0)
    assert b.itl_ms == (90.0, *(10.0,) * 7)
    assert b.tpot_ms == 160.0 / 8
    assert (b.queue_ms, b.computed_tokens, b.useful_tokens, b.recomputed_tokens, b.preemptions) == (0.0, 24, 16, 8, 1)
    assert metrics.suspended is not None
    assert (metrics.suspended.count, metrics.suspended.max) == (1, 80.0), "A was never preempted: it is no data"
    assert (metrics.duration_ms, metrics.output_tokens_per_second) == (170.0, 18 / 0.17)


def test_queue_time_ends_with_the_first_compute_not_the_first_token() -> None:
    """B waits a step for A's seat, then prefills 9 tokens in chunks of 4: first token with its third step."""
    engine = engine_of(block_size=4, num_blocks=17, max_num_batched_tokens=4, max_num_seqs=1)
    _, b = measure(run(engine, spec("A", 4, 2), spec("B", 9, 1, arrival_step=1)), Ticks()).requests
    assert (b.queue_ms, b.ttft_ms, b.first_compute_step, b.first_token_step) == (10.0, 40.0, 2, 4)
    assert (b.itl_ms, b.max_itl_ms, b.tpot_ms) == ((), None, None)


def test_suspended_until_aborted() -> None:
    """Preempted in step 1 and aborted at the beginning of step 4: 3 steps, and it never ends."""
    engine = engine_of(
        block_size=4, num_blocks=6, max_num_batched_tokens=16, max_num_seqs=2, enable_prefix_caching=False
    )
    _, b = measure(run(engine, spec("A", 8, 9), spec("B", 8, 9, abort_step=4)), Ticks()).requests
    assert (b.suspended_ms, b.aborted, b.finished_step, b.e2e_ms) == (30.0, True, None, None)


def test_goodput_counts_who_met_all_targets() -> None:
    """On ticks A has TTFT 10 and TPOT 10, B the same TTFT and TPOT 20: in 170 ms."""
    steps = o12(enable_prefix_caching=False)
    for targets, met in (
        (Targets(ttft_ms=10), 2),
        (Targets(ttft_ms=9.9), 0),
        (Targets(tpot_ms=10), 1),
        (Targets(ttft_ms=10, tpot_ms=20), 2),
        (Targets(ttft_ms=9, tpot_ms=20), 0),
    ):
        goodput = measure(steps, Ticks(), targets=targets).goodput
        assert goodput is not None
        assert (goodput.met, goodput.share, goodput.per_second) == (met, met / 2, met / 0.17)
    assert measure(steps, Ticks()).goodput is None, "no targets, no goodput"
    unfinished = measure(steps[:16], Ticks(), targets=Targets(ttft_ms=10)).goodput
    assert unfinished is not None and unfinished.met == 1


def test_one_token_has_no_tpot_to_miss() -> None:
    goodput = measure(run(engine_of(), spec("A", 5, 1)), Ticks(), targets=Targets(tpot_ms=0.001)).goodput
    assert goodput is not None and (goodput.met, goodput.share) == (1, 1.0)


@pytest.mark.parametrize("value", [0, -1.0, float("nan"), float("inf")])
def test_a_target_is_a_positive_time(value: float) -> None:
    with pytest.raises(UserError, match="tpot_ms"):
        Targets(tpot_ms=value)


def test_percentiles_are_numpys() -> None:
    found = spread([4.0, 1.0, 3.0, 2.0])
    assert found == Spread(count=4, mean=2.5, p50=2.5, p90=3.7, p99=pytest.approx(3.97), max=4.0)
    assert spread([]) is None


def test_all_of_an_empty_run_is_no_data() -> None:
    metrics = measure([], targets=Targets(ttft_ms=1))
    for name in ("duration_ms", "queue", "ttft", "tpot", "itl", "e2e", "suspended", "output_tokens_per_second"):
        assert getattr(metrics, name) is None, name
    assert metrics.goodput is not None
    assert (metrics.goodput.share, metrics.goodput.per_second) == (None, None)
    assert metrics.usage.owned_blocks is metrics.usage.peak_kv_bytes is metrics.usage.idle_row_share is None
    fairness = metrics.fairness
    assert fairness.jain_service is fairness.jain_rate is fairness.wait_steps is fairness.service_bound is None
    assert fairness.max_service_difference is fairness.largest_gap_steps is None


def test_a_forked_child_recomputes_what_it_was_given() -> None:
    """A and its child share 2 full blocks of 3. A takes the third, and the child gives way before it computed anything.

    Later it computes the 8 positions it was given, which were valid before, and its own 8 to 10.
    """
    engine = engine_of(
        block_size=4, num_blocks=4, max_num_seqs=2, max_num_batched_tokens=16, enable_prefix_caching=False
    )
    engine.add(spec("A", 8, 4))
    steps = [engine.step()]
    engine.fork("A", 1)
    while not engine.is_done:
        steps.append(engine.step())
    _, child = measure(steps, Ticks()).requests
    assert (child.preemptions, child.recomputed_tokens, child.useful_tokens) == (1, 8, 3)


def test_the_clock_is_named_and_a_runs_own() -> None:
    steps = o12()
    assert (measure(steps).clock, measure(steps).clock_name) == ("measured", "measured")
    assert (measure(steps, Ticks()).clock, measure(steps, Ticks()).clock_name) == ("modelled", "ticks")

"""Who waited, who was overtaken, who got how much; virtual token counters against a count over every interval."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.fairness import ServiceWeights, jain, overtaken
from engine.metrics import measure
from engine.virtual_counters import VirtualCounters
from tests.engine.replay import engine_of, run, spec
from tests.engine.ticks import Ticks


@pytest.mark.parametrize(
    ("values", "index"),
    [([5], 1.0), ([1, 1, 1], 1.0), ([1, 0, 0], 1 / 3), ([1, 2, 3], 36 / (3 * 14)), ([], None), ([0, 0], None)],
)
def test_jains_index(values: list[float], index: float | None) -> None:
    assert jain(values) == (index if index is None else pytest.approx(index))


def test_overtaken_by_those_who_came_later_and_computed_first() -> None:
    assert overtaken([5, 0, None, 3]) == [2, 0, 1, 0]
    assert overtaken([1, 1, 1]) == [0, 0, 0], "in the same step nobody was first"
    assert overtaken([]) == []


def test_a_later_but_more_important_request_overtakes() -> None:
    """One seat: A runs steps 0-1; B waits from step 0, C, more important, from step 1 and goes first."""
    engine = engine_of(policy="priority", max_num_seqs=1)
    specs = spec("A", 4, 2), spec("B", 4, 1, priority=1), spec("C", 4, 3, priority=0, arrival_step=1)
    fairness = measure(run(engine, *specs)).fairness
    assert [(each.request, each.wait_steps, each.overtaken) for each in fairness.requests] == [
        ("A", 0, 0), ("B", 5, 1), ("C", 1, 0),
    ]  # fmt: skip
    assert fairness.overtaken == 1
    assert fairness.wait_steps is not None and fairness.wait_steps.max == 5


def test_gaps_and_service_of_a_preempted_request() -> None:
    """B computes in step 0, then not before step 9 (case O12): 9 steps. Work done again is not service: 8 + 2 · 9."""
    engine = engine_of(
        block_size=4, num_blocks=6, max_num_batched_tokens=16, max_num_seqs=2, enable_prefix_caching=False
    )
    steps = run(engine, spec("A", 8, 9), spec("B", 8, 9))
    a, b = measure(steps, Ticks()).fairness.requests
    assert (a.largest_gap_steps, a.largest_gap_ms, a.service) == (1, 10.0, 26.0)
    assert (b.largest_gap_steps, b.largest_gap_ms, b.service) == (9, 90.0, 26.0)
    waiting = measure(steps[:5], Ticks()).fairness
    assert (waiting.requests[1].largest_gap_steps, waiting.largest_gap_steps) == (4, 4), "a pause that goes on counts"
    assert measure(steps, weights=ServiceWeights(3, 1)).fairness.requests[1].service == 33.0


def test_tokens_found_in_the_cache_are_service_too() -> None:
    engine = engine_of(block_size=4, num_blocks=17, max_num_batched_tokens=64)
    fairness = measure(run(engine, spec("A", range(9), 3), spec("B", range(9), 1, arrival_step=1))).fairness
    assert [each.service for each in fairness.requests] == [9 + 2 * 3, 9 + 2 * 1]
    assert fairness.jain_service == pytest.approx((15 + 11) ** 2 / (2 * (15**2 + 11**2)))


def test_rate_is_service_by_time_of_stay() -> None:
    """A (1, 1) gets 3 in 10 ms, B (1, 3) gets 7 in 30 ms."""
    fairness = measure(run(engine_of(), spec("A", 1, 1), spec("B", 1, 3)), Ticks()).fairness
    assert fairness.jain_rate == pytest.approx(jain([3 / 10, 7 / 30]))


def one_seat(*order: str) -> object:
    """Requests (4, 1) in the order given, one a step; the letter is the client. Each is worth 4 + 2 = 6."""
    names = [f"{client}{number}" for number, client in enumerate(order)]
    engine = engine_of(block_size=4, num_blocks=4, max_num_seqs=1, enable_prefix_caching=False)
    steps = run(engine, *(spec(name, 4, 1) for name in names))
    return measure(steps, clients={name: name[0] for name in names}).fairness


def test_backlogged_clients_drift_apart_under_fcfs() -> None:
    """x x x y: while x2 and y wait, x gets 6 and then 6 more; when x2 itself runs, x has nothing waiting.

    Bound: L_input = 4, M = 3 blocks · 4 slots, so 2 · max(1 · 4, 2 · 12) = 48.
    """
    fairness = one_seat("x", "x", "x", "y")
    assert (fairness.max_service_difference, fairness.service_bound) == (12.0, 48.0)
    assert (fairness.max_counter_difference, fairness.counter_bound) == (12.0, 24.0)
    assert [(each.client, each.service) for each in fairness.clients] == [("x", 18.0), ("y", 6.0)]
    assert one_seat("x", "y", "x", "y").max_service_difference == 6.0, "in turns"
    assert one_seat("x", "x", "x").max_service_difference is None, "a client alone has nobody to differ from"
    assert one_seat("x", "y").max_service_difference is None, "x0 runs at once: x was never backlogged"


def test_a_client_that_comes_back_gets_no_credit_for_idling() -> None:
    """y's first request comes when x has 6 and nobody waits: its counter starts at 6, its service at 0."""
    engine = engine_of(max_num_seqs=1)
    steps = run(engine, spec("x", 4, 1), spec("y", 4, 1, arrival_step=1))
    assert [(each.client, each.service, each.counter) for each in measure(steps).fairness.clients] == [
        ("x", 6.0, 6.0), ("y", 6.0, 12.0),
    ]  # fmt: skip


def test_counters_are_lifted_as_in_algorithm_2() -> None:
    counters = VirtualCounters()
    counters.serve({"x": 10.0, "z": 3.0}, ())
    counters.arrive("y", ("x", "z"))
    assert counters.counter["y"] == 3.0, "to the least of those waiting"
    counters.arrive("x", ("y", "z"))
    assert counters.counter["x"] == 10.0, "never lowered"
    counters.arrive("w", ("w", "x"))
    assert counters.counter["w"] == 0.0, "one that waits already is not lifted"
    counters.admit("x")
    counters.arrive("v", ())
    assert counters.counter["v"] == 10.0, "nobody waits: to that of the last to leave the queue"


CLIENTS = "abc"
STEPS = st.lists(
    st.tuples(
        st.dictionaries(st.sampled_from(CLIENTS), st.integers(0, 9).map(float), max_size=3),
        st.sets(st.sampled_from(CLIENTS)),
    ),
    max_size=12,
)


@given(STEPS)
def test_service_difference_is_the_largest_over_all_intervals(steps: list[tuple[dict[str, float], set[str]]]) -> None:
    counters = VirtualCounters()
    for gained, backlogged in steps:
        counters.serve(gained, backlogged)
    widest = None
    for one, other in ("ab", "ac", "bc"):
        for first in range(len(steps)):
            difference = 0.0
            for gained, backlogged in steps[first:]:
                if not {one, other} <= backlogged:
                    break
                difference += gained.get(one, 0.0) - gained.get(other, 0.0)
                widest = max(widest or 0.0, abs(difference))
    assert counters.max_service_difference == widest

"""Orders of the waiting queue, worked out by hand; and that longest prefix match starves unless waiting counts."""

from __future__ import annotations

import pytest

from engine.engine import Engine
from engine.events import Admitted, QueueSorted, TwinDeferred
from engine.fairness import RequestService
from engine.metrics import measure
from engine.request import RequestSpec
from engine.timeline import Step
from tests.engine.replay import engine_of, hits, run, spec

LONG, SHORT = tuple(range(12)), tuple(range(100, 106))


def warm(policy: str, cache: str = "radix", **config: object) -> Engine:
    """An engine of one seat that has LONG and SHORT in its cache and is busy until step 13."""
    return engine_of(
        cache=cache, policy=policy, block_size=1, num_blocks=200, max_num_batched_tokens=64,
        **{"max_num_seqs": 1, "in_batch_check": -1, **config},
    )  # fmt: skip


def admitted(engine: Engine, *specs: RequestSpec) -> list[str]:
    """Who was admitted, in order, after those that warm the cache and keep the seat."""
    before = [spec("w1", LONG, 1), spec("w2", SHORT, 1, arrival_step=2), spec("busy", 3, 8, arrival_step=5)]
    steps = run(engine, *before, *specs)
    names = [event.request for step in steps for event in step.events if isinstance(event, Admitted)]
    return [name for name in names if name not in ("w1", "w2", "busy")]


def asks() -> list[RequestSpec]:
    """Nothing cached; 6 of 8 cached; 12 of 22 cached. All wait when the seat becomes free."""
    cold = spec("cold", 5, 3, arrival_step=6)
    short = spec("short", (*SHORT, 1, 2), 9, arrival_step=7)
    long = spec("long", (*LONG, *range(50, 60)), 6, arrival_step=8)
    return [cold, short, long]


@pytest.mark.parametrize("cache", ["radix", "hash"])
@pytest.mark.parametrize(
    ("policy", "order"),
    [
        ("fcfs", ["cold", "short", "long"]),
        ("lpm", ["long", "short", "cold"]),
        ("shortest-prefill-first", ["short", "cold", "long"]),
        ("lof", ["short", "long", "cold"]),
    ],
)
def test_orders(policy: str, order: list[str], cache: str) -> None:
    assert admitted(warm(policy, cache), *asks()) == order


def test_the_highest_response_ratio_is_what_was_prefilled_meanwhile_by_what_is_to_prefill() -> None:
    """Nothing was prefilled since they came, so ids decide. Then 10 tokens were: short has 10 / 2, cold 10 / 5."""
    cold, short, long = asks()
    first = spec("a", long.prompt, 6, arrival_step=8)
    assert admitted(warm("hrrn"), cold, short, first) == ["a", "short", "cold"]


def test_depth_first_goes_where_most_requests_wait() -> None:
    """Two wait below SHORT, one below LONG; a node's own requests come after those below it."""
    root = spec("root", 4, 2, arrival_step=6)
    one = spec("one", (*LONG, 7, 7, 7), 2, arrival_step=6)
    two = [spec(name, (*SHORT, n, n, n), 2, arrival_step=7) for n, name in enumerate(("two", "three"))]
    of = warm("dfs-weight")
    before = [spec("w1", LONG, 1), spec("w2", SHORT, 1, arrival_step=2), spec("busy", 3, 8, arrival_step=5)]
    steps = run(of, *before, root, one, *two)
    first = next(event for step in steps for event in step.events if isinstance(event, QueueSorted))
    assert first.requests == ("two", "three", "one", "root")


def test_random_is_seeded() -> None:
    def order(seed: int) -> list[str]:
        return admitted(warm("random", seed=seed), *(spec(f"r{n}", 3, 2, arrival_step=6) for n in range(6)))

    assert order(1) == order(1)
    assert len({tuple(order(seed)) for seed in range(5)}) > 1


@pytest.mark.parametrize("policy", ["lpm", "hrrn", "shortest-prefill-first"])
def test_without_a_cache_it_is_first_come_first_served(policy: str) -> None:
    assert admitted(warm(policy, enable_prefix_caching=False), *asks()) == ["cold", "short", "long"]


def test_a_queue_of_more_than_128_is_left_as_it_is() -> None:
    crowd = [spec(f"c{n}", 2, 1, arrival_step=6) for n in range(127)]
    late = spec("late", (*LONG, 1), 1, arrival_step=7)
    assert admitted(warm("lpm"), *crowd, late)[0] == "late", "128 wait"
    assert admitted(warm("lpm"), *crowd, spec("more", 2, 1, arrival_step=6), late)[0] == "c0", "129 wait"


def twins(**config: object) -> list[Step]:
    engine = engine_of(
        cache="radix", block_size=1, num_blocks=200, max_num_batched_tokens=200, max_num_seqs=4, policy="lpm", **config
    )
    text = tuple(range(40))
    return run(engine, spec("A", text, 4), spec("B", (*text, 1), 4), spec("C", 8, 4))


def test_a_twin_waits_until_the_first_has_computed_what_they_share() -> None:
    steps = twins()
    order = [event.request for event in steps[0].events if isinstance(event, Admitted)]
    assert order == ["A", "C", "B"]
    assert [event for event in steps[0].events if isinstance(event, TwinDeferred)] == [TwinDeferred("B", 40, 0)]
    assert any(isinstance(event, QueueSorted) and event.requests == ("A", "C", "B") for event in steps[0].events)


@pytest.mark.parametrize("config", [{"in_batch_check": -1}, {"in_batch_deprioritize": 41}])
def test_twins_are_not_looked_for_when_told_not_to(config: dict[str, object]) -> None:
    assert not any(isinstance(event, TwinDeferred) for step in twins(**config) for event in step.events)


def starving(hot: int, **config: object) -> RequestService:
    """One cold request of 16 tokens beside a stream of `hot` that share 16; two seats, one arrival a step."""
    engine = engine_of(**{
        "cache": "radix", "block_size": 1, "num_blocks": 200, "max_num_batched_tokens": 24, "max_num_seqs": 2,
        "policy": "lpm", "in_batch_check": -1, **config,
    })  # fmt: skip
    shared = tuple(range(16))
    specs = [spec(f"hot{n}", (*shared, 100 + n, 200 + n), 4, arrival_step=1 + n) for n in range(hot)]
    steps = run(engine, spec("warm", shared, 1), *specs, spec("cold", 16, 4, arrival_step=3))
    assert hits(steps, "hot5") == [16]
    return next(each for each in measure(steps).fairness.requests if each.request == "cold")


def test_longest_prefix_match_starves_the_cold_request_for_as_long_as_the_stream_lasts() -> None:
    found = [starving(hot) for hot in (20, 40, 80)]
    assert [each.wait_steps for each in found] == [38, 78, 158]
    assert [each.overtaken for each in found] == [17, 37, 77]


@pytest.mark.parametrize(("ageing", "waited", "overtaken"), [(1, 34, 15), (2, 18, 7), (4, 10, 3)])
def test_ageing_bounds_the_wait_whatever_the_length_of_the_stream(ageing: int, waited: int, overtaken: int) -> None:
    """Whoever came 16 / ageing steps later can no longer pass; nobody before was hotter than 16 tokens."""
    found = [starving(hot, lpm_ageing=ageing) for hot in (40, 80)]
    assert [(each.wait_steps, each.overtaken) for each in found] == [(waited, overtaken)] * 2


def test_first_come_first_served_starves_nobody() -> None:
    assert (starving(80, policy="fcfs").wait_steps, starving(80, policy="fcfs").overtaken) == (3, 0)

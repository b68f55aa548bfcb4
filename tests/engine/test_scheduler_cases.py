"""Small inputs with right values from public trackers (cases O02, O04-O07, O11-O14), on the real engine."""

import random

import pytest

from engine.errors import UserError
from engine.events import Preempted, Waited
from engine.request import RequestSpec
from tests.engine.replay import emitted, engine_of, hits, run, spec, tokens_by_step


@pytest.mark.parametrize("caching", [True, False])
@pytest.mark.parametrize(
    ("prompt", "output", "most_blocks", "steps"),
    [(9, 4, 3, 4), (8, 1, 2, 1), (7, 1, 2, 1), (8, 5, 3, 5), (1, 8, 2, 8), (4, 4, 2, 4)],
)
def test_o02_no_block_is_lost(caching: bool, prompt: int, output: int, most_blocks: int, steps: int) -> None:
    engine = engine_of(
        block_size=4, num_blocks=9, max_num_batched_tokens=16, max_num_seqs=4, enable_prefix_caching=caching
    )
    for number in range(30):
        done = run(engine, spec(f"r{number}", range(number * 100, number * 100 + prompt), output))
        assert len(done) == steps
        assert max(step.scheduled.pool.owned for step in done) == most_blocks
        assert engine.kv.pool.num_free == 8
        assert engine.kv.pool.usage == 0.0


def test_o02_mixed_soak() -> None:
    draw = random.Random(2)
    engine = engine_of(block_size=4, num_blocks=13, max_num_batched_tokens=16, max_num_seqs=4)
    specs = [
        RequestSpec(
            f"r{number}",
            tuple(draw.randrange(3) for _ in range(draw.choice([1, 3, 4, 5, 7, 8, 9, 12]))),
            max_tokens := draw.choice([1, 2, 4, 5]),
            output=tuple(draw.randrange(3) for _ in range(max_tokens)),
            arrival_step=number // 2,
        )
        for number in range(200)
    ]
    steps = run(engine, *specs)
    assert engine.kv.pool.num_free == 12
    assert all(0 <= step.scheduled.pool.owned <= 12 for step in steps)
    assert sum(1 for view in steps[-1].snapshot.requests if view.status.value == "FINISHED") == 200


@pytest.mark.parametrize(
    ("length", "hit", "computed"),
    [(1, 0, 1), (3, 0, 3), (4, 0, 4), (5, 4, 1), (7, 4, 3), (8, 4, 4), (9, 8, 1), (12, 8, 4), (13, 12, 1)],
)
def test_o04_a_full_hit_leaves_something_to_compute(length: int, hit: int, computed: int) -> None:
    engine = engine_of(block_size=4, num_blocks=17, max_num_batched_tokens=64)
    prompt = range(50, 50 + length)
    run(engine, spec("A", prompt, 1))
    steps = run(engine, spec("B", prompt, 1))
    assert hits(steps, "B") == [hit]
    assert steps[0].scheduled_tokens["B"] == computed


def test_o04_overlapping_twin_takes_its_own_last_block() -> None:
    engine = engine_of(block_size=4, num_blocks=9, max_num_batched_tokens=64)
    engine.add(spec("A", range(8), 6))
    engine.step()
    engine.add(spec("B", range(8), 1))
    step = engine.step()
    a, b = step.scheduled.request("A"), step.scheduled.request("B")
    assert step.scheduled_tokens["B"] == 4
    assert b.block_table[0] == a.block_table[0]
    assert b.block_table[1] != a.block_table[1]
    assert step.scheduled.pool.ref_count[a.block_table[0]] == 2


def test_o05_reused_block_drops_its_hash() -> None:
    engine = engine_of(block_size=4, num_blocks=3, max_num_batched_tokens=64)
    x, y = (1, 2, 3, 4, 5), (11, 12, 13, 14, 15)
    run(engine, spec("X", x, 1))
    assert len(engine.kv.pool.index) == 1
    assert engine.kv.pool.num_free == 2
    run(engine, spec("Y", y, 1))
    steps = run(engine, spec("X2", x, 1))
    assert hits(steps, "X2") == [0]
    assert steps[0].scheduled_tokens["X2"] == 5
    assert len(engine.kv.pool.index) <= 2


def test_o06_namespaces_never_share() -> None:
    engine = engine_of(block_size=4, num_blocks=17, max_num_batched_tokens=64)
    spaces: list[dict[str, object]] = [{}, {"salt": "X"}, {"adapter": "X"}, {"adapter": "X@other"}]
    for round_number, want in ((1, 0), (2, 4)):
        for number, space in enumerate(spaces):
            name = f"r{round_number}{number}"
            assert hits(run(engine, spec(name, range(8), 1, **space)), name) == [want]
        if round_number == 1:
            assert len(engine.kv.pool.index) == 8


def test_o07_a_chain_is_evicted_from_its_tail() -> None:
    engine = engine_of(block_size=4, num_blocks=5, max_num_batched_tokens=64)
    a = run(engine, spec("A", range(12), 1))[0].scheduled.request("A").block_table
    order = [block.id for block in engine.kv.pool.free_queue]
    assert order == [4, a[2], a[1], a[0]]
    b = run(engine, spec("B", range(100, 108), 1))[0].scheduled.request("B").block_table
    assert b == (4, a[2])
    steps = run(engine, spec("C", range(12), 1))
    assert hits(steps, "C") == [8]
    assert steps[0].scheduled_tokens["C"] == 4


class TestO11NeverFits:
    def test_refused_at_submit_with_the_numbers_and_the_rest_runs(self) -> None:
        engine = engine_of(block_size=4, num_blocks=5, max_num_batched_tokens=64)
        sizes = {"R1": (20, 1, 5), "R3": (12, 8, 5), "R5": (12, 6, 5)}
        engine.add(spec("R2", 4, 1))
        engine.add(spec("R4", 12, 5))
        for name, (prompt, output, need) in sizes.items():
            with pytest.raises(UserError, match=rf"Request {name} needs {need} blocks .* but the pool has 4"):
                engine.add(spec(name, prompt, output))
        steps = run(engine)
        assert emitted(steps, "R2") == [1]
        assert emitted(steps, "R4")[-1] == 5
        assert max(step.scheduled.request("R4").block_table.__len__() for step in steps) == 4

    def test_exact_fit(self) -> None:
        engine = engine_of(block_size=4, num_blocks=3, max_num_batched_tokens=64)
        steps = run(engine, spec("fits", 4, 5))
        assert len(steps) == 5
        assert max(len(step.scheduled.request("fits").block_table) for step in steps) == 2
        with pytest.raises(UserError, match="needs 3 blocks"):
            engine.add(spec("not", 4, 6))

    def test_cached_blocks_do_not_make_it_fit(self) -> None:
        engine = engine_of(block_size=4, num_blocks=5, max_num_batched_tokens=64)
        run(engine, spec("half", range(8), 1))
        with pytest.raises(UserError, match="needs 5 blocks"):
            engine.add(spec("R1", range(20), 1))


class TestO12Preemption:
    @pytest.mark.parametrize(("caching", "computed"), [(False, 40), (True, 36)])
    def test_no_ping_pong(self, caching: bool, computed: int) -> None:
        engine = engine_of(
            block_size=4, num_blocks=6, max_num_batched_tokens=16, max_num_seqs=2, enable_prefix_caching=caching
        )
        steps = run(engine, spec("A", 8, 9), spec("B", 8, 9))
        victims = [event.request for step in steps for event in step.events if isinstance(event, Preempted)]
        assert len(steps) == 17
        assert victims == ["B"]
        assert sum(sum(step.scheduled_tokens.values()) for step in steps) == computed
        assert emitted(steps, "A") == list(range(1, 10))
        assert emitted(steps, "B") == [1, *range(10, 18)]
        resumed = tokens_by_step(steps, "B")[10]
        assert resumed == (5 if caching else 9)


class TestO13LongPrompt:
    def test_running_streams_go_on_beside_it(self) -> None:
        engine = engine_of(
            block_size=4, num_blocks=33, max_num_batched_tokens=8, max_num_seqs=8, enable_prefix_caching=False
        )
        steps = run(engine, spec("A", 4, 20), spec("B", 40, 3, arrival_step=2))
        b = tokens_by_step(steps, "B")
        assert [b[step] for step in range(3, 9)] == [7, 7, 7, 7, 7, 5]
        assert all(tokens_by_step(steps, "A")[step] == 1 for step in range(3, 9))
        assert emitted(steps, "B")[0] == 8
        gaps = [later - earlier for earlier, later in zip(emitted(steps, "A"), emitted(steps, "A")[1:], strict=False)]
        assert max(gaps) == 1

    def test_the_fifth_waits_for_the_token_budget(self) -> None:
        engine = engine_of(
            block_size=4, num_blocks=33, max_num_batched_tokens=4, max_num_seqs=4, enable_prefix_caching=False
        )
        wide = engine_of(
            block_size=4, num_blocks=33, max_num_batched_tokens=5, max_num_seqs=5, enable_prefix_caching=False
        )
        for each in (engine, wide):
            for number in range(5):
                each.add(spec(f"r{number}", 1, 10))
        first = engine.step()
        (waited,) = [event for event in first.events if isinstance(event, Waited)]
        assert (waited.request, waited.reason.limit) == ("r4", "tokens")
        steps = [first, *run(engine)]
        for name in ("r0", "r1", "r2", "r3"):
            assert emitted(steps, name) == list(range(1, 11))
        assert emitted(steps, "r4") == list(range(11, 21))
        assert not [event for event in wide.step().events if isinstance(event, Waited)]


class TestO14Degenerate:
    def test_refused_with_a_sentence(self) -> None:
        with pytest.raises(UserError, match="Request r has an empty prompt"):
            spec("r", (), 1)
        with pytest.raises(UserError, match="asks for 0 output tokens"):
            spec("r", 4, 0)

    def test_two_live_requests_of_one_id(self) -> None:
        engine = engine_of(block_size=4, num_blocks=9)
        engine.add(spec("r1", 8, 2))
        engine.step()
        with pytest.raises(UserError, match="already a request called r1"):
            engine.add(spec("r1", 8, 2))
        run(engine)
        assert engine.kv.pool.num_free == 8

    def test_one_token_out_needs_no_third_block(self) -> None:
        steps = run(engine_of(block_size=4, num_blocks=9), spec("r", 8, 1))
        assert len(steps) == 1
        assert len(steps[0].scheduled.request("r").block_table) == 2

    def test_no_token_for_a_row_that_was_not_scheduled(self) -> None:
        engine = engine_of(block_size=4, num_blocks=9, max_num_batched_tokens=1, max_num_seqs=1)
        steps = run(engine, spec("a", 1, 3), spec("b", 1, 3))
        assert len(steps) == 6
        for step in steps:
            assert list(step.sampled) == list(step.scheduled_tokens)
            assert len(step.sampled) == 1


def test_a_refused_request_leaves_the_engine_as_it_was() -> None:
    engine = engine_of(block_size=4, num_blocks=5)
    engine.add(spec("A", 4, 2))
    before = engine.step().snapshot
    for bad in (spec("big", 100, 1), spec("A", 4, 2)):
        with pytest.raises(UserError):
            engine.add(bad)
    after = engine.step().snapshot
    assert [view.id for view in after.requests] == ["A"]
    assert before.pool.free_queue == after.pool.free_queue[:-1]

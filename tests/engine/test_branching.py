"""Fork and copy-on-write: public case O03 with its numbers, laws under random forks, and rules broken on purpose."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from engine.blocks import BlockPool
from engine.branching import BranchTable, copy_waves
from engine.engine import Engine
from engine.errors import UserError
from engine.events import BlockCopied, Forked, Preempted
from engine.kv_manager import Shortage
from engine.request import RequestSpec, RequestStatus
from engine.timeline import Step
from tests.engine.branches import copies, engine_with_reads
from tests.engine.replay import assert_laws, engine_of, spec

SIX = list(range(6))


def branches(blocks: int, tokens: int) -> BranchTable:
    """A pool of `blocks` usable blocks of 4, numbered from 1 (the case counts from 0), with branch A in it."""
    table = BranchTable(BlockPool(blocks + 1, False, None), 4)
    table.start("A", range(tokens))
    return table


def counts(table: BranchTable) -> dict[int, int]:
    return {block.id: block.ref_count for block in table.pool.blocks if block.ref_count}


def o03_a() -> None:
    table = branches(4, 6)
    table.fork("A", "B")
    table.fork("A", "C")
    assert counts(table) == {1: 3, 2: 3}
    assert table.pool.num_free == 2
    for branch, token in (("B", 10), ("C", 20), ("A", 30)):
        table.append(branch, token)
    assert table.copies == [(2, 3), (2, 4)]
    assert table.table("A") == [1, 2]
    assert table.pool.num_free == 0
    assert [table.read(branch) for branch in "ABC"] == [[*SIX, 30], [*SIX, 10], [*SIX, 20]]
    drop_all(table, 4)


def o03_b() -> None:
    table = branches(3, 6)
    table.fork("A", "B")
    table.fork("A", "C")
    table.append("B", 10)
    assert table.pool.num_free == 0
    content = dict(table.slots)
    for branch in "CA":
        with pytest.raises(UserError) as refused:
            table.append(branch, 99)
        assert refused.value.key == "block.exhausted"
        assert counts(table) == {1: 3, 2: 2, 3: 1}
        assert table.slots == content
    table.drop("B")
    table.append("C", 20)
    table.append("A", 30)
    assert table.copies == [(2, 3), (2, 3)]
    assert table.table("A") == [1, 2]
    assert [table.read(branch) for branch in "AC"] == [[*SIX, 30], [*SIX, 20]]
    drop_all(table, 3)


def o03_c() -> None:
    table = branches(8, 8)
    table.fork("A", "B")
    table.append("B", 10)
    table.append("A", 20)
    assert table.copies == []
    assert (table.table("B"), table.table("A")) == ([1, 2, 3], [1, 2, 4])
    assert (table.read("B"), table.read("A")) == ([*range(8), 10], [*range(8), 20])
    drop_all(table, 8)


def o03_d() -> None:
    table = branches(8, 6)
    table.descend(["A"], [("A", "left", 100), ("A", "right", 200)])
    assert (table.read("left"), table.read("right")) == ([*SIX, 100], [*SIX, 200])
    table.descend(["left", "right"], [("left", "one", 101), ("left", "two", 102)])
    assert (table.read("one"), table.read("two")) == ([*SIX, 100, 101], [*SIX, 100, 102])
    assert counts(table)[1] == 2
    assert "left" not in table
    drop_all(table, 8)


def drop_all(table: BranchTable, blocks: int) -> None:
    for branch in [name for name in ("A", "B", "C", "one", "two") if name in table]:
        table.drop(branch)
    assert table.pool.num_free == len(list(table.pool.free_queue)) == blocks
    assert counts(table) == {}


@pytest.mark.parametrize("case", [o03_a, o03_b, o03_c, o03_d], ids=lambda case: case.__name__)
def test_o03_on_block_tables(case: Callable[[], None]) -> None:
    case()


def test_fork_raises_all_counts_or_none() -> None:
    pool = BlockPool(4, False, None)
    owned = pool.allocate(2, "A", 0)
    with pytest.raises(UserError, match="Block 3 has no owner"):
        pool.share([*owned, pool.blocks[3]])
    assert [block.ref_count for block in owned] == [1, 1]


# --- through the engine


def running_fork(blocks: int, prompt: int = 6, **config: object) -> Engine:
    """A after its prefill, parted into A, A.1 and A.2 at its first token: 30, 10 and 20."""
    engine = engine_with_reads(block_size=4, num_blocks=blocks + 1, max_num_seqs=4, **config)
    engine.add(RequestSpec("A", tuple(range(prompt)), 2, output=(30, 31)))
    engine.fork_at_next_token("A", 2, outputs=[(10, 11), (20, 21)])
    assert_laws(engine.step())
    return engine


def drain(engine: Engine) -> list[Step]:
    steps: list[Step] = []
    while not engine.is_done:
        steps.append(engine.step())
        assert_laws(steps[-1])
        assert len(steps) < 200
    assert engine.kv.pool.num_free == engine.config.usable_blocks
    return steps


def outputs(engine: Engine) -> dict[str, list[int]]:
    return {name: request.output_token_ids for name, request in engine.requests.items()}


@pytest.mark.parametrize("caching", [True, False])
def test_o03_a_through_the_engine(caching: bool) -> None:
    engine = running_fork(4, enable_prefix_caching=caching)
    view = engine.kv.pool
    assert [block.ref_count for block in view.blocks[1:]] == [3, 3, 0, 0]
    step = engine.step()
    assert_laws(step)
    assert copies([step]) == [(2, 3, "A"), (2, 4, "A.1")]
    assert step.scheduled.request("A.2").block_table == (1, 2)
    assert step.scheduled.pool.free_queue == ()
    assert outputs(engine) == {"A": [30, 31], "A.1": [10, 11], "A.2": [20, 21]}
    assert engine.is_done
    assert engine.kv.pool.num_free == 4


def test_o03_b_through_the_engine_a_copy_without_a_block_is_a_shortage() -> None:
    """A copies; nothing is left for A.1, so the last admitted gives way, and A.1 becomes the tail's only owner."""
    engine = running_fork(3)
    step = engine.step()
    assert_laws(step)
    assert copies([step]) == [(2, 3, "A")]
    assert [event for event in step.events if isinstance(event, Preempted)] == [
        Preempted("A.2", "A.1", need=1, have=0, lost_tokens=6)
    ]
    assert step.scheduled.request("A.1").block_table == (1, 2)
    drain(engine)
    assert outputs(engine) == {"A": [30, 31], "A.1": [10, 11], "A.2": [20, 21]}
    assert engine.requests["A.2"].num_preemptions == 1


def test_o03_b_a_shortage_leaves_counts_and_tables_as_they_were() -> None:
    engine = running_fork(2)
    tables = {name: list(engine.kv.block_table(name)) for name in engine.requests}
    before = [block.ref_count for block in engine.kv.pool.blocks]
    assert engine.kv.allocate(engine.requests["A"], 1) == Shortage(need=1, have=0)
    assert [block.ref_count for block in engine.kv.pool.blocks] == before
    assert {name: list(engine.kv.block_table(name)) for name in engine.requests} == tables
    assert engine.kv.take_copies() == []


def test_o03_c_through_the_engine_a_full_tail_is_never_copied() -> None:
    engine = running_fork(8, prompt=8)
    step = engine.step()
    assert_laws(step)
    assert copies([step]) == []
    tables = [step.scheduled.request(name).block_table for name in ("A", "A.1", "A.2")]
    assert tables == [(1, 2, 3), (1, 2, 4), (1, 2, 5)]


def test_o03_d_through_the_engine() -> None:
    engine = engine_with_reads(block_size=4, num_blocks=9, max_num_seqs=4)
    engine.add(RequestSpec("A", tuple(SIX), 4, output=(100, 101, 7, 7)))
    engine.fork_at_next_token("A", 1, outputs=[(200, 0, 0, 0)])
    assert_laws(engine.step())
    assert outputs(engine) == {"A": [100], "A.1": [200]}
    engine.fork_at_next_token("A", 1, outputs=[(100, 102, 7, 7)])
    engine.abort_at("A.1", 2)
    assert_laws(engine.step())
    step = engine.step()
    assert_laws(step)
    assert engine.requests["A"].token_ids[:8] == [*SIX, 100, 101]
    assert engine.requests["A.2"].token_ids[:8] == [*SIX, 100, 102]
    assert step.scheduled.pool.ref_count[1] == 2
    drain(engine)


def test_a_plain_fork_shares_everything_and_says_so() -> None:
    engine = engine_with_reads(block_size=4, num_blocks=9, max_num_seqs=4)
    engine.add(RequestSpec("A", tuple(SIX), 3, output=(30, 31, 32)))
    engine.step()
    assert engine.fork("A", 2, outputs=[(0, 11, 12), (0, 21, 22)]) == ["A.1", "A.2"]
    step = engine.step()
    assert_laws(step)
    forks = [event for event in step.events if isinstance(event, Forked)]
    assert forks == [Forked("A", "A.1", (1, 2), 6), Forked("A", "A.2", (1, 2), 6)]
    assert step.events.index(forks[0]) < step.events.index(BlockCopied(2, 3, "A", "shared_tail", filled=2, owners=3))
    drain(engine)
    assert outputs(engine) == {"A": [30, 31, 32], "A.1": [30, 11, 12], "A.2": [30, 21, 22]}


def test_a_fork_in_the_middle_of_a_prompt() -> None:
    engine = engine_with_reads(block_size=4, num_blocks=17, max_num_seqs=4, max_num_batched_tokens=6)
    engine.add(RequestSpec("A", tuple(range(13)), 3, output=(30, 31, 32)))
    engine.step()
    engine.fork("A", 1)
    steps = drain(engine)
    assert len(copies(steps)) == 1
    assert outputs(engine) == {"A": [30, 31, 32], "A.1": [30, 31, 32]}


def test_child_ids_are_free_ones() -> None:
    engine = engine_with_reads(block_size=4, num_blocks=33, max_num_seqs=8)
    engine.add(RequestSpec("A.2", (9, 9), 4, output=(1, 1, 1, 1)))
    engine.add(RequestSpec("A", tuple(SIX), 4, output=(30, 31, 32, 33)))
    engine.step()
    assert engine.fork("A", 2) == ["A.1", "A.3"]
    assert engine.fork("A.1", 1) == ["A.1.1"]
    assert engine.fork_at_next_token("A", 1) == ["A.4"]
    assert engine.fork("A", 1) == ["A.5"]
    with pytest.raises(UserError, match=r"already a request called A\.4"):
        engine.add(RequestSpec("A.4", (1,), 1, output=(1,)))
    drain(engine)
    assert len(engine.requests) == 7


def refusal(engine: Engine, request_id: str, n: int = 1, **more: object) -> str:
    before = [block.ref_count for block in engine.kv.pool.blocks]
    known = list(engine.requests)
    with pytest.raises(UserError) as refused:
        engine.fork(request_id, n, **more)  # type: ignore[arg-type]
    assert [block.ref_count for block in engine.kv.pool.blocks] == before
    assert list(engine.requests) == known
    assert str(refused.value).count(".") - str(refused.value).count("A.") == 1
    return refused.value.key


def test_what_cannot_be_forked_is_refused_in_one_sentence() -> None:
    engine = engine_with_reads(block_size=4, num_blocks=5, max_num_seqs=2)
    engine.add(RequestSpec("A", tuple(range(8)), 6, output=(1,) * 6))
    engine.add(RequestSpec("B", tuple(range(10, 18)), 6, output=(2,) * 6))
    engine.add(RequestSpec("later", (1,), 1, output=(1,), arrival_step=90))
    assert refusal(engine, "nobody") == "request.unknown"
    assert refusal(engine, "later") == "fork.waiting"
    engine.step()
    assert refusal(engine, "A") == "fork.seats"
    assert refusal(engine, "A", 0) == "fork.count"
    assert refusal(engine, "A", 1, outputs=[(1,), (2,)]) == "fork.lengths"
    engine.step()
    assert engine.requests["B"].status is RequestStatus.PREEMPTED
    assert refusal(engine, "B") == "fork.preempted"
    engine.add(RequestSpec("C", (5,), 1, output=(1,), arrival_step=0))
    engine.step()
    assert refusal(engine, "C") == "fork.waiting"
    drain(engine)
    assert refusal(engine, "A") == "fork.over"


def test_seats_of_children_to_come_are_kept() -> None:
    engine = engine_with_reads(block_size=4, num_blocks=33, max_num_seqs=3, max_num_batched_tokens=4)
    engine.add(RequestSpec("A", tuple(range(9)), 2, output=(30, 31)))
    with pytest.raises(UserError, match="cannot get 3 more"):
        engine.fork_at_next_token("A", 3)
    engine.fork_at_next_token("A", 2)
    engine.add(RequestSpec("B", (50,), 2, output=(1, 2)))
    steps = drain(engine)
    assert [step.snapshot.running for step in steps[:3]] == [("A",), ("A",), ("A", "A.1", "A.2")]
    assert outputs(engine)["B"] == [1, 2]


def test_an_aborted_parent_has_no_children_and_an_aborted_child_is_never_born() -> None:
    engine = engine_with_reads(block_size=4, num_blocks=33, max_num_seqs=8)
    for name in ("A", "B"):
        engine.add(RequestSpec(name, tuple(SIX), 2, output=(30, 31)))
        engine.fork_at_next_token(name, 2)
    engine.abort_at("A", 0)
    engine.abort_at("B.1", 0)
    drain(engine)
    assert sorted(engine.requests) == ["B", "B.2"]
    assert engine.scheduler.expected == {}


def test_a_source_that_becomes_a_target_in_the_same_step_is_copied_from_first() -> None:
    """A copies from a block whose other owner is then preempted; it goes at once to X as the target of X's copy."""
    engine = engine_with_reads(block_size=4, num_blocks=4, max_num_seqs=4)
    engine.add(RequestSpec("A", tuple(range(2)), 2, output=(30, 31)))
    engine.add(RequestSpec("X", tuple(range(50, 52)), 2, output=(60, 61)))
    engine.step()
    engine.fork("X", 1)
    engine.fork("A", 1)
    step = engine.step()
    assert_laws(step)
    assert copies([step]) == [(1, 3, "A"), (2, 1, "X")]
    assert copy_waves([(1, 3), (2, 1)]) == [[(1, 3)], [(2, 1)]]
    drain(engine)


def test_a_victim_takes_its_copy_with_it() -> None:
    """By priority a request already scheduled, with a tail to copy, may still lose its blocks in the step."""
    engine = engine_with_reads(block_size=4, num_blocks=5, max_num_seqs=4, policy="priority")
    engine.add(RequestSpec("low", (1, 2), 4, output=(5, 6, 7, 8), priority=5))
    for name, first in (("high", 50), ("top", 60)):
        prompt = tuple(range(first, first + 4))
        engine.add(RequestSpec(name, prompt, 3, output=(first, first, first), priority=0, arrival_step=1))
    engine.step()
    engine.step()
    engine.fork("low", 1)
    step = engine.step()
    assert_laws(step)
    assert [event.request for event in step.events if isinstance(event, Preempted)] == ["low.1", "low"]
    assert copies([step]) == []
    drain(engine)
    assert outputs(engine)["low"] == outputs(engine)["low.1"] == [5, 6, 7, 8]


def test_waves() -> None:
    assert copy_waves([]) == []
    assert copy_waves([(1, 2), (1, 3), (4, 5)]) == [[(1, 2), (1, 3), (4, 5)]]
    assert copy_waves([(1, 2), (2, 3), (5, 3), (6, 5)]) == [[(1, 2)], [(2, 3)], [(5, 3)], [(6, 5)]]


@pytest.mark.parametrize(
    "setting", [{"kv_layout": "contiguous"}, {"batching": "static"}, {"preemption": "swap"}, {"preemption": "delay"}]
)
def test_a_fork_is_refused_where_branches_cannot_grow(setting: dict[str, object]) -> None:
    engine = engine_of(block_size=4, num_blocks=17, **setting)
    engine.add(spec("A", 6, 8))
    before = engine.step().snapshot
    field, value = next(iter(setting.items()))
    for fork in (engine.fork, engine.fork_at_next_token):
        with pytest.raises(UserError, match=f"cannot be forked while {field} is {value}"):
            fork("A", 2)
    assert [view.id for view in engine.step().snapshot.requests] == [view.id for view in before.requests]

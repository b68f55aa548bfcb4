"""The laws catch what they are for: each mutation breaks one rule of the engine on purpose and must be noticed."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from engine import laws, policies, scheduler
from engine.blocks import BlockPool, FreeQueue
from engine.kv_manager import NO_HIT, HashBlocks, Hit
from engine.laws import Audit
from engine.prefix_hash import BlockKey, HashIndex, KeyChain
from engine.request import Request, RequestSpec
from engine.runner import ScriptedRunner
from engine.timeline import KernelRecord, KernelRow
from tests.engine.replay import AUDITS, assert_laws, engine_of, spec


def pressure(audit: Audit) -> list[str]:
    """A run with hits, sharing, twins, preemption, resume and reuse; returns the laws it breaks, by number."""
    engine = engine_of(audit, block_size=4, num_blocks=11, max_num_batched_tokens=16, max_num_seqs=4)
    shared = tuple(range(8))
    for number in range(6):
        tail = tuple(range(100 * number, 100 * number + 5))
        engine.add(spec(f"r{number}", shared + tail, 9, arrival_step=number // 2))
    engine.add(spec("twin", shared, 3, arrival_step=9))
    engine.add(spec("late", (*shared, 0, 1, 2, 3), 3, arrival_step=9))
    broken: list[str] = []
    for _ in range(120):
        if engine.is_done:
            return broken
        step = engine.step()
        broken += [f"law {law.law}: {law.broken_by}" for law in step.laws if not law.holds]
    return [*broken, "no end"]


@pytest.mark.parametrize("audit", AUDITS)
def test_an_honest_engine_breaks_none(audit: Audit) -> None:
    assert pressure(audit) == []


def _touch_without_dequeue(pool: BlockPool, blocks: list, request: str) -> None:
    for block in blocks:
        block.ref_count += 1


def _touch_without_count(pool: BlockPool, blocks: list, request: str) -> None:
    for block in blocks:
        if block.ref_count == 0:
            pool.free_queue.remove(block)
            block.ref_count = 1


def _free_shared_at_once(pool: BlockPool, blocks: list, request: str, cause: str) -> None:
    for block in blocks:
        if block.ref_count:
            block.ref_count = 0
            pool.free_queue.append([block])


def _free_nothing(pool: BlockPool, blocks: list, request: str, cause: str) -> None:
    return


def _forget_nothing(pool: BlockPool, block: object, request: str) -> None:
    return


def _forget_only_the_index(pool: BlockPool, block: object, request: str) -> None:
    if block.key is not None:  # type: ignore[attr-defined]
        pool.index.remove(block.key, block.id)  # type: ignore[attr-defined]


def _forget_only_the_block(pool: BlockPool, block: object, request: str) -> None:
    block.key = None  # type: ignore[attr-defined]


def _keys_without_parent(chain: KeyChain, keys: list[BlockKey], token_ids: list[int], *_: object) -> None:
    size = chain.block_size
    for index in range(len(keys), len(token_ids) // size):
        tokens = tuple(token_ids[index * size : (index + 1) * size])
        keys.append(BlockKey(None, b"", tokens, None, chain.hasher))


def _find_any(index: HashIndex, key: BlockKey, parent: BlockKey | None) -> int | None:
    return next((block for blocks in index._entries.values() for block in blocks), None)


def _publish_one_block_early(kv: HashBlocks, request: Request, table: list, tokens: int) -> None:
    _publish(kv, request, table, min(tokens + kv.config.block_size, request.num_tokens))


def _lookup_without_cap(kv: HashBlocks, request: Request) -> Hit:
    blocks: list = []
    for key in request.block_keys:
        block = kv.pool.find(key, blocks[-1].key if blocks else None)
        if block is None:
            break
        blocks.append(block)
    return Hit(tuple(blocks), len(blocks) * kv.config.block_size)


def _allocate_too_little(kv: HashBlocks, request: Request, tokens: int, hit: Hit = NO_HIT, **more: object) -> object:
    return _allocate(kv, request, max(1, tokens - 4), hit, **more)  # type: ignore[arg-type]


def _ignore_the_budget(planner: scheduler.Scheduler, plan: scheduler.Plan, budget: int) -> None:
    _schedule_waiting(planner, plan, budget + 100)


def _keep_blocks_of_the_victim(kv: HashBlocks, request: Request, cause: str) -> None:
    if cause != "preempted":
        _free(kv, request, cause)  # type: ignore[arg-type]


def _pop_without_unlinking(queue: FreeQueue) -> object:
    block = next(iter(queue))
    queue._count -= 1
    return block


_publish, _allocate, _free = HashBlocks._publish, HashBlocks.allocate, HashBlocks.free
_schedule_waiting = scheduler.Scheduler._schedule_waiting

MUTATIONS: list[tuple[type, str, Callable[..., object]]] = [
    (BlockPool, "touch", _touch_without_dequeue),
    (BlockPool, "touch", _touch_without_count),
    (BlockPool, "free", _free_shared_at_once),
    (BlockPool, "free", _free_nothing),
    (BlockPool, "_forget", _forget_nothing),
    (BlockPool, "_forget", _forget_only_the_index),
    (BlockPool, "_forget", _forget_only_the_block),
    (KeyChain, "extend", _keys_without_parent),
    (HashIndex, "find", _find_any),
    (HashBlocks, "_publish", _publish_one_block_early),
    (HashBlocks, "lookup", _lookup_without_cap),
    (HashBlocks, "allocate", _allocate_too_little),
    (HashBlocks, "free", _keep_blocks_of_the_victim),
    (scheduler.Scheduler, "_schedule_waiting", _ignore_the_budget),
    (FreeQueue, "pop_head", _pop_without_unlinking),
]


@pytest.mark.parametrize("audit", AUDITS)
@pytest.mark.parametrize(("owner", "name", "mutant"), MUTATIONS, ids=[mutant.__name__ for _, _, mutant in MUTATIONS])
def test_every_mutation_is_caught(
    monkeypatch: pytest.MonkeyPatch, owner: type, name: str, mutant: Callable[..., object], audit: Audit
) -> None:
    monkeypatch.setattr(laws, "FULL_EVERY", 1000)  # what only a full look sees is not seen by the changed ones
    monkeypatch.setattr(owner, name, mutant)
    try:
        broken = pressure(audit)
    except (AssertionError, KeyError, IndexError, ValueError):
        return  # the engine's own checks stopped it, which is a catch too
    assert broken


def test_law_10_reports_nan_and_names_the_request() -> None:
    def record(diff: float | None) -> KernelRecord:
        row = KernelRow("A", 0, 1, 1, (1,), (16,), np.ones((1, 1), dtype=np.float32), diff, ())
        return KernelRecord("torch", 0, 1, 1, 1, 4, (row,), tolerance=1e-4)

    assert laws._kernel_result(record(5e-5)).holds
    assert not laws._kernel_result(record(2e-4)).holds
    assert laws._kernel_result(record(float("nan"))).broken_by == "request A"
    assert not laws._kernel_result(record(None)).checked
    assert not laws._kernel_result(None).checked


class EngineMachine(RuleBasedStateMachine):
    """Random arrivals, aborts and pressure; the laws are the oracle after every step."""

    def __init__(self) -> None:
        super().__init__()
        self.number = 0
        self.engine = engine_of(block_size=2, num_blocks=9, max_num_batched_tokens=8, max_num_seqs=3)

    @rule(
        prompt=st.lists(st.integers(0, 1), min_size=1, max_size=9),
        output=st.lists(st.integers(0, 1), min_size=1, max_size=7),
        priority=st.integers(-1, 1),
        salt=st.sampled_from([None, None, "s"]),
    )
    def add(self, prompt: list[int], output: list[int], priority: int, salt: str | None) -> None:
        self.number += 1
        self.engine.add(
            RequestSpec(
                f"r{self.number}", tuple(prompt), len(output), output=tuple(output), priority=priority, salt=salt
            )
        )

    @precondition(lambda self: self.number)
    @rule(data=st.data())
    def abort(self, data: st.DataObject) -> None:
        self.engine.abort_at(f"r{data.draw(st.integers(1, self.number))}", self.engine.next_step)

    @rule(count=st.integers(1, 6))
    def step(self, count: int) -> None:
        for _ in range(count):
            step = self.engine.step()
            assert_laws(step)
            assert step.scheduled_tokens or not (step.snapshot.running or step.snapshot.waiting), "a stall"

    @invariant()
    def index_is_no_larger_than_the_pool(self) -> None:
        pool = self.engine.kv.pool
        assert len(pool.index) == sum(1 for block in pool.blocks if block.key is not None)

    def teardown(self) -> None:
        for _ in range(1000):
            if self.engine.is_done:
                break
            assert_laws(self.engine.step())
        assert self.engine.is_done
        assert self.engine.kv.pool.num_free == len(self.engine.kv.pool.blocks) - 1
        for request in self.engine.requests.values():
            if request.status.value == "FINISHED":
                assert tuple(request.output_token_ids) == request.spec.output


class PriorityMachine(EngineMachine):
    def __init__(self) -> None:
        super().__init__()
        self.engine = engine_of(
            block_size=2, num_blocks=9, max_num_batched_tokens=8, max_num_seqs=3, policy="priority", watermark=0.1
        )


TestEngineMachine = EngineMachine.TestCase
TestPriorityMachine = PriorityMachine.TestCase
for _case in (TestEngineMachine, TestPriorityMachine):
    _case.settings = settings(max_examples=60, stateful_step_count=30, deadline=None)


def test_victims() -> None:
    def request(name: str, priority: int, arrival: int) -> Request:
        return Request(RequestSpec(name, (1,), 1, priority=priority), arrival)

    running = [request("a", 0, 0), request("b", 5, 1), request("c", 5, 3), request("d", 1, 2)]
    assert policies.choose_victim(running, "fcfs").id == "d"
    assert policies.choose_victim(running, "priority").id == "c"


def test_scripted_runner_needs_no_model() -> None:
    assert ScriptedRunner().vocab_size is None

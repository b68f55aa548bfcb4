"""Forks under random pressure, and the rules of copy-on-write broken on purpose: each must be noticed."""

from __future__ import annotations

from collections.abc import Callable
from random import Random

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import precondition, rule

from engine.blocks import Block, BlockPool
from engine.errors import UserError
from engine.kv_manager import HashBlocks
from engine.request import RequestSpec, RequestStatus
from engine.timeline import Step
from tests.engine.branches import broken_laws, copies, engine_with_reads
from tests.engine.replay import assert_laws
from tests.engine.test_branching import drain, o03_b, outputs, running_fork
from tests.engine.test_laws import EngineMachine

# --- rules broken on purpose


def scene() -> list[str]:
    """Forks, copies, a shortage and the end of parents before children; returns what was noticed."""
    noticed: list[str] = []
    for blocks, prompt in ((8, 6), (3, 6), (8, 8), (9, 5)):
        engine = running_fork(blocks, prompt)
        seen: list[Step] = []
        while not engine.is_done and len(seen) < 60:
            seen.append(engine.step())
            noticed += broken_laws(seen[-1])
        expected = {(8, 6): 2, (3, 6): 1, (8, 8): 0, (9, 5): 2}[blocks, prompt]
        if len(copies(seen)) != expected:
            noticed.append(f"{len(copies(seen))} copies instead of {expected}")
        if outputs(engine) != {"A": [30, 31], "A.1": [10, 11], "A.2": [20, 21]}:
            noticed.append("outputs")
    return noticed


def test_an_honest_engine_gives_nothing_to_notice() -> None:
    assert scene() == []


def _write_in_place(kv: HashBlocks, table: list[Block], computed: int) -> int | None:
    return None


def _copy_always(kv: HashBlocks, table: list[Block], computed: int) -> int | None:
    position = computed // kv.config.block_size
    return position if position < len(table) and computed % kv.config.block_size else None


def _copy_full_tails(kv: HashBlocks, table: list[Block], computed: int) -> int | None:
    return len(table) - 1 if table and table[-1].ref_count > 1 else None


def _copy_the_table_only(kv: HashBlocks) -> list[tuple[int, int]]:
    _take_copies(kv)
    return []


def _count_before_failing(pool: BlockPool, block: Block, request: str, position: int) -> Block:
    block.ref_count -= 1
    return pool.allocate(1, request, position)[0]


def _keep_the_share(pool: BlockPool, block: Block, request: str, position: int) -> Block:
    return pool.allocate(1, request, position)[0]


def _fork_without_counting(pool: BlockPool, blocks: list[Block]) -> None:
    return


def _share_half(pool: BlockPool, blocks: list[Block]) -> None:
    for block in blocks[:1]:
        block.ref_count += 1


_take_copies = HashBlocks.take_copies

MUTATIONS: list[tuple[type, str, Callable[..., object]]] = [
    (HashBlocks, "_shared_tail", _write_in_place),
    (HashBlocks, "_shared_tail", _copy_always),
    (HashBlocks, "_shared_tail", _copy_full_tails),
    (HashBlocks, "take_copies", _copy_the_table_only),
    (BlockPool, "copy_on_write", _keep_the_share),
    (BlockPool, "share", _fork_without_counting),
    (BlockPool, "share", _share_half),
]


@pytest.mark.parametrize(("owner", "name", "mutant"), MUTATIONS, ids=[mutant.__name__ for _, _, mutant in MUTATIONS])
def test_every_mutation_is_caught(
    monkeypatch: pytest.MonkeyPatch, owner: type, name: str, mutant: Callable[..., object]
) -> None:
    monkeypatch.setattr(owner, name, mutant)
    try:
        noticed = scene()
    except (AssertionError, KeyError, IndexError, ValueError):
        return  # the engine's own checks stopped it, which is a catch too
    assert noticed


def test_writing_in_place_is_seen_by_law_6(monkeypatch: pytest.MonkeyPatch) -> None:
    from tests.engine.branches import CheckingRunner

    monkeypatch.setattr(HashBlocks, "_shared_tail", _write_in_place)
    monkeypatch.setattr(CheckingRunner, "execute", CheckingRunner.__mro__[1].execute)  # type: ignore[attr-defined]
    assert broken_laws(running_fork(8).step()) == ["law 6: block 2"]


def test_counts_changed_before_a_failure_are_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(BlockPool, "copy_on_write", _count_before_failing)
    with pytest.raises(AssertionError):
        o03_b()


# --- random forks


class ForkMachine(EngineMachine):
    """The state machine of the laws, with forks now and at the next token, and every read checked."""

    def __init__(self) -> None:
        super().__init__()
        self.engine = engine_with_reads(block_size=3, num_blocks=9, max_num_batched_tokens=8, max_num_seqs=8)

    @precondition(lambda self: self.number)
    @rule(data=st.data(), n=st.integers(1, 3), at_next=st.booleans())
    def fork(self, data: st.DataObject, n: int, at_next: bool) -> None:
        self.fork_one(data.draw(st.sampled_from(sorted(self.engine.requests) or ["r1"])), n, at_next)

    @precondition(lambda self: self.engine.scheduler.running)
    @rule(data=st.data(), n=st.integers(1, 2))
    def fork_running(self, data: st.DataObject, n: int) -> None:
        self.fork_one(data.draw(st.sampled_from([each.id for each in self.engine.scheduler.running])), n, False)

    @precondition(lambda self: self.engine.scheduler.running)
    @rule(data=st.data(), n=st.integers(1, 2))
    def part_running(self, data: st.DataObject, n: int) -> None:
        self.fork_one(data.draw(st.sampled_from([each.id for each in self.engine.scheduler.running])), n, True)
        self.step(1)

    def fork_one(self, name: str, n: int, at_next: bool) -> None:
        before = [block.ref_count for block in self.engine.kv.pool.blocks]
        try:
            if not at_next:
                self.engine.fork(name, n)
                return
            request = self.engine.requests.get(name)
            done = request.num_output_tokens if request else 0
            script = self.script(name)
            tails = [[(token + 1 + child) % 3 for token in script[done:]] for child in range(n)]
            self.engine.fork_at_next_token(name, n, outputs=[(*script[:done], *tail) for tail in tails])
        except UserError as refused:
            assert refused.key in ("fork.waiting", "fork.preempted", "fork.over", "fork.seats", "request.unknown")
            assert [block.ref_count for block in self.engine.kv.pool.blocks] == before

    @rule(length=st.integers(1, 6), output=st.lists(st.integers(0, 1), min_size=5, max_size=10))
    def add_long(self, length: int, output: list[int]) -> None:
        self.number += 1
        self.engine.add(RequestSpec(f"r{self.number}", (0, 1, 0, 0, 1, 1)[:length], len(output), output=tuple(output)))

    @precondition(lambda self: self.engine.scheduler.waiting or self.engine._pending)
    @rule(count=st.integers(1, 2))
    def few_steps(self, count: int) -> None:
        self.step(count)

    def script(self, name: str) -> tuple[int, ...]:
        request = self.engine.requests.get(name)
        spec = request.spec if request else self.engine._pending.get(name)
        return spec.output or () if spec else ()


@pytest.mark.parametrize(("policy", "caching"), [("fcfs", True), ("priority", False)])
def test_a_long_run_of_forks_under_pressure(policy: str, caching: bool) -> None:
    """500 seeded steps in a pool of 11 blocks: every read is checked, every law holds, nothing is lost.

    Not priority with caching: there vLLM, and so we, may leave a hash on a block that its preempted filler never wrote.
    """
    draw = Random(7)
    engine = engine_with_reads(
        block_size=4, num_blocks=12, max_num_seqs=6, max_num_batched_tokens=12, policy=policy,
        enable_prefix_caching=caching,
    )  # fmt: skip
    steps: list[Step] = []
    for number in range(500):
        if len(engine.scheduler.waiting) < 2 and draw.random() < 0.4:
            output = tuple(draw.randrange(3) for _ in range(draw.randint(2, 12)))
            prompt = tuple(draw.randrange(2) for _ in range(draw.randint(1, 11)))
            engine.add(RequestSpec(f"r{number}", prompt, len(output), output=output, priority=draw.randrange(3)))
        running = engine.scheduler.running
        if running and engine.scheduler.seats < 6 and draw.random() < 0.5:
            engine.fork(draw.choice(running).id, 1)
        if running and draw.random() < 0.05:
            engine.abort_at(draw.choice(running).id, engine.next_step)
        steps.append(engine.step())
        assert_laws(steps[-1])
    assert len(copies(steps)) > 40
    drain(engine)
    for request in engine.requests.values():
        if request.status is RequestStatus.FINISHED:
            assert tuple(request.output_token_ids) == request.spec.output


TestForkMachine = ForkMachine.TestCase
TestForkMachine.settings = settings(max_examples=40, stateful_step_count=30, deadline=None)

"""An immutable picture of the engine; what figures draw and what laws are checked on."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import islice
from typing import TYPE_CHECKING, NamedTuple, TypeVar

from engine.blocks import Block
from engine.config import EngineConfig
from engine.events import WaitReason, WorkKind
from engine.history import History, Moment
from engine.prefix_hash import BlockKey
from engine.request import Request, RequestStatus

if TYPE_CHECKING:
    from engine.kv_manager import KVManager
    from engine.scheduler import Plan, Scheduler


S = TypeVar("S")

# Which of the three limits stands behind a reason that is not one of them.
_BINDS: dict[str, str] = {
    "preemption": "blocks", "hole": "blocks", "reserved": "blocks", "delayed": "blocks", "batch": "sequences",
}  # fmt: skip


class RequestView(NamedTuple):
    """One request at one moment. `scheduled` and `work` are this step's share; positions are 0-based.

    A named tuple, because hundreds may be made in a step, and a frozen dataclass takes six times as long.
    """

    id: str
    status: RequestStatus
    prompt_tokens: int
    known_tokens: int
    computed_tokens: int
    output_tokens: int
    max_tokens: int
    priority: int
    preemptions: int
    cached_tokens: int
    block_table: tuple[int, ...]
    scheduled: int = 0
    work: WorkKind | None = None
    wait_reason: WaitReason | None = None
    finish_reason: str | None = None
    host_blocks: tuple[int, ...] = ()  # where its KV is while it is swapped out


class BlockRecord(NamedTuple):
    """What a picture keeps of a block; `next` is the id behind it in the free queue, -1 at the tail, None outside."""

    ref_count: int
    key: BlockKey | None
    next: int | None


@dataclass(frozen=True, slots=True, eq=False)
class PoolView:
    """The block pool, indexed by physical block id; block 0 is the null block.

    `num_free`: length of the free queue, `head` its first block. `duplicates`: short hash → blocks that hold the same
    content, oldest (the one a lookup finds) first. Whatever has an entry for each block is put together when read.
    """

    block_size: int
    num_free: int
    head: int
    blocks: Moment[BlockRecord]
    requests: Moment[RequestView]
    duplicates: Mapping[str, tuple[int, ...]]

    @property
    def num_blocks(self) -> int:
        """All blocks, the null block included."""
        return len(self.blocks)

    @property
    def owned(self) -> int:
        """Blocks with at least one owner."""
        return self.num_blocks - 1 - self.num_free

    @property
    def ref_count(self) -> tuple[int, ...]:
        """Owners of each block."""
        return _columns(self).ref_count

    @property
    def fill(self) -> tuple[int, ...]:
        """Slots of each block with valid KV; a cached block keeps its content, so it stays full at ref count 0."""
        return _columns(self).fill

    @property
    def hashes(self) -> tuple[str | None, ...]:
        """Short hash under which each block is published, or None."""
        return _columns(self).hashes

    @property
    def free_queue(self) -> tuple[int, ...]:
        """Ids of the free blocks, head first."""
        return _columns(self).free_queue

    @property
    def free_cached(self) -> int:
        """Free blocks whose content can still be hit."""
        hashes = self.hashes
        return sum(1 for block in self.free_queue if hashes[block] is not None)

    @property
    def free_empty(self) -> int:
        return self.num_free - self.free_cached


class _Columns(NamedTuple):
    ref_count: tuple[int, ...]
    fill: tuple[int, ...]
    hashes: tuple[str | None, ...]
    free_queue: tuple[int, ...]


@lru_cache(maxsize=16)
def _columns(pool: PoolView) -> _Columns:
    records = pool.blocks.items
    return _Columns(
        ref_count=tuple(record.ref_count for record in records),
        fill=_fill(records, pool.requests, pool.block_size),
        hashes=tuple(None if record.key is None else record.key.short for record in records),
        free_queue=_chain(records, pool.head),
    )


def _fill(records: Sequence[BlockRecord], views: Sequence[RequestView], size: int) -> tuple[int, ...]:
    fill = [0 if record.key is None else size for record in records]
    for view in views:
        for position, block_id in enumerate(view.block_table):
            valid = min(size, max(0, view.computed_tokens - position * size))
            fill[block_id] = max(fill[block_id], valid)
    return tuple(fill)


def _chain(records: Sequence[BlockRecord], head: int) -> tuple[int, ...]:
    """The free queue by its links; no longer than the pool, even if a broken engine tied them to a ring."""
    queue: list[int] = []
    at: int | None = head
    while at is not None and at >= 0 and len(queue) < len(records):
        queue.append(at)
        at = records[at].next
    return tuple(queue)


@dataclass(frozen=True, slots=True)
class Budget:
    """One of the three limits of a step: `used` of `limit`."""

    used: int
    limit: int


@dataclass(frozen=True, slots=True)
class Budgets:
    """Token budget (scheduled tokens), block budget (owned blocks while the step runs), sequence limit (running).

    `binding` names the limit that kept a request from running in this step, or None.
    """

    tokens: Budget
    blocks: Budget
    sequences: Budget
    binding: str | None = None


@dataclass(frozen=True, slots=True)
class Snapshot:
    """The engine after scheduling (`Step.scheduled`) or after the commit (`Step.snapshot`) of step `step`.

    `requests` holds every request that has arrived, in order of arrival, also those that are over. `in_flight` is
    True for the former: computed_tokens then already count the positions that this step computes.
    """

    step: int
    requests: Moment[RequestView]
    running: tuple[str, ...]
    waiting: tuple[str, ...]
    pool: PoolView
    budgets: Budgets
    in_flight: bool = False

    def request(self, request_id: str) -> RequestView:
        return next(view for view in self.requests if view.id == request_id)

    def owners(self) -> dict[int, tuple[str, ...]]:
        """Physical block → ids of the requests whose block tables list it."""
        owners: dict[int, list[str]] = {}
        for view in self.requests:
            for block in view.block_table:
                owners.setdefault(block, []).append(view.id)
        return {block: tuple(ids) for block, ids in owners.items()}


class Changes(NamedTuple):
    """What differs between a picture and the one before it."""

    blocks: Sequence[Block]
    views: Sequence[RequestView]


class SnapshotTaker:
    """Takes pictures of a scheduler and its KV blocks at the cost of what has changed since the last one.

    `changes` tells what that was. A request that waits is looked at, but costs nothing while it waits for one reason;
    one that is over is not even looked at.
    """

    def __init__(self, config: EngineConfig, scheduler: Scheduler, kv: KVManager) -> None:
        self._config = config
        self._scheduler = scheduler
        self._kv = kv
        self._blocks = History(_record(block) for block in kv.pool.blocks)
        kv.pool.changed.clear()
        self._requests: History[RequestView] = History()
        self._live: dict[str, _Seen] = {}
        self._running: tuple[str, ...] = ()
        self._waiting: tuple[str, ...] = ()
        self._duplicates: Mapping[str, tuple[int, ...]] = {}
        self.changes = Changes((), ())

    def take(self, step: int, requests: dict[str, Request], plan: Plan | None, in_flight: bool) -> Snapshot:
        """The state now; `requests` are all that have arrived. `in_flight`: when the step's blocks are all owned."""
        self.changes = Changes(self._note_blocks(), self._note_requests(requests, plan))
        self._running = _same(self._running, tuple([request.id for request in self._scheduler.running]))
        self._waiting = _same(self._waiting, tuple([request.id for request in self._scheduler.waiting]))
        self._duplicates = _same(self._duplicates, self._kv.pool.index.duplicates())
        views, queue = self._requests.now(), self._kv.pool.free_queue
        pool = PoolView(
            block_size=self._config.block_size,
            num_free=len(queue),
            head=queue.head,
            blocks=self._blocks.now(),
            requests=views,
            duplicates=self._duplicates,
        )
        budgets = self._budgets(plan, self._running, pool)
        return Snapshot(step, views, self._running, self._waiting, pool, budgets, in_flight)

    def _note_blocks(self) -> list[Block]:
        changed = list(self._kv.pool.changed)
        self._kv.pool.changed.clear()
        for block in changed:
            self._blocks.put(block.id, _record(block))
        return changed

    def _note_requests(self, requests: dict[str, Request], plan: Plan | None) -> list[RequestView]:
        arrived = list(islice(reversed(requests.values()), len(requests) - len(self._requests)))
        for request in reversed(arrived):
            self._live[request.id] = _Seen(request)
        changed = []
        for seen in list(self._live.values()):
            view = self._view(seen, plan)
            if view == seen.view:
                continue
            seen.view = view
            changed.append(view)
            self._requests.put(seen.request.arrival, view)
            if view.status.is_over and not view.scheduled:
                del self._live[view.id]
        return changed

    def _view(self, seen: _Seen, plan: Plan | None) -> RequestView:
        request, last = seen.request, seen.view
        name, status = request.id, request.status
        reason = plan.wait_reasons.get(name) if plan else None
        idle = last is not None and status is last.status is not RequestStatus.RUNNING and not last.scheduled
        if last is not None and idle and (reason is last.wait_reason or reason == last.wait_reason):
            return last
        blocks = self._kv.block_table(name)
        if blocks != seen.blocks:
            seen.blocks, seen.table = blocks.copy(), tuple([block.id for block in blocks])
        known, prompt = len(request.token_ids), request.num_prompt_tokens
        return RequestView(
            name,
            status,
            prompt,
            known,
            request.num_computed_tokens,
            known - prompt,
            request.spec.max_tokens,
            request.spec.priority,
            request.num_preemptions,
            request.num_cached_tokens,
            seen.table,
            plan.tokens.get(name, 0) if plan else 0,
            plan.work.get(name) if plan else None,
            reason,
            request.finish_reason,
            self._scheduler.swap.blocks(name) if self._scheduler.swap else (),
        )

    def _budgets(self, plan: Plan | None, running: tuple[str, ...], pool: PoolView) -> Budgets:
        binding = None
        if plan is not None and plan.wait_reasons:
            limit = next(iter(plan.wait_reasons.values())).limit
            binding = _BINDS.get(limit, limit)
        return Budgets(
            tokens=Budget(plan.total_tokens if plan else 0, self._config.max_num_batched_tokens),
            blocks=Budget(pool.owned, self._config.usable_blocks),
            sequences=Budget(len(running), self._config.max_num_seqs),
            binding=binding,
        )


class _Seen:
    """A live request with its last view, and its block table as blocks and as ids."""

    __slots__ = ("blocks", "request", "table", "view")

    def __init__(self, request: Request) -> None:
        self.request = request
        self.view: RequestView | None = None
        self.blocks: list[Block] = []
        self.table: tuple[int, ...] = ()


def _record(block: Block) -> BlockRecord:
    return BlockRecord(block.ref_count, block.key, None if block.next is None else block.next.id)


def _same(old: S, new: S) -> S:
    """The old object if it equals the new one, so that pictures share it."""
    return old if old == new else new

"""Takes the pictures: reads what has changed in scheduler, pool and requests since the last one."""

from __future__ import annotations

from array import array
from collections.abc import Mapping, Sequence
from itertools import chain, islice
from typing import NamedTuple, TypeVar

from engine.blocks import Block
from engine.config import EngineConfig
from engine.history import History
from engine.kv_manager import KVManager
from engine.radix_pages import RadixPages
from engine.radix_view import radix_view
from engine.request import Request, RequestStatus
from engine.scheduler import Plan, Scheduler
from engine.snapshot import Batch, BlockRecord, Budget, Budgets, PoolView, RequestView, RequestViews, Snapshot

S = TypeVar("S")

# Which of the three limits stands behind a reason that is not one of them.
_BINDS: dict[str, str] = {
    "preemption": "blocks", "hole": "blocks", "reserved": "blocks", "delayed": "blocks", "batch": "sequences",
    "estimate": "blocks",
}  # fmt: skip


class Changes(NamedTuple):
    """What may differ between a picture and the one before it: these blocks and requests, and no others."""

    blocks: Sequence[Block]
    requests: Sequence[Request]


class SnapshotTaker:
    """Takes pictures of a scheduler and its KV blocks; `changes` tells what the last one looked at.

    A running request costs an entry in each column, one that waits a glance, one that is over nothing.
    """

    def __init__(self, config: EngineConfig, scheduler: Scheduler, kv: KVManager) -> None:
        self._config = config
        self._scheduler = scheduler
        self._kv = kv
        self._blocks = History(_record(block) for block in kv.pool.blocks)
        kv.pool.changed.clear()
        self._settled: History[RequestView] = History()
        self._last: dict[str, RequestView] = {}  # request id → settled view, of those that are not over
        self._tables: dict[str, _Table] = {}
        self._leaving: list[Request] = []  # over, but still shown with what the step computed for them
        self._ran: list[Request] = []
        self._running: tuple[str, ...] = ()
        self._waiting: tuple[str, ...] = ()
        self._arrivals: tuple[int, ...] = ()
        self._duplicates: Mapping[str, tuple[int, ...]] = {}
        self.changes = Changes((), ())

    def take(self, step: int, requests: dict[str, Request], plan: Plan | None, in_flight: bool) -> Snapshot:
        """The state now; `requests` are all that have arrived. `in_flight`: between scheduling and commit."""
        scheduler, pool = self._scheduler, self._kv.pool
        blocks, turned = self._note_blocks(), self._settle(requests, plan)
        stopped = [request for request in turned if request.status is not RequestStatus.RUNNING]
        self.changes = Changes(blocks, [*scheduler.running, *stopped])
        self._running = _same(self._running, tuple([request.id for request in scheduler.running]))
        self._waiting = _same(self._waiting, tuple([request.id for request in scheduler.waiting]))
        self._duplicates = _same(self._duplicates, pool.index.duplicates())
        views = RequestViews(self._settled.now(), self._batch(scheduler.running, plan))
        view = PoolView(
            block_size=self._config.block_size,
            num_free=len(pool.free_queue),
            head=pool.free_queue.head,
            blocks=self._blocks.now(),
            requests=views,
            duplicates=self._duplicates,
            radix=radix_view(self._kv.tree) if isinstance(self._kv, RadixPages) else None,
        )
        budgets = self._budgets(plan, self._running, view)
        return Snapshot(step, views, self._running, self._waiting, view, budgets, in_flight)

    def _note_blocks(self) -> list[Block]:
        changed = [block for block in self._kv.pool.changed if block.id >= 0]  # the queue's ends are no blocks
        self._kv.pool.changed.clear()
        self._blocks.put((block.id, _record(block)) for block in changed)
        return changed

    def _settle(self, requests: dict[str, Request], plan: Plan | None) -> list[Request]:
        """Makes a view of each request whose life took a turn, and returns these requests."""
        arrived = list(islice(reversed(requests.values()), len(requests) - len(self._settled)))[::-1]
        ran = set(self._running)
        began = [request for request in self._scheduler.running if request.id not in ran]
        stopped = [request for request in self._ran if request.status is not RequestStatus.RUNNING]
        gave_up = [requests[name] for name in self._waiting if requests[name].status.is_over]
        self._ran = self._scheduler.running.copy()
        turned: dict[str, Request] = {}
        for request in chain(arrived, began, self._leaving, stopped, gave_up, self._scheduler.waiting):
            if request.id not in turned and not self._waits_on(request, plan):
                turned[request.id] = request
        self._settled.put((request.arrival, self._view(request, plan)) for request in turned.values())
        self._leaving = [request for request in stopped if request.status.is_over]
        return list(turned.values())

    def _waits_on(self, request: Request, plan: Plan | None) -> bool:
        """True if the request has been waiting, and for the same reason, since its last view."""
        last = self._last.get(request.id)
        reason = plan.wait_reasons.get(request.id) if plan else None
        return last is not None and last.status is request.status and last.wait_reason == reason

    def _view(self, request: Request, plan: Plan | None) -> RequestView:
        over, tokens = request.status.is_over, plan.tokens.get(request.id, 0) if plan else 0
        view = RequestView(
            id=request.id,
            status=request.status,
            prompt_tokens=request.num_prompt_tokens,
            known_tokens=request.num_tokens,
            computed_tokens=request.num_computed_tokens,
            output_tokens=request.num_output_tokens,
            max_tokens=request.spec.max_tokens,
            priority=request.spec.priority,
            preemptions=request.num_preemptions,
            cached_tokens=request.num_cached_tokens,
            block_table=self._table(request),
            scheduled=tokens,
            work=plan.work.get(request.id) if plan else None,
            wait_reason=plan.wait_reasons.get(request.id) if plan else None,
            finish_reason=request.finish_reason,
            host_blocks=self._scheduler.swap.blocks(request.id) if self._scheduler.swap else (),
        )
        if over:
            self._last.pop(request.id, None)
            self._tables.pop(request.id, None)
        else:
            self._last[request.id] = view
        return view

    def _batch(self, running: Sequence[Request], plan: Plan | None) -> Batch:
        self._arrivals = _same(self._arrivals, tuple([request.arrival for request in running]))
        return Batch(
            arrivals=self._arrivals,
            computed=array("i", [request.num_computed_tokens for request in running]),
            known=array("i", [len(request.token_ids) for request in running]),
            tables=tuple([self._table(request) for request in running]),
            plan=plan,
        )

    def _table(self, request: Request) -> tuple[int, ...]:
        """Ids of the request's block table: the same tuple until the table is another."""
        blocks = self._kv.block_table(request.id)
        known = self._tables.get(request.id)
        if known is None or known.blocks != blocks:
            known = self._tables[request.id] = _Table(blocks.copy(), tuple([block.id for block in blocks]))
        return known.ids

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


class _Table(NamedTuple):
    blocks: list[Block]
    ids: tuple[int, ...]


def _record(block: Block) -> BlockRecord:
    return BlockRecord(block.ref_count, block.key, None if block.next is None else block.next.id)


def _same(old: S, new: S) -> S:
    """The old object if it equals the new one, so that pictures share it."""
    return old if old == new else new

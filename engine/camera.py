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
    """What took a turn between a picture and the one before it.

    `blocks`: count, key or place in the free queue. `requests`: arrived, began or ceased to run or to wait.
    """

    blocks: Sequence[Block]
    requests: Sequence[Request]


class SnapshotTaker:
    """Takes pictures of a scheduler and its KV blocks; `changes` tells what the last one looked at.

    A running request costs an entry in each column; one that waits on or is over costs nothing.
    """

    def __init__(self, config: EngineConfig, scheduler: Scheduler, kv: KVManager) -> None:
        self._config = config
        self._scheduler = scheduler
        self._kv = kv
        self._blocks = History(_record(block) for block in kv.pool.blocks)
        kv.pool.changed.clear()
        self._settled: History[RequestView] = History()
        self._tables: dict[str, _Table] = {}
        self._leaving: list[str] = []  # over, but still shown with what the step computed for them
        self._running: tuple[str, ...] = ()
        self._waiting: tuple[str, ...] = ()
        self._duplicates: Mapping[str, tuple[int, ...]] = {}
        self.changes = Changes((), ())

    def take(self, step: int, requests: dict[str, Request], plan: Plan, in_flight: bool) -> Snapshot:
        """The state now; `requests` are all that have arrived. `in_flight`: between scheduling and commit."""
        running = tuple([request.id for request in self._scheduler.running])
        waiting = tuple([request.id for request in self._scheduler.waiting])
        moved = _moved(self._running, running) | _moved(self._waiting, waiting)
        self._running, self._waiting = _same(self._running, running), _same(self._waiting, waiting)
        self.changes = Changes(self._note_blocks(), self._settle(requests, moved, plan))
        # Blocks are handed out while scheduling; in the commit a radix tree puts its own in place of duplicates.
        if in_flight or isinstance(self._kv, RadixPages):
            self._note_tables(self._scheduler.running)
        views = RequestViews(self._settled.now(), self._batch(plan))
        pool = self._pool(views)
        budgets = self._budgets(plan, pool)
        return Snapshot(step, views, self._running, self._waiting, pool, budgets, in_flight)

    def _pool(self, views: RequestViews) -> PoolView:
        pool = self._kv.pool
        self._duplicates = _same(self._duplicates, pool.index.duplicates())
        return PoolView(
            block_size=self._config.block_size,
            num_free=len(pool.free_queue),
            head=pool.free_queue.head,
            blocks=self._blocks.now(),
            requests=views,
            duplicates=self._duplicates,
            radix=radix_view(self._kv.tree) if isinstance(self._kv, RadixPages) else None,
        )

    def _note_blocks(self) -> list[Block]:
        changed = [block for block in self._kv.pool.changed if block.id >= 0]  # the queue's ends are no blocks
        self._kv.pool.changed.clear()
        self._blocks.put([block.id for block in changed], [_record(block) for block in changed])
        return changed

    def _settle(self, requests: dict[str, Request], moved: set[str], plan: Plan) -> list[Request]:
        """Makes a view of each request that arrived, or `moved`, or was over just now; returns these requests."""
        arrived = list(islice(reversed(requests.values()), len(requests) - len(self._settled)))[::-1]
        turned = {request.id: request for request in arrived}
        turned.update((name, requests[name]) for name in chain(self._leaving, moved))
        self._settled.put(
            [request.arrival for request in turned.values()],
            [self._view(request, plan) for request in turned.values()],
        )
        self._leaving = [name for name in moved if requests[name].status.is_over]
        return list(turned.values())

    def _view(self, request: Request, plan: Plan) -> RequestView:
        self._note_tables([request])
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
            block_table=self._tables[request.id].ids,
            scheduled=plan.tokens.get(request.id, 0),
            work=plan.work.get(request.id),
            finish_reason=request.finish_reason,
            host_blocks=self._scheduler.swap.blocks(request.id) if self._scheduler.swap else (),
        )
        if request.status is not RequestStatus.RUNNING:
            del self._tables[request.id]
        return view

    def _batch(self, plan: Plan) -> Batch:
        running = self._scheduler.running
        return Batch(
            arrivals=array("i", [request.arrival for request in running]),
            computed=array("i", [request.num_computed_tokens for request in running]),
            known=array("i", [len(request.token_ids) for request in running]),
            tables=tuple([self._tables[request.id].ids for request in running]),
            tokens=plan.tokens,
            work=plan.work,
            wait_reasons=plan.wait_reasons,
        )

    def _note_tables(self, requests: Sequence[Request]) -> None:
        """Keeps the ids of each block table: the same tuple until the table is another.

        A table grows at its end, where copy-on-write takes place too; only a radix tree puts blocks into its middle.
        """
        tables, block_table = self._tables, self._kv.block_table
        anywhere = isinstance(self._kv, RadixPages)
        for request in requests:
            blocks, known = block_table(request.id), tables.get(request.id)
            if (
                anywhere or known is None or known.table is not blocks or len(known.ids) != len(blocks)
                or (blocks and known.last is not blocks[-1])
            ):  # fmt: skip
                ids = tuple([block.id for block in blocks])
                last = blocks[-1] if blocks else None
                tables[request.id] = _Table(blocks, last, ids if known is None else _same(known.ids, ids))

    def _budgets(self, plan: Plan, pool: PoolView) -> Budgets:
        binding = None
        if plan.wait_reasons:
            limit = next(iter(plan.wait_reasons.values())).limit
            binding = _BINDS.get(limit, limit)
        return Budgets(
            tokens=Budget(plan.total_tokens, self._config.max_num_batched_tokens),
            blocks=Budget(pool.owned, self._config.usable_blocks),
            sequences=Budget(len(self._running), self._config.max_num_seqs),
            binding=binding,
        )


class _Table(NamedTuple):
    """A request's block table as it was looked at last: the list itself, its last block then, and the ids."""

    table: list[Block]
    last: Block | None
    ids: tuple[int, ...]


def _record(block: Block) -> BlockRecord:
    return block.ref_count, block.key, None if block.next is None else block.next.id


def _moved(old: tuple[str, ...], new: tuple[str, ...]) -> set[str]:
    return set() if old == new else set(old) ^ set(new)


def _same(old: S, new: S) -> S:
    """The old object if it equals the new one, so that pictures share it."""
    return old if old == new else new

"""An immutable picture of the engine; what figures draw and what laws are checked on."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from engine.config import EngineConfig
from engine.events import WaitReason, WorkKind
from engine.prefix_hash import BlockKey
from engine.request import Request, RequestStatus

if TYPE_CHECKING:
    from engine.kv_manager import KVManager
    from engine.scheduler import Plan, Scheduler


# Which of the three limits stands behind a reason that is not one of them.
_BINDS: dict[str, str] = {
    "preemption": "blocks", "hole": "blocks", "reserved": "blocks", "delayed": "blocks", "batch": "sequences",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class RequestView:
    """One request at one moment. `scheduled` and `work` are this step's share; positions are 0-based."""

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


@dataclass(frozen=True, slots=True)
class PoolView:
    """The block pool, indexed by physical block id; block 0 is the null block.

    `fill[b]`: slots with valid KV (a cached block keeps its content, so it stays full at ref count 0).
    `hashes[b]`: short hash under which the block is published, or None. `parents[b]`: the short hash it chains from,
    None for the first block of a chain or an unpublished one. `free_queue`: ids, head first.
    `duplicates`: short hash → blocks that hold the same content, oldest (the one a lookup finds) first.
    """

    block_size: int
    ref_count: tuple[int, ...]
    fill: tuple[int, ...]
    hashes: tuple[str | None, ...]
    parents: tuple[str | None, ...]
    free_queue: tuple[int, ...]
    duplicates: Mapping[str, tuple[int, ...]] = field(default_factory=dict)

    @property
    def num_blocks(self) -> int:
        """All blocks, the null block included."""
        return len(self.ref_count)

    @property
    def owned(self) -> int:
        """Blocks with at least one owner."""
        return self.num_blocks - 1 - len(self.free_queue)

    @property
    def free_cached(self) -> int:
        """Free blocks whose content can still be hit."""
        return sum(1 for block in self.free_queue if self.hashes[block] is not None)

    @property
    def free_empty(self) -> int:
        return len(self.free_queue) - self.free_cached


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
    requests: tuple[RequestView, ...]
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


class SnapshotTaker:
    """Takes pictures of a scheduler and its KV blocks; the views of requests that are over are shared between them."""

    def __init__(self, config: EngineConfig, scheduler: Scheduler, kv: KVManager) -> None:
        self._config = config
        self._scheduler = scheduler
        self._kv = kv
        self._over: dict[str, RequestView] = {}

    def take(self, step: int, requests: Iterable[Request], plan: Plan | None, in_flight: bool) -> Snapshot:
        """The state now. `in_flight`: between scheduling and commit, when the step's blocks are all owned."""
        views = tuple(self._view(request, plan) for request in requests)
        running = tuple(request.id for request in self._scheduler.running)
        waiting = tuple(request.id for request in self._scheduler.waiting)
        pool = self._pool(views)
        budgets = self._budgets(plan, running, pool)
        return Snapshot(step, views, running, waiting, pool, budgets, in_flight)

    def _view(self, request: Request, plan: Plan | None) -> RequestView:
        known = self._over.get(request.id)
        if known is not None:
            return known
        tokens = plan.tokens.get(request.id, 0) if plan else 0
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
            block_table=tuple(block.id for block in self._kv.block_table(request.id)),
            scheduled=tokens,
            work=plan.work.get(request.id) if plan else None,
            wait_reason=plan.wait_reasons.get(request.id) if plan else None,
            finish_reason=request.finish_reason,
            host_blocks=self._scheduler.swap.blocks(request.id) if self._scheduler.swap else (),
        )
        if request.status.is_over and not tokens:
            self._over[request.id] = view
        return view

    def _pool(self, views: tuple[RequestView, ...]) -> PoolView:
        blocks = self._kv.pool.blocks
        size = self._config.block_size
        fill = [size if block.key is not None else 0 for block in blocks]
        for view in views:
            for position, block_id in enumerate(view.block_table):
                valid = min(size, max(0, view.computed_tokens - position * size))
                fill[block_id] = max(fill[block_id], valid)
        return PoolView(
            block_size=size,
            ref_count=tuple(block.ref_count for block in blocks),
            fill=tuple(fill),
            hashes=tuple(None if block.key is None else block.key.short for block in blocks),
            parents=tuple(_parent(block.key) for block in blocks),
            free_queue=tuple(block.id for block in self._kv.pool.free_queue),
            duplicates=self._kv.pool.index.duplicates(),
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


def _parent(key: BlockKey | None) -> str | None:
    return None if key is None or key.parent is None else key.parent.short

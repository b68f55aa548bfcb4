"""An immutable picture of the engine; what figures draw and what laws are checked on."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple, TypeAlias, overload

from engine.events import WaitReason, WorkKind
from engine.history import Moment
from engine.prefix_hash import BlockKey
from engine.request import RequestStatus

if TYPE_CHECKING:
    from engine.radix_view import RadixView


class RequestView(NamedTuple):
    """One request at one moment. `scheduled` and `work` are this step's share; positions are 0-based.

    A named tuple, because hundreds may be made in a step: a frozen dataclass takes six times as long.
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


class Batch(NamedTuple):
    """What every step changes: a column each for the running requests, and by request id what the step decided."""

    arrivals: Sequence[int]
    computed: Sequence[int]
    known: Sequence[int]
    tables: tuple[tuple[int, ...], ...]
    tokens: Mapping[str, int]
    work: Mapping[str, WorkKind]
    wait_reasons: Mapping[str, WaitReason]


@dataclass(frozen=True, slots=True, eq=False)
class RequestViews(Sequence[RequestView]):
    """Every request that has arrived, in order of arrival; put together when read.

    `settled`: their views as of the last turn in their lives; `batch`: what has changed since.
    """

    settled: Moment[RequestView]
    batch: Batch

    def __len__(self) -> int:
        return len(self.settled)

    def __iter__(self) -> Iterator[RequestView]:
        return iter(_views(self))

    @overload
    def __getitem__(self, index: int) -> RequestView: ...
    @overload
    def __getitem__(self, index: slice) -> tuple[RequestView, ...]: ...
    def __getitem__(self, index: int | slice) -> RequestView | tuple[RequestView, ...]:
        return _views(self)[index]


@lru_cache(maxsize=16)
def _views(requests: RequestViews) -> tuple[RequestView, ...]:
    views, batch = list(requests.settled.items), requests.batch
    for arrival, computed, known, table in zip(*batch[:4], strict=True):
        view = views[arrival]
        views[arrival] = view._replace(
            computed_tokens=computed,
            known_tokens=known,
            output_tokens=known - view.prompt_tokens,
            block_table=table,
            scheduled=batch.tokens.get(view.id, 0),
            work=batch.work.get(view.id),
        )
    reasons = batch.wait_reasons
    return tuple(view._replace(wait_reason=reasons[view.id]) if view.id in reasons else view for view in views)


# What a picture keeps of a block: count, key, and the id behind it in the free queue (-1 at the tail, None outside).
BlockRecord: TypeAlias = tuple[int, BlockKey | None, int | None]


@dataclass(frozen=True, slots=True, eq=False)
class PoolView:
    """The block pool, indexed by physical block id; block 0 is the null block.

    `num_free`: length of the free queue, `head` its first block. `duplicates`: short hash → blocks that hold the same
    content, oldest (the one a lookup finds) first. Whatever has an entry for each block is put together when read.

    With `radix` a block is a page. Its hash is its node's name, and what only the tree holds is neither owned nor free.
    """

    block_size: int
    num_free: int
    head: int
    blocks: Moment[BlockRecord]
    requests: RequestViews
    duplicates: Mapping[str, tuple[int, ...]]
    radix: RadixView | None = None

    @property
    def num_blocks(self) -> int:
        """All blocks, the null block included."""
        return len(self.blocks)

    @property
    def owned(self) -> int:
        """Blocks with at least one owner."""
        return self.num_blocks - 1 - self.num_free - self.num_evictable

    @property
    def num_evictable(self) -> int:
        """Pages that only the radix tree holds."""
        return 0 if self.radix is None else self.radix.evictable // self.block_size

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
    def parents(self) -> tuple[str | None, ...]:
        """Short hash that each block's hash chains from; None for the first of a chain and for unpublished blocks."""
        return _columns(self).parents

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

    @property
    def cached(self) -> int:
        """Blocks without an owner whose content can be hit: in the free queue, or held by the radix tree alone."""
        return self.free_cached + self.num_evictable


class _Columns(NamedTuple):
    ref_count: tuple[int, ...]
    fill: tuple[int, ...]
    hashes: tuple[str | None, ...]
    parents: tuple[str | None, ...]
    free_queue: tuple[int, ...]


@lru_cache(maxsize=16)
def _columns(pool: PoolView) -> _Columns:
    counts, keys, links = zip(*pool.blocks, strict=True)
    hashes = [None if key is None else key.short for key in keys]
    for node in pool.radix or ():
        for page in node.pages.tolist():
            hashes[page] = f"n{node.id}"
    return _Columns(
        ref_count=counts,
        fill=_fill(hashes, pool.requests, pool.block_size),
        hashes=tuple(hashes),
        parents=tuple(_parent(key) for key in keys),
        free_queue=_chain(links, pool.head) if pool.radix is None else tuple(pool.radix.free_pages.tolist()),
    )


def _fill(hashes: Sequence[str | None], views: Sequence[RequestView], size: int) -> tuple[int, ...]:
    fill = [0 if name is None else size for name in hashes]
    for view in views:
        for position, block_id in enumerate(view.block_table):
            valid = min(size, max(0, view.computed_tokens - position * size))
            fill[block_id] = max(fill[block_id], valid)
    return tuple(fill)


def _parent(key: BlockKey | None) -> str | None:
    return None if key is None or key.parent is None else key.parent.short


def _chain(links: Sequence[int | None], head: int) -> tuple[int, ...]:
    """The free queue by its links; no longer than the pool, even if a broken engine tied them to a ring."""
    queue: list[int] = []
    at: int | None = head
    while at is not None and at >= 0 and len(queue) < len(links):
        queue.append(at)
        at = links[at]
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
    requests: RequestViews
    running: tuple[str, ...]
    waiting: tuple[str, ...]
    pool: PoolView
    budgets: Budgets
    in_flight: bool = False

    @property
    def radix(self) -> RadixView | None:
        """The radix tree and its pool; None while the cache is hash-addressed."""
        return self.pool.radix

    def request(self, request_id: str) -> RequestView:
        return next(view for view in self.requests if view.id == request_id)

    def owners(self) -> dict[int, tuple[str, ...]]:
        """Physical block → ids of the requests whose block tables list it."""
        owners: dict[int, list[str]] = {}
        for view in self.requests:
            for block in view.block_table:
                owners.setdefault(block, []).append(view.id)
        return {block: tuple(ids) for block, ids in owners.items()}

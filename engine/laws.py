"""The invariants of DESIGN.md, checked after every step and reported with the block or request that breaks one.

They look at the blocks, queue and index themselves, at what requests' block tables list, and at nobody's bookkeeping.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, islice
from typing import Literal

from engine.blocks import NULL_BLOCK, Block, BlockPool
from engine.events import BlockPublished, Event, Scheduled
from engine.kv_manager import HashBlocks, KVManager
from engine.prefix_hash import BlockKey
from engine.request import Request
from engine.snapshot import Changes, RequestView, Snapshot
from engine.timeline import KernelRecord, LawResult

NUM_LAWS = 10
HASH_LAW = 7
RADIX_LAW = 8  # has nothing to look at while the cache is hash-addressed
KERNEL_LAW = 10

Audit = Literal["full", "changed", "off"]
SMALL_POOL = 256  # blocks up to which everything is checked in every step unless the engine is told otherwise
FULL_EVERY = 64  # steps between two full checks where only changes are checked


@dataclass(frozen=True, slots=True)
class Scope:
    """What the laws look at: everything, or what has changed since they last looked.

    `owners`: block id → block tables that list it; `hosts`: the same for host blocks; both count all requests and have
    no entries of 0. `queued`: how often each of `blocks` is in the free queue. `since`: request id → first position of
    its block table that may have changed, 0 if absent. `verified`: keys whose digests need no second look.
    """

    snapshot: Snapshot
    kv: KVManager
    requests: Mapping[str, Request]
    events: Sequence[Event]
    blocks: Iterable[Block]
    views: Sequence[RequestView]
    owners: Mapping[int, int]
    hosts: Mapping[int, int]
    queued: Mapping[int, int]
    since: Mapping[str, int]
    verified: dict[int, BlockKey]

    @property
    def pool(self) -> BlockPool:
        return self.kv.pool


def conservation(scope: Scope) -> Iterator[str]:
    """Law 1: blocks in use + free queue = pool, and each block is in exactly one of the two."""
    owners, queued = scope.owners, scope.queued
    for block in scope.blocks:
        places = queued.get(block.id, 0) + (block.id in owners)
        if places != (block.id != NULL_BLOCK):
            yield f"block {block.id}"
    if scope.pool.num_free + len(owners) != len(scope.pool.blocks) - 1:
        yield f"{scope.pool.num_free} + {len(owners)} blocks"
    for view in scope.views:
        if any(scope.hosts[block] > 1 for block in view.host_blocks):
            yield f"request {view.id}"


def counted_owners(scope: Scope) -> Iterator[str]:
    """Law 2: the reference count of a block is the number of block tables that list it."""
    for block in scope.blocks:
        if block.ref_count != scope.owners.get(block.id, 0):
            yield f"block {block.id}"


def free_iff_unowned(scope: Scope) -> Iterator[str]:
    """Law 3: reference count 0 if and only if in the free queue, once; the null block excepted."""
    for block in scope.blocks:
        if block.id != NULL_BLOCK and scope.queued.get(block.id, 0) != (block.ref_count == 0):
            yield f"block {block.id}"


def within_budgets(scope: Scope) -> Iterator[str]:
    """Law 4: scheduled tokens, owned blocks and running requests stay within their limits; a row computes something."""
    budgets = scope.snapshot.budgets
    if budgets.tokens.used > budgets.tokens.limit:
        yield f"{budgets.tokens.used} tokens"
    if budgets.blocks.used > budgets.blocks.limit:
        yield f"{budgets.blocks.used} blocks"
    if budgets.sequences.used > budgets.sequences.limit:
        yield f"{budgets.sequences.used} sequences"
    for view in scope.views:
        if view.computed_tokens > view.known_tokens and not view.status.is_over:
            yield f"request {view.id}"
    for event in scope.events:
        if isinstance(event, Scheduled) and event.tokens < 1:
            yield f"request {event.request}"


def written_within_allocated(scope: Scope) -> Iterator[str]:
    """Law 5: no position is written, or later read, beyond the blocks the request holds."""
    size = scope.snapshot.pool.block_size
    for view in scope.views:
        held = max(len(view.block_table), len(view.host_blocks))  # swapped out, a request holds host blocks only
        if view.computed_tokens > held * size and not view.status.is_over:
            yield f"request {view.id}"


def foreign_writes(scope: Scope) -> Iterator[str]:
    """Law 6: a shared or published block is written only by the request whose step fills (and publishes) it."""
    size, blocks = scope.snapshot.pool.block_size, scope.pool.blocks
    filled_by = {event.block: event.request for event in scope.events if isinstance(event, BlockPublished)}
    writers: set[int] = set()
    for view in scope.views:
        if not view.scheduled:
            continue
        first = (view.computed_tokens - view.scheduled) // size
        last = (view.computed_tokens - 1) // size
        for block_id in view.block_table[first : last + 1]:
            block = blocks[block_id]
            exposed = block.ref_count > 1 or block.key is not None
            if block_id in writers or (exposed and filled_by.get(block_id) != view.id):
                yield f"block {block_id}"
            writers.add(block_id)


def honest_keys(scope: Scope) -> Iterator[str]:
    """Law 7: a block is published by the step that fills it, under what its content and parents hash to."""
    return chain(_unfilled(scope), _broken_chains(scope), _other_tokens(scope))


def _unfilled(scope: Scope) -> Iterator[str]:
    size, blocks = scope.snapshot.pool.block_size, scope.pool.blocks
    for view in scope.views:
        for block_id in view.block_table[view.computed_tokens // size :]:
            if blocks[block_id].key is not None:
                yield f"block {block_id}"


def _broken_chains(scope: Scope) -> Iterator[str]:
    assert isinstance(scope.kv, HashBlocks)
    keys, index = scope.kv.chain, scope.pool.index
    for block in scope.blocks:
        key = block.key
        if key is None:
            continue
        if scope.verified.get(block.id) is not key:
            parent = keys.root if key.parent is None else key.parent.digest
            if key.parent_digest != parent or key.digest != keys.hasher((parent, key.tokens, key.extra)):
                yield f"block {block.id}"
            scope.verified[block.id] = key
        if index.find(key, key.parent) is None:
            yield f"block {block.id}"


def _other_tokens(scope: Scope) -> Iterator[str]:
    size, blocks = scope.snapshot.pool.block_size, scope.pool.blocks
    for view in scope.views:
        first = scope.since.get(view.id, 0)
        for position, block_id in enumerate(view.block_table[first:], first):
            key = blocks[block_id].key
            if key is None:
                continue
            tokens = scope.requests[view.id].token_ids[position * size : (position + 1) * size]
            if key.tokens != tuple(tokens):
                yield f"block {block_id}"


def left_behind(scope: Scope) -> Iterator[str]:
    """Law 9: a request that is over holds nothing; when all are over every block is free."""
    for view in scope.views:
        if (view.block_table or view.host_blocks) and view.status.is_over:
            yield f"request {view.id}"
    after = scope.snapshot
    if not after.running and not after.waiting and after.pool.owned:
        yield f"{after.pool.owned} blocks"


_Check = Callable[[Scope], Iterator[str]]
_ALWAYS: dict[int, _Check] = {
    1: conservation, 2: counted_owners, 3: free_iff_unowned, 5: written_within_allocated, HASH_LAW: honest_keys,
}  # fmt: skip
_IN_FLIGHT: dict[int, _Check] = {4: within_budgets, 6: foreign_writes}
_AFTER: dict[int, _Check] = {9: left_behind}
_HOLDS = {law: LawResult(law, holds=True) for law in range(1, NUM_LAWS + 1)}
_UNCHECKED = {law: LawResult(law, holds=True, checked=False) for law in range(1, NUM_LAWS + 1)}


class Auditor:
    """Checks the laws while a step runs and after its commit.

    "full" looks at every block and request each time. "changed" looks at the blocks whose count, key or place changed,
    at those that entered or left a block table, and at the requests that changed; at the totals always, and at
    everything every `FULL_EVERY` steps and when nobody runs or waits.
    """

    def __init__(self, kv: KVManager, requests: Mapping[str, Request], audit: Audit | None = None) -> None:
        self.audit = audit or ("full" if len(kv.pool.blocks) <= SMALL_POOL else "changed")
        self._kv = kv
        self._requests = requests
        self._faults: dict[int, str] = {}  # law → what breaks it in the present step, first of all
        self._forget()

    def in_flight(self, snapshot: Snapshot, changes: Changes, events: Sequence[Event]) -> None:
        """To be called when a step is scheduled and nothing of it is computed yet."""
        self._faults = {}
        self._look(snapshot, changes, events, {**_ALWAYS, **_IN_FLIGHT})

    def after(self, snapshot: Snapshot, changes: Changes, kernel: KernelRecord | None) -> tuple[LawResult, ...]:
        """To be called after the commit. One result per law, in order, for the whole step."""
        self._look(snapshot, changes, (), {**_ALWAYS, **_AFTER})
        return (*map(self._result, range(1, NUM_LAWS)), _kernel_result(kernel))

    def _result(self, law: int) -> LawResult:
        fault = self._faults.get(law)
        if fault is not None:
            return LawResult(law, holds=False, broken_by=fault)
        nothing_published = law == HASH_LAW and not isinstance(self._kv, HashBlocks)
        unchecked = self.audit == "off" or nothing_published or law == RADIX_LAW
        return (_UNCHECKED if unchecked else _HOLDS)[law]

    def _look(
        self, snapshot: Snapshot, changes: Changes, events: Sequence[Event], checks: Mapping[int, _Check]
    ) -> None:
        if self.audit == "off":
            return
        drained = not snapshot.running and not snapshot.waiting
        if self.audit == "full" or drained or snapshot.step % FULL_EVERY == 0:
            scope = self._everything(snapshot, events)
        else:
            scope = self._changed(snapshot, changes, events)
        for law, check in checks.items():
            if law == HASH_LAW and not isinstance(self._kv, HashBlocks):
                continue
            fault = next(check(scope), None)
            if fault is not None:
                self._faults.setdefault(law, fault)

    def _forget(self) -> None:
        self._owners: Counter[int] = Counter()
        self._hosts: Counter[int] = Counter()
        self._verified: dict[int, BlockKey] = {}
        self._seen: dict[str, RequestView] = {}

    def _everything(self, snapshot: Snapshot, events: Sequence[Event]) -> Scope:
        """Counts anew, whatever was counted before."""
        self._forget()
        for view in snapshot.requests:
            self._count(view, snapshot.pool.block_size, set())
        pool = self._kv.pool
        queued = Counter(block.id for block in islice(pool.free_queue, len(pool.blocks) + 1))
        return self._scope(snapshot, events, pool.blocks, snapshot.requests, queued, {})

    def _changed(self, snapshot: Snapshot, changes: Changes, events: Sequence[Event]) -> Scope:
        pool = self._kv.pool
        touched = {block.id for block in changes.blocks}
        size = snapshot.pool.block_size
        since = {view.id: self._count(view, size, touched) for view in changes.views}
        blocks = [pool.blocks[block_id] for block_id in touched]
        queued = {block.id: 1 for block in blocks if block in pool.free_queue}
        return self._scope(snapshot, events, blocks, changes.views, queued, since)

    def _scope(
        self,
        snapshot: Snapshot,
        events: Sequence[Event],
        blocks: Iterable[Block],
        views: Sequence[RequestView],
        queued: Mapping[int, int],
        since: Mapping[str, int],
    ) -> Scope:
        return Scope(
            snapshot, self._kv, self._requests, events, blocks, views, self._owners, self._hosts, queued, since,
            self._verified,
        )  # fmt: skip

    def _count(self, view: RequestView, block_size: int, touched: set[int]) -> int:
        """Puts a request's blocks in place of those it had, the ones that differ into `touched`.

        Returns the first position of its table that needs a look.
        """
        last = self._seen.get(view.id)
        before, computed = (last.block_table, last.computed_tokens) if last is not None else ((), 0)
        same = len(before) if view.block_table is before else _common(before, view.block_table)
        _recount(self._owners, before[same:], view.block_table[same:])
        touched.update(before[same:], view.block_table[same:])
        _recount(self._hosts, last.host_blocks if last is not None else (), view.host_blocks)
        if view.block_table or view.host_blocks:
            self._seen[view.id] = view
        else:
            self._seen.pop(view.id, None)
        return min(same, computed // block_size)


def _common(left: Sequence[int], right: Sequence[int]) -> int:
    """Length of the common beginning."""
    return next(
        (at for at, pair in enumerate(zip(left, right, strict=False)) if pair[0] != pair[1]), min(len(left), len(right))
    )


def _recount(counts: Counter[int], gone: Iterable[int], come: Iterable[int]) -> None:
    for block in gone:
        counts[block] -= 1
        if not counts[block]:
            del counts[block]
    for block in come:
        counts[block] += 1


def _kernel_result(kernel: KernelRecord | None) -> LawResult:
    """Law 10: what paged attention returned equals dense attention on the same tokens, within tolerance."""
    if kernel is None or kernel.max_abs_diff is None:
        return _UNCHECKED[KERNEL_LAW]
    for row in kernel.rows:
        # NaN compares false with everything, so ask for "within", not for "beyond"
        if row.max_abs_diff is not None and not row.max_abs_diff <= kernel.tolerance:
            return LawResult(KERNEL_LAW, holds=False, broken_by=f"request {row.request}")
    return _HOLDS[KERNEL_LAW]

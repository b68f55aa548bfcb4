"""The invariants of DESIGN.md, checked after every step and reported with the block or request that breaks one."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from itertools import chain

from engine.blocks import NULL_BLOCK
from engine.events import BlockPublished, Event, Scheduled
from engine.kv_manager import HashBlocks, KVManager
from engine.request import Request
from engine.snapshot import Snapshot
from engine.timeline import KernelRecord, LawResult

NUM_LAWS = 10
RADIX_LAW = 8  # has nothing to look at while the cache is hash-addressed


def check(
    in_flight: Snapshot,
    after: Snapshot,
    events: Sequence[Event],
    kv: KVManager,
    requests: Mapping[str, Request],
    kernel: KernelRecord | None,
) -> tuple[LawResult, ...]:
    """One result per law, in order. Laws about blocks are checked while the step runs and after its commit."""
    both = (in_flight, after)
    results = [
        _result(1, (fault for snapshot in both for fault in conservation(snapshot))),
        _result(2, (fault for snapshot in both for fault in counted_owners(snapshot))),
        _result(3, (fault for snapshot in both for fault in free_iff_unowned(snapshot))),
        _result(4, within_budgets(in_flight, events)),
        _result(5, (fault for snapshot in both for fault in written_within_allocated(snapshot))),
        _result(6, foreign_writes(in_flight, events)),
        _hash_result(in_flight, kv, requests),
        LawResult(RADIX_LAW, holds=True, checked=False),
        _result(9, left_behind(after)),
    ]
    results.append(_kernel_result(kernel))
    return tuple(results)


def _result(law: int, faults: Iterator[str]) -> LawResult:
    fault = next(faults, None)
    return LawResult(law, holds=fault is None, broken_by=fault or "")


def _hash_result(in_flight: Snapshot, kv: KVManager, requests: Mapping[str, Request]) -> LawResult:
    if not isinstance(kv, HashBlocks):
        return LawResult(7, holds=True, checked=False)  # nothing is ever published in a contiguous layout
    return _result(7, chain(unfilled(in_flight), broken_chains(kv, requests)))


def conservation(snapshot: Snapshot) -> Iterator[str]:
    """Law 1: blocks in use + free queue = pool, and each block is in exactly one of the two."""
    pool = snapshot.pool
    in_queue = Counter(pool.free_queue)
    used = {block for view in snapshot.requests for block in view.block_table}
    for block in range(1, pool.num_blocks):
        if in_queue[block] + (block in used) != 1:
            yield f"block {block}"
    if NULL_BLOCK in in_queue or NULL_BLOCK in used:
        yield f"block {NULL_BLOCK}"
    on_host = Counter(block for view in snapshot.requests for block in view.host_blocks)
    for view in snapshot.requests:
        if any(on_host[block] > 1 for block in view.host_blocks):
            yield f"request {view.id}"


def counted_owners(snapshot: Snapshot) -> Iterator[str]:
    """Law 2: the reference count of a block is the number of block tables that list it."""
    owners = Counter(block for view in snapshot.requests for block in view.block_table)
    for block, count in enumerate(snapshot.pool.ref_count):
        if count != owners[block]:
            yield f"block {block}"


def free_iff_unowned(snapshot: Snapshot) -> Iterator[str]:
    """Law 3: reference count 0 if and only if in the free queue, once; the null block excepted."""
    in_queue = Counter(snapshot.pool.free_queue)
    for block, count in enumerate(snapshot.pool.ref_count):
        if block != NULL_BLOCK and in_queue[block] != (count == 0):
            yield f"block {block}"


def within_budgets(in_flight: Snapshot, events: Sequence[Event]) -> Iterator[str]:
    """Law 4: scheduled tokens, owned blocks and running requests stay within their limits; a row computes something."""
    budgets = in_flight.budgets
    if budgets.tokens.used > budgets.tokens.limit:
        yield f"{budgets.tokens.used} tokens"
    if budgets.blocks.used > budgets.blocks.limit:
        yield f"{budgets.blocks.used} blocks"
    if budgets.sequences.used > budgets.sequences.limit:
        yield f"{budgets.sequences.used} sequences"
    for view in in_flight.requests:
        if view.computed_tokens > view.known_tokens and not view.status.is_over:
            yield f"request {view.id}"
    for event in events:
        if isinstance(event, Scheduled) and event.tokens < 1:
            yield f"request {event.request}"


def written_within_allocated(snapshot: Snapshot) -> Iterator[str]:
    """Law 5: no position is written, or later read, beyond the blocks the request holds."""
    size = snapshot.pool.block_size
    for view in snapshot.requests:
        held = max(len(view.block_table), len(view.host_blocks))  # swapped out, a request holds host blocks only
        if not view.status.is_over and view.computed_tokens > held * size:
            yield f"request {view.id}"


def foreign_writes(in_flight: Snapshot, events: Sequence[Event]) -> Iterator[str]:
    """Law 6: a shared or published block is written only by the request whose step fills (and publishes) it."""
    size = in_flight.pool.block_size
    filled_by = {event.block: event.request for event in events if isinstance(event, BlockPublished)}
    writers: dict[int, str] = {}
    for view in in_flight.requests:
        if not view.scheduled:
            continue
        first = (view.computed_tokens - view.scheduled) // size
        last = (view.computed_tokens - 1) // size
        for block in view.block_table[first : last + 1]:
            exposed = in_flight.pool.ref_count[block] > 1 or in_flight.pool.hashes[block] is not None
            if block in writers or (exposed and filled_by.get(block) != view.id):
                yield f"block {block}"
            writers[block] = view.id


def unfilled(in_flight: Snapshot) -> Iterator[str]:
    """Law 7, first half: a block is published by the step that fills it, not before."""
    size = in_flight.pool.block_size
    for view in in_flight.requests:
        for block in view.block_table[view.computed_tokens // size :]:
            if in_flight.pool.hashes[block] is not None:
                yield f"block {block}"


def broken_chains(kv: HashBlocks, requests: Mapping[str, Request]) -> Iterator[str]:
    """Law 7, second half: a published key is what its content and parents hash to, and what its owners' tokens say."""
    keys = kv.chain
    for block in kv.pool.blocks:
        key = block.key
        if key is None:
            continue
        parent = keys.root if key.parent is None else key.parent.digest
        if key.parent_digest != parent or key.digest != keys.hasher((parent, key.tokens, key.extra)):
            yield f"block {block.id}"
        if kv.pool.index.find(key, key.parent) is None:
            yield f"block {block.id}"
    size = keys.block_size
    for request in requests.values():
        for position, block in enumerate(kv.block_table(request.id)):
            if block.key is not None:
                tokens = tuple(request.token_ids[position * size : (position + 1) * size])
                if block.key.tokens != tokens:
                    yield f"block {block.id}"


def left_behind(after: Snapshot) -> Iterator[str]:
    """Law 9: a request that is over holds nothing; when all are over every block is free."""
    for view in after.requests:
        if view.status.is_over and (view.block_table or view.host_blocks):
            yield f"request {view.id}"
    if not after.running and not after.waiting and after.pool.owned:
        yield f"{after.pool.owned} blocks"


def _kernel_result(kernel: KernelRecord | None) -> LawResult:
    """Law 10: what paged attention returned equals dense attention on the same tokens, within tolerance."""
    if kernel is None or kernel.max_abs_diff is None:
        return LawResult(10, holds=True, checked=False)
    for row in kernel.rows:
        # NaN compares false with everything, so ask for "within", not for "beyond"
        if row.max_abs_diff is not None and not row.max_abs_diff <= kernel.tolerance:
            return LawResult(10, holds=False, broken_by=f"request {row.request}")
    return LawResult(10, holds=True)

"""The invariants of DESIGN.md, checked after every step and reported with the block or request that breaks one.

They look at blocks, queue, index and block tables themselves, not at pictures of them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from itertools import chain, islice
from typing import Literal, TypeAlias

from engine import radix_laws
from engine.blocks import NULL_BLOCK, Block
from engine.camera import Changes
from engine.events import BlockPublished, Event
from engine.kv_manager import HashBlocks, KVManager
from engine.prefix_hash import BlockKey
from engine.radix_pages import RadixPages
from engine.request import Request
from engine.scheduler import Plan, Scheduler
from engine.snapshot import Snapshot
from engine.timeline import KernelRecord, LawResult

NUM_LAWS = 10
HASH_LAW = 7
RADIX_LAW = 8
KERNEL_LAW = 10

Audit = Literal["full", "changed", "off"]
SMALL_POOL = 256  # blocks up to which everything is checked in every step unless the engine is told otherwise
FULL_EVERY = 256  # steps between two full checks where only changes are checked


# A request as the laws see it: its block table, its host blocks, and the first position of its table that may be new.
Row: TypeAlias = tuple[Request, Sequence[Block], Sequence[int], int]


@dataclass(frozen=True, slots=True)
class Scope:
    """What the laws look at: everything, or what has changed since they last looked.

    `owners`: block id → block tables that list it; `hosts`: the same for host blocks; both count all requests and have
    no entries of 0. `queued`: how often each of `blocks` is in the free queue. `tokens`: request id → scheduled tokens.
    `in_tree`: blocks that a radix tree holds. `verified`: keys whose digests need no second look.
    """

    snapshot: Snapshot
    kv: KVManager
    events: Sequence[Event]
    tokens: Mapping[str, int]
    blocks: Iterable[Block]
    rows: Sequence[Row]
    owners: Mapping[int, int]
    hosts: Mapping[int, int]
    queued: Mapping[int, int]
    in_tree: AbstractSet[int]
    verified: dict[int, BlockKey]

    @property
    def block_size(self) -> int:
        return self.snapshot.pool.block_size


def conservation(scope: Scope) -> Iterator[str]:
    """Law 1: blocks in use + free queue = pool, each block in exactly one of the two; a radix tree's are in use."""
    pool, owners = scope.kv.pool, scope.owners
    for block in scope.blocks:
        places = scope.queued.get(block.id, 0) + (block.id in owners or block.id in scope.in_tree)
        if places != (block.id != NULL_BLOCK):
            yield f"block {block.id}"
    free, used = len(pool.free_queue), len(owners) + len(scope.in_tree - owners.keys())
    if free + used != len(pool.blocks) - 1:
        yield f"{free} + {used} blocks"
    for request, _, host_blocks, _ in scope.rows:
        if host_blocks and any(scope.hosts[block] > 1 for block in host_blocks):
            yield f"request {request.id}"


def counted_owners(scope: Scope) -> Iterator[str]:
    """Law 2: the reference count of a block is the number of block tables that list it."""
    for block in scope.blocks:
        if block.ref_count != scope.owners.get(block.id, 0):
            yield f"block {block.id}"


def free_iff_unowned(scope: Scope) -> Iterator[str]:
    """Law 3: reference count 0 and in no tree if and only if in the free queue, once; the null block excepted."""
    for block in scope.blocks:
        unheld = block.ref_count == 0 and block.id not in scope.in_tree
        if block.id != NULL_BLOCK and scope.queued.get(block.id, 0) != unheld:
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
    for request, *_ in scope.rows:
        if request.num_computed_tokens > len(request.token_ids) and not request.status.is_over:
            yield f"request {request.id}"
    for request_id, tokens in scope.tokens.items():
        if tokens < 1:
            yield f"request {request_id}"


def written_within_allocated(scope: Scope) -> Iterator[str]:
    """Law 5: no position is written, or later read, beyond the blocks the request holds."""
    size = scope.block_size
    for request, table, host_blocks, _ in scope.rows:
        held = max(len(table), len(host_blocks)) if host_blocks else len(table)  # swapped out: host blocks only
        if request.num_computed_tokens > held * size and not request.status.is_over:
            yield f"request {request.id}"


def foreign_writes(scope: Scope) -> Iterator[str]:
    """Law 6: a shared or published block is written only by the request whose step fills (and publishes) it."""
    size = scope.block_size
    filled_by = {event.block: event.request for event in scope.events if isinstance(event, BlockPublished)}
    writers: set[int] = set()
    for request, table, *_ in scope.rows:
        tokens = scope.tokens.get(request.id, 0)
        if not tokens:
            continue
        end = request.num_computed_tokens
        for block in table[(end - tokens) // size : (end - 1) // size + 1]:
            exposed = block.ref_count > 1 or block.key is not None or block.id in scope.in_tree
            if block.id in writers or (exposed and filled_by.get(block.id) != request.id):
                yield f"block {block.id}"
            writers.add(block.id)


def honest_keys(scope: Scope) -> Iterator[str]:
    """Law 7: a block is published by the step that fills it, under what its content and parents hash to."""
    return chain(_broken_chains(scope), _other_content(scope))


def _broken_chains(scope: Scope) -> Iterator[str]:
    assert isinstance(scope.kv, HashBlocks)
    keys, index = scope.kv.chain, scope.kv.pool.index
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


def _other_content(scope: Scope) -> Iterator[str]:
    size = scope.block_size
    for request, table, _, since in scope.rows:
        if since == len(table) - 1 and table[since].key is None:
            continue  # most decodes: the block in work, not full yet
        for position, block in enumerate(table[since:], since):
            if block.key is None:
                continue
            end = (position + 1) * size
            if end > request.num_computed_tokens or list(block.key.tokens) != request.token_ids[end - size : end]:
                yield f"block {block.id}"


def honest_tree(scope: Scope) -> Iterator[str]:
    """Law 8: the radix laws; what a row holds outside the tree is its alone, and the tree locks what tables list."""
    view = scope.snapshot.radix
    assert view is not None
    own = [block for block in scope.owners if block not in scope.in_tree]
    yield from radix_laws.faults(view, scope.events, own)
    yield from (f"page {block}" for block in own if scope.owners[block] > 1)
    for node in view:
        for page in node.pages.tolist():
            if (page in scope.owners) != bool(node.lock_ref):
                yield f"node {node.id}"


def left_behind(scope: Scope) -> Iterator[str]:
    """Law 9: a request that is over holds nothing; when all are over every block is free."""
    for request, table, host_blocks, _ in scope.rows:
        if (table or host_blocks) and request.status.is_over:
            yield f"request {request.id}"
    after = scope.snapshot
    if not after.running and not after.waiting:
        if after.pool.owned:
            yield f"{after.pool.owned} blocks"
        if after.radix is not None and after.radix.protected:
            yield f"{after.radix.protected} locked tokens"


_Check = Callable[[Scope], Iterator[str]]
_ALWAYS: dict[int, _Check] = {
    1: conservation, 2: counted_owners, 3: free_iff_unowned, 5: written_within_allocated, HASH_LAW: honest_keys,
    RADIX_LAW: honest_tree,
}  # fmt: skip
_IN_FLIGHT: dict[int, _Check] = {**_ALWAYS, 4: within_budgets, 6: foreign_writes}
_AFTER: dict[int, _Check] = {**_ALWAYS, 9: left_behind}
_HOLDS = {law: LawResult(law, holds=True) for law in range(1, NUM_LAWS + 1)}
_UNCHECKED = {law: LawResult(law, holds=True, checked=False) for law in range(1, NUM_LAWS + 1)}


class Auditor:
    """Checks the laws while a step runs and after its commit.

    "full" looks at every block and request each time. "changed" looks at the blocks whose count, key or place changed,
    at those that entered or left a block table, at the requests that run or whose life took a turn, and at the totals;
    and at everything in one step of `FULL_EVERY` and when nobody runs or waits any more.
    """

    def __init__(
        self, kv: KVManager, scheduler: Scheduler, requests: Mapping[str, Request], audit: Audit | None = None
    ) -> None:
        self.audit = audit or ("full" if len(kv.pool.blocks) <= SMALL_POOL else "changed")
        self._kv = kv
        self._scheduler = scheduler
        self._requests = requests
        self._faults: dict[int, str] = {}  # law → what breaks it in the present step, first of all
        self._forget()

    def in_flight(self, snapshot: Snapshot, changes: Changes, plan: Plan, events: Sequence[Event]) -> None:
        """To be called when a step is scheduled and nothing of it is computed yet."""
        self._faults = {}
        self._look(snapshot, changes, plan.tokens, events, _IN_FLIGHT)

    def after(self, snapshot: Snapshot, changes: Changes, kernel: KernelRecord | None) -> tuple[LawResult, ...]:
        """To be called after the commit. One result per law, in order, for the whole step."""
        self._look(snapshot, changes, {}, (), _AFTER)
        return (*map(self._result, range(1, NUM_LAWS)), _kernel_result(kernel))

    def _result(self, law: int) -> LawResult:
        fault = self._faults.get(law)
        if fault is not None:
            return LawResult(law, holds=False, broken_by=fault)
        return (_HOLDS if self.audit != "off" and self._applies(law) else _UNCHECKED)[law]

    def _applies(self, law: int) -> bool:
        """Hashes and trees are laws of their own caches; a contiguous layout has neither."""
        needed = {HASH_LAW: HashBlocks, RADIX_LAW: RadixPages}.get(law)
        return needed is None or isinstance(self._kv, needed)

    def _look(
        self,
        snapshot: Snapshot,
        changes: Changes,
        tokens: Mapping[str, int],
        events: Sequence[Event],
        checks: Mapping[int, _Check],
    ) -> None:
        if self.audit == "off":
            return
        drained = not snapshot.running and not snapshot.waiting
        # A radix tree may put its own pages into the table of a request that simply goes on.
        full = self.audit == "full" or snapshot.radix is not None or drained or snapshot.step % FULL_EVERY == 0
        computing, size = snapshot.in_flight, snapshot.pool.block_size
        blocks, rows, queued = self._everything() if full else self._changed(changes, size, computing)
        in_tree = frozenset(page for node in snapshot.radix or () for page in node.pages.tolist())
        scope = Scope(
            snapshot, self._kv, events, tokens, blocks, rows, self._owners, self._hosts, queued, in_tree, self._verified
        )
        for law, check in checks.items():
            fault = next(check(scope), None) if self._applies(law) else None
            if fault is not None:
                self._faults.setdefault(law, fault)

    def _forget(self) -> None:
        self._owners: Counter[int] = Counter()
        self._hosts: Counter[int] = Counter()
        self._verified: dict[int, BlockKey] = {}
        self._seen: dict[str, _Seen] = {}

    def _everything(self) -> tuple[Sequence[Block], list[Row], Mapping[int, int]]:
        """Counts anew, whatever was counted before."""
        self._forget()
        pool = self._kv.pool
        rows = [self._row(request, 1, set()) for request in self._requests.values()]
        return pool.blocks, rows, Counter(block.id for block in islice(pool.free_queue, len(pool.blocks) + 1))

    def _changed(
        self, changes: Changes, block_size: int, computing: bool
    ) -> tuple[Sequence[Block], list[Row], Mapping[int, int]]:
        """The commit (not `computing`) adds tokens and ends requests: those that go on are as they were in flight."""
        touched = set(changes.blocks)
        requests = dict.fromkeys([*changes.requests, *self._scheduler.running] if computing else changes.requests)
        rows = [self._row(request, block_size, touched) for request in requests]
        queue = self._kv.pool.free_queue
        return list(touched), rows, {block.id: 1 for block in touched if block in queue}

    def _row(self, request: Request, block_size: int, touched: set[Block]) -> Row:
        """Counts a request's blocks in place of those it had, and puts the ones that differ into `touched`."""
        name, swap = request.id, self._scheduler.swap
        table, hosts = self._kv.block_table(name), swap.blocks(name) if swap else ()
        seen = self._seen.get(name) or self._seen.setdefault(name, _Seen([], (), 0))
        since = seen.computed // block_size
        if table != seen.table:
            since = min(since, _common(seen.table, table))
            gone, come = seen.table[since:], table[since:]
            touched.update(gone, come)
            _recount(self._owners, (block.id for block in gone), (block.id for block in come))
            seen.table = table.copy()
        if hosts != seen.hosts:
            _recount(self._hosts, seen.hosts, hosts)
            seen.hosts = hosts
        seen.computed = request.num_computed_tokens
        if not table and not hosts:
            del self._seen[name]
        return request, table, hosts, since


@dataclass(slots=True)
class _Seen:
    """What a request held when the laws last looked."""

    table: list[Block]
    hosts: tuple[int, ...]
    computed: int


def _common(left: Sequence[Block], right: Sequence[Block]) -> int:
    """Length of the common beginning."""
    if right[: len(left)] == left:
        return len(left)
    return next((at for at, pair in enumerate(zip(left, right, strict=False)) if pair[0] is not pair[1]), len(right))


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

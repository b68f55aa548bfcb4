"""The baseline that wastes: one run of neighbouring blocks per request, reserved when it is admitted.

Source: vLLM paper (SOSP 2023) §3.1, the allocators of FasterTransformer and Orca: "max" is Orca (Max), "known" is
Orca (Oracle), which is told the output length. Runs are whole blocks, so that the paged kernel reads them unchanged.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from engine.blocks import Block, BlockPool, FreeCause
from engine.config import ContiguousFit, EngineConfig
from engine.errors import UserError
from engine.events import Event, RunReserved
from engine.kv_manager import NO_HIT, Hit, Shortage
from engine.request import Request, RequestSpec
from engine.snapshot import Snapshot


@dataclass(frozen=True, slots=True)
class Hole:
    """`length` neighbouring free blocks, the first of them `first`."""

    first: int
    length: int


def holes(ref_counts: Sequence[int]) -> Iterator[Hole]:
    """Maximal runs of free blocks in order of their ids; the null block 0 is in none."""
    first: int | None = None
    for block in range(1, len(ref_counts)):
        if ref_counts[block] == 0:
            first = block if first is None else first
        elif first is not None:
            yield Hole(first, block - first)
            first = None
    if first is not None:
        yield Hole(first, len(ref_counts) - first)


def choose_hole(candidates: Sequence[Hole], length: int, fit: ContiguousFit) -> Hole | None:
    """First fit: the lowest hole that is large enough. Best fit: the smallest such hole, the lowest among equals."""
    large_enough = [hole for hole in candidates if hole.length >= length]
    if not large_enough:
        return None
    return large_enough[0] if fit == "first" else min(large_enough, key=lambda hole: hole.length)


class Contiguous:
    """KV in one run per request: no sharing, no prefix cache, no growth, hence no preemption.

    `log` is where events go (None = not recording). The free queue keeps its place in the laws but decides nothing.
    """

    def __init__(self, config: EngineConfig, log: list[Event] | None) -> None:
        self.config = config
        self.pool = BlockPool(config.num_blocks, enable_caching=False, log=log)
        self._tables: dict[str, list[Block]] = {}

    @property
    def changed_tables(self) -> None:
        """Any table may have changed."""

    def block_table(self, request_id: str) -> list[Block]:
        return self._tables.get(request_id, [])

    def note_tokens(self, request: Request) -> None:
        """Nothing is published, so no block keys are needed."""

    def withdraw(self, request: Request) -> None:
        """Nothing was published."""

    def store(self, request: Request) -> None:
        """Nothing is found again."""

    def matched_tokens(self, request: Request) -> int:
        return 0

    def fork(self, parent: Request, child: Request) -> list[Block]:
        """A run has one owner: refused at intake (`branching.check_engine`)."""
        raise UserError("fork.engine", id=parent.id, field="kv_layout", value="contiguous", needed="paged")

    def take_copies(self) -> list[tuple[int, int]]:
        return []

    def lookup(self, request: Request) -> Hit:
        return NO_HIT

    def peak_blocks(self, spec: RequestSpec) -> int:
        """Length of the run: `max_model_len` positions, or prompt + max_tokens; never more than a whole pool holds.

        What must exceed the pool (its positions alone do) is reported as it is, so that intake can refuse it.
        """
        size, known = self.config.block_size, len(spec.prompt) + spec.max_tokens
        wanted = self.config.model_len
        if self.config.contiguous_reserve == "known":
            wanted = min(known + self.config.num_lookahead_tokens, self.config.model_len)
        wanted = max(min(wanted, self.config.usable_blocks * size), spec.positions)
        return -(-wanted // size)

    def allocate(
        self, request: Request, tokens: int, hit: Hit = NO_HIT, *, whole: bool = False, reserve: int = 0
    ) -> Shortage | None:
        """Reserves the whole run at the first call; `reserve` (the watermark) must stay free beside it."""
        if request.id in self._tables:
            return None
        length = self.peak_blocks(request.spec)
        if length + reserve > self.pool.num_free:
            return Shortage(length + reserve, self.pool.num_free)
        found = list(self._holes())
        hole = choose_hole(found, length, self.config.contiguous_fit)
        if hole is None:
            return Shortage(length, max(each.length for each in found), limit="hole")
        if self.pool.log is not None:
            self.pool.log.append(RunReserved(request.id, hole.first, length, hole.length, self.config.contiguous_fit))
        self._tables[request.id] = self.pool.take(hole.first, length, request.id)
        return None

    def _holes(self) -> Iterator[Hole]:
        """The same as `holes`, from the runs instead of all blocks: a step's work must not grow with the pool."""
        after = 1
        for first, last in sorted((table[0].id, table[-1].id) for table in self._tables.values()):
            if first > after:
                yield Hole(after, first - after)
            after = last + 1
        if after < len(self.pool.blocks):
            yield Hole(after, len(self.pool.blocks) - after)

    def free(self, request: Request, cause: FreeCause) -> None:
        table = self._tables.pop(request.id, [])
        self.pool.free(table[::-1], request.id, cause)


@dataclass(frozen=True, slots=True)
class Waste:
    """Slots of a pool at one moment, as the vLLM paper splits them (§3.1, Figure 2); paged blocks must not be shared.

    `used` hold KV; `reserved` will hold KV of tokens still to come; `internal` never will, the run being longer than
    the request can get; `free` are in no run. `external` of the free ones lie in holes too small for the next run.
    used + reserved + internal + free = all usable slots.
    """

    used: int
    reserved: int
    internal: int
    free: int
    external: int


def measure_waste(snapshot: Snapshot, next_run: int = 0) -> Waste:
    """`next_run`: blocks the request at the head of the queue asks for; 0 if nobody waits, then nothing is external.

    A request is expected to run to its `max_tokens`; one that stops early turns its reserved slots into free ones.
    """
    size = snapshot.pool.block_size
    used = reserved = internal = 0
    for view in snapshot.requests:
        if not view.block_table:
            continue
        slots = len(view.block_table) * size
        last = view.prompt_tokens + view.max_tokens - 1  # the last token's own KV is never computed
        used += view.computed_tokens
        reserved += min(slots, last) - view.computed_tokens
        internal += max(0, slots - last)
    found = list(holes(snapshot.pool.ref_count))
    return Waste(
        used=used,
        reserved=reserved,
        internal=internal,
        free=size * sum(hole.length for hole in found),
        external=size * sum(hole.length for hole in found if hole.length < next_run),
    )

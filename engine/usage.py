"""How well memory and batch rows are used: blocks and slots, the waste among them, idle rows, swapped KV."""

from __future__ import annotations

from dataclasses import dataclass, field

from engine.clock import Clock
from engine.contiguous import measure_waste
from engine.events import RowsIdle, RunReserved, SwappedIn, SwappedOut, Waited
from engine.snapshot import Batch
from engine.spread import Spread, spread
from engine.timeline import Step


@dataclass(frozen=True, slots=True)
class Swapped:
    """KV moved to host memory and back. `bytes` and `ms` are None where no KV was copied."""

    blocks_out: int
    blocks_in: int
    bytes: int | None
    ms: float | None


@dataclass(frozen=True, slots=True)
class Usage:
    """Levels while the kernels run, over the steps that ran any: None where there was none.

    `owned_blocks` of `usable_blocks`; of the slots in them `written_slots` hold KV. Of the others, a contiguous run
    has `reserved_slots` for tokens still to come and `internal_waste_slots` that no token will ever fill; paged, all
    of them are internal waste (vLLM paper, SOSP 2023, §3.1). `external_waste_slots`: free, but in holes too small for
    the run that the head of the queue asks for. Reserved and external waste are None where KV is paged.

    `idle_row_steps`: rows of finished requests that static batching keeps, beside `row_steps` that computed.
    `peak_kv_bytes`: blocks owned at most, in the KV bytes of the clock's model; None without a model.
    """

    block_size: int | None
    usable_blocks: int | None
    owned_blocks: Spread | None
    written_slots: Spread | None
    internal_waste_slots: Spread | None
    reserved_slots: Spread | None
    external_waste_slots: Spread | None
    row_steps: int
    idle_row_steps: int
    idle_row_share: float | None
    peak_kv_bytes: int | None
    swapped: Swapped


def written_slots(batch: Batch, block_size: int) -> int:
    """Slots with KV in the blocks of the running requests; a block that several own counts once."""
    full: set[int] = set()
    tails: dict[int, int] = {}
    for computed, table in zip(batch.computed, batch.tables, strict=True):
        blocks, filled = divmod(computed, block_size)
        full.update(table[:blocks])
        if filled and blocks < len(table):  # a broken law is told by the laws
            tails[table[blocks]] = max(filled, tails.get(table[blocks], 0))
    return len(full) * block_size + sum(tails.values())


@dataclass(frozen=True, slots=True)
class SlotUse:
    """All usable slots of a pool while a step's kernels run, by kind (see `Usage`); the five add up to them.

    `free` leaves out `external`. Where KV is paged `reserved` and `external` are 0 by construction.
    """

    written: int
    reserved: int
    internal: int
    external: int
    free: int


def slot_use(step: Step, contiguous: bool) -> SlotUse:
    """`contiguous`: KV lies in one reserved run per request; else in pages, where nothing is reserved ahead."""
    snapshot = step.scheduled
    pool = snapshot.pool
    if contiguous:
        waste = measure_waste(snapshot, _run_waited_for(step))
        return SlotUse(waste.used, waste.reserved, waste.internal, waste.external, waste.free - waste.external)
    written = written_slots(snapshot.requests.batch, pool.block_size)
    return SlotUse(written, 0, pool.owned * pool.block_size - written, 0, pool.num_free * pool.block_size)


def _run_waited_for(step: Step) -> int:
    """Blocks that the head of the queue asks for; only it waits for one of these limits. 0 if nobody does."""
    waits = (event.reason for event in step.events if isinstance(event, Waited))
    return next((reason.need for reason in waits if reason.limit in ("hole", "blocks")), 0)


@dataclass(slots=True)
class UsageMeter:
    """Sees the steps of a run in order, then says what they used."""

    clock: Clock
    _block_size: int = 0
    _usable: int = 0
    _contiguous: bool = False
    _owned: list[int] = field(default_factory=list)
    _written: list[int] = field(default_factory=list)
    _internal: list[int] = field(default_factory=list)
    _reserved: list[int] = field(default_factory=list)
    _external: list[int] = field(default_factory=list)
    _rows: int = 0
    _idle_rows: int = 0
    _out: int = 0
    _in: int = 0
    _bytes: int | None = None
    _ms: float | None = None

    def see(self, step: Step) -> None:
        pool = step.scheduled.pool
        self._block_size, self._usable = pool.block_size, pool.num_blocks - 1
        self._rows += len(step.scheduled_tokens)
        for event in step.events:
            match event:
                case RunReserved():
                    self._contiguous = True
                case RowsIdle():
                    self._idle_rows += event.idle
                case SwappedOut() | SwappedIn():
                    self._see_swap(event, pool.block_size)
        if not step.is_idle:
            self._see_slots(step)

    def _see_slots(self, step: Step) -> None:
        use = slot_use(step, self._contiguous)
        self._owned.append(step.scheduled.pool.owned)
        self._written.append(use.written)
        self._internal.append(use.internal)
        if self._contiguous:
            self._reserved.append(use.reserved)
            self._external.append(use.external)

    def _see_swap(self, event: SwappedOut | SwappedIn, block_size: int) -> None:
        if isinstance(event, SwappedOut):
            self._out += len(event.pairs)
        else:
            self._in += len(event.pairs)
        cost = self.clock.swap(event, block_size)
        if cost is not None and cost.ms is not None:
            self._bytes = (self._bytes or 0) + cost.bytes
            self._ms = (self._ms or 0.0) + cost.ms

    def result(self) -> Usage:
        kv_bytes = self.clock.kv_bytes_per_token
        all_rows = self._rows + self._idle_rows
        return Usage(
            block_size=self._block_size or None,
            usable_blocks=self._usable or None,
            owned_blocks=spread(self._owned),
            written_slots=spread(self._written),
            internal_waste_slots=spread(self._internal),
            reserved_slots=spread(self._reserved),
            external_waste_slots=spread(self._external),
            row_steps=self._rows,
            idle_row_steps=self._idle_rows,
            idle_row_share=self._idle_rows / all_rows if all_rows else None,
            peak_kv_bytes=max(self._owned) * self._block_size * kv_bytes if kv_bytes and self._owned else None,
            swapped=Swapped(self._out, self._in, self._bytes, self._ms),
        )

"""Triton's interpreter, watched: every load and store of an attention launch, and which of them must not be.

Works on addresses: what a kernel asks for is looked up in the tensors it was launched with. An access that lies in none
of them, or a store to an input, is noted and not done; a read of memory that is there but not the row's is noted only.
Atomics are not watched; no kernel here has any.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from kernels.errors import KernelError
from kernels.launch import Launch
from kernels.layout import KVLayer
from kernels.metadata import AttentionMetadata, ScoreRule
from kernels.recorder import LaunchRecord, RecordBuffers, Visit, plan, recorded
from kernels.tiling import Tiling, rows_per_program

Place = tuple[int, int, int]
Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]


class Why(StrEnum):
    """What is wrong with an access."""

    FREE = "free"  # the block is nobody's
    FOREIGN = "foreign"  # the block is another request's
    ORDER = "order"  # the row's own block, but not the one that holds these positions
    BEYOND = "beyond"  # the row's own block, but the slot is past the row's length: nobody wrote it
    HEAD = "head"  # another KV head's part of a slot
    INPUT = "input"  # a store to a tensor that is read only
    OUTSIDE = "outside"  # the address is in none of the launch's tensors


SENTENCES = {
    Why.FREE: "a free block",
    Why.FOREIGN: "another request's block",
    Why.ORDER: "its own block, but not the one for these positions",
    Why.BEYOND: "a slot beyond the row's length",
    Why.HEAD: "another KV head's numbers",
    Why.INPUT: "not one of the outputs",
    Why.OUTSIDE: "an address outside every tensor",
}


@dataclass(frozen=True, slots=True)
class Access:
    """The `order`-th load or store of a program: how many `lanes` of it were not masked off.

    tensor: the kernel's argument without `_ptr` and `_cache` (key, value, key_scale, block_table, output, ...), empty
    where no address is in a tensor; blocks: physical ids in the order met, for K, V and their scales only.
    """

    program: Place
    order: int
    tensor: str
    store: bool
    lanes: int
    blocks: tuple[int, ...]
    kernel: str


@dataclass(frozen=True, slots=True)
class Violation:
    """`lanes` of one access that must not be, all for the same reason; block and slot are the first of them, if any."""

    program: Place
    order: int
    tensor: str
    store: bool
    why: Why
    lanes: int
    block: int | None
    slot: int | None
    kernel: str

    def __str__(self) -> str:
        place = "" if self.block is None else f" block {self.block}, slot {self.slot}:"
        verb = "stores to" if self.store else "reads"
        return f"program {self.program} {verb} {self.tensor or 'memory'},{place} {SENTENCES[self.why]}"


@dataclass(frozen=True, slots=True)
class Rights:
    """What the rows of a launch may read, by the bookkeeping and not by the launch's own block table.

    blocks: each row's physical ids in logical order; lengths: positions written in them. `others` belong to requests
    outside the launch; every further block is free.
    """

    blocks: tuple[tuple[int, ...], ...]
    lengths: tuple[int, ...]
    others: frozenset[int] = frozenset()

    @classmethod
    def of(cls, meta: AttentionMetadata, others: frozenset[int] = frozenset()) -> Rights:
        """Those of a launch whose metadata is right."""
        lengths = meta.seq_lens.tolist()
        tables = meta.block_table.tolist()
        used = (table[: -(-length // meta.block_size)] for table, length in zip(tables, lengths, strict=True))
        return cls(tuple(tuple(blocks) for blocks in used), tuple(lengths), others)


@dataclass(frozen=True, slots=True)
class Watched:
    """One watched launch: what came out, everything it touched, and its KV reads as a record (source "hooks")."""

    output: Tensor
    accesses: tuple[Access, ...]
    violations: tuple[Violation, ...]
    record: LaunchRecord


def watch(
    query: Tensor,
    layer: KVLayer,
    meta: AttentionMetadata,
    rule: ScoreRule,
    rights: Rights | None = None,
    lse: Tensor | None = None,
    chosen: Tiling | None = None,
    record: RecordBuffers | None = None,
) -> Watched:
    """`paged_attention.paged_attention` in the interpreter, watched. Without `rights` any block may be read.

    Raises KernelError outside the interpreter (TRITON_INTERPRET=1 when this process began).
    """
    from kernels.paged_attention import launches

    query = query if query.stride(2) == 1 else query.contiguous()
    output = query.new_zeros(query.shape)
    if lse is not None:
        lse.fill_(float("-inf"))
    logs = [
        watch_launch(launch, meta, rights)
        for launch in (launches(query, layer, meta, rule, output, lse, chosen, record) if len(query) else ())
    ]
    return Watched(
        output,
        tuple(access for log in logs for access in log.accesses),
        tuple(violation for log in logs for violation in log.violations),
        recorded(plan(query, layer, meta, chosen), "hooks", logs[0].visits if logs else ()),
    )


def watch_launch(launch: Launch, meta: AttentionMetadata, rights: Rights | None = None) -> Log:
    """Run one launch of the attention kernels and give what was seen."""
    log = Log(launch, meta, rights)
    with _hooks(log):
        launch.run()
    return log


@contextmanager
def _hooks(log: Log) -> Iterator[None]:
    """Every load and store of the interpreter goes by `log` first; nothing is left behind."""
    import triton

    if not triton.knobs.runtime.interpret:
        raise KernelError("TRITON_INTERPRET", "is not set: only an interpreting process can be watched")
    from triton.runtime.interpreter import TensorHandle, interpreter_builder

    load, store = interpreter_builder.create_masked_load, interpreter_builder.create_masked_store

    def allowed(pointers: Any, mask: Any, stores: bool) -> Any:
        fine = log.see(interpreter_builder.grid_idx, pointers.data, mask.data, stores)
        return mask if fine is None else TensorHandle(fine, mask.dtype)

    def create_masked_load(ptrs: Any, mask: Any, *rest: Any, **options: Any) -> Any:
        return load(ptrs, allowed(ptrs, mask, False), *rest, **options)

    def create_masked_store(ptrs: Any, value: Any, mask: Any, *rest: Any, **options: Any) -> Any:
        return store(ptrs, value, allowed(ptrs, mask, True), *rest, **options)

    # On the instance, over the class's methods: plain loads and stores come by here too.
    interpreter_builder.create_masked_load = create_masked_load
    interpreter_builder.create_masked_store = create_masked_store
    try:
        yield
    finally:
        del interpreter_builder.create_masked_load, interpreter_builder.create_masked_store


class _Region:
    """A tensor argument as addresses."""

    def __init__(self, argument: str, tensor: Tensor) -> None:
        self.name = argument.removesuffix("_ptr").removesuffix("_cache")
        self.shape = tuple(tensor.shape)
        self.start = tensor.data_ptr()
        width = tensor.element_size()
        # An axis of length 1 moves no address, whatever its stride.
        self.steps = [
            (axis, length, stride * width)
            for axis, (length, stride) in enumerate(zip(tensor.shape, tensor.stride(), strict=True))
            if length > 1 and stride > 0
        ]
        self.steps.sort(key=lambda step: -step[2])
        self.end = self.start + (width + sum((length - 1) * step for _, length, step in self.steps))
        self.writable = self.name.startswith(("output", "lse", "record"))
        self.is_kv = self.name in ("key", "value", "key_scale", "value_scale")

    def locate(self, addresses: Ints) -> tuple[Bools, list[Ints]]:
        """(is it an element of the tensor, its index along each axis); a view's gaps are not elements."""
        rest = addresses - self.start
        inside = (addresses >= self.start) & (addresses < self.end)
        index = [np.zeros_like(addresses) for _ in self.shape]
        for axis, length, step in self.steps:
            index[axis] = rest // step
            inside &= index[axis] < length
            rest = rest % step
        return inside & ((rest == 0) if self.steps else (addresses == self.start)), index


@dataclass(frozen=True, slots=True)
class _Part:
    """The lanes of an access that lie in one tensor, and each lane's index along the tensor's axes."""

    region: _Region
    lanes: Bools
    index: list[Ints]


class Log:
    """What one launch did, as it does it."""

    def __init__(self, launch: Launch, meta: AttentionMetadata, rights: Rights | None) -> None:
        self.accesses: list[Access] = []
        self.violations: list[Violation] = []
        self.visits: list[Visit] = []
        self._kernel = launch.kernel.fn.__name__
        self._regions = [_Region(name, x) for name, x in launch.arguments.items() if isinstance(x, Tensor) and len(x)]
        self._rights, self._block_size = rights, meta.block_size
        self._tile_rows = _rows_of_tiles(meta, launch.arguments.get("GROUP"))
        self._orders: dict[Place, int] = {}
        self._columns: Ints = np.zeros(0, np.int64)  # of the last tile's table entries, -1 where masked

    def see(self, program: Place, pointers: NDArray[Any], mask: NDArray[Any], store: bool) -> Bools | None:
        """Note one access; the lanes that may be done where those are not all of them."""
        active = np.broadcast_to(mask, pointers.shape).astype(bool)
        order = self._orders[program] = self._orders.get(program, -1) + 1
        parts, stopped = self._find(pointers.astype(np.int64), active)
        name = max(parts, key=lambda part: int(part.lanes.sum())).region.name if parts else ""
        blocks = [block for part in parts if part.region.is_kv for block in part.index[0][part.lanes].tolist()]
        self.accesses.append(
            Access(program, order, name, store, int(active.sum()), tuple(dict.fromkeys(blocks)), self._kernel)
        )
        self._accuse(program, order, name, store, Why.OUTSIDE, stopped, None)
        for part in parts:
            index = part.index if part.region.is_kv else None
            if store and not part.region.writable:
                stopped = stopped | part.lanes
                self._accuse(program, order, part.region.name, store, Why.INPUT, part.lanes, index)
            elif part.region.is_kv and self._rights is not None:
                for why, lanes in self._unlawful(program, part, self._rights).items():
                    self._accuse(program, order, part.region.name, store, why, lanes, index)
            self._follow(program, part)
        return active & ~stopped if stopped.any() else None

    def _find(self, addresses: Ints, active: Bools) -> tuple[list[_Part], Bools]:
        """(the lanes in each tensor, those in none)."""
        parts, left = [], active
        for region in self._regions:
            if not left.any():
                break
            if region.start <= addresses[left].max() and addresses[left].min() < region.end:
                inside, index = region.locate(addresses)
                if (lanes := left & inside).any():
                    parts.append(_Part(region, lanes, index))
                    left = left & ~inside
        return parts, left

    def _unlawful(self, program: Place, part: _Part, rights: Rights) -> dict[Why, Bools]:
        region, lanes, index = part.region, part.lanes, part.index
        row = self._tile_rows.get(program[0])
        own, length = (rights.blocks[row], rights.lengths[row]) if row is not None else ((), 0)
        logical = np.full(region.shape[0], -1, np.int64)
        logical[list(own)] = np.arange(len(own))
        taken = np.zeros(region.shape[0], bool)
        taken[[block for blocks in (*rights.blocks, rights.others) for block in blocks]] = True
        block = np.where(lanes, index[0], 0)
        mine = logical[block] >= 0
        slot = index[1] if region.shape[1] == self._block_size else np.zeros_like(block)
        beyond = logical[block] * self._block_size + slot >= length
        misplaced = logical[block] != self._columns_of(region, lanes.shape)
        other_head = index[2] != program[1]
        return {
            Why.FREE: lanes & ~mine & ~taken[block],
            Why.FOREIGN: lanes & ~mine & taken[block],
            Why.BEYOND: lanes & mine & beyond,
            Why.ORDER: lanes & mine & ~beyond & misplaced,
            Why.HEAD: lanes & mine & ~beyond & ~misplaced & other_head,
        }

    def _columns_of(self, region: _Region, shape: tuple[int, ...]) -> Ints:
        """Which of its row's blocks each lane asked for: keys lie [D, TILE], values [TILE, D], scales [TILE]."""
        axes, along = {"key": (2, 1), "value": (2, 0)}.get(region.name, (1, 0))
        if len(shape) != axes or shape[along] != len(self._columns):
            return np.full(shape, -1)  # something else has strayed in here
        return np.broadcast_to(self._columns[:, None] if region.name == "value" else self._columns, shape)

    def _accuse(
        self, program: Place, order: int, name: str, store: bool, why: Why, lanes: Bools, index: list[Ints] | None
    ) -> None:
        """One violation for each block, one in all where there are none."""
        if not lanes.any():
            return
        if index is None:
            found = Violation(program, order, name, store, why, int(lanes.sum()), None, None, self._kernel)
            self.violations.append(found)
            return
        for block in dict.fromkeys(index[0][lanes].tolist()):
            here = lanes & (index[0] == block)
            slot = int(index[1][here].min())
            self.violations.append(
                Violation(program, order, name, store, why, int(here.sum()), block, slot, self._kernel)
            )

    def _follow(self, program: Place, part: _Part) -> None:
        """The walk: a tile's table entries [TILE], then its keys [D, TILE], whose addresses say which block it was."""
        if part.region.name == "block_table":
            self._columns = np.where(part.lanes, part.index[1], -1)
        elif part.region.name == "key":
            block = np.where(part.lanes, part.index[0], -1).max(0)
            if block.shape != self._columns.shape:
                return  # something else has strayed into the keys; it is among the violations
            for logical, physical in zip(self._columns.tolist(), block.tolist(), strict=True):
                if logical >= 0 and physical >= 0:
                    self._visit(program, logical, physical)

    def _visit(self, program: Place, logical: int, physical: int) -> None:
        """One more position of a block: of the one the program is in, or of its next."""
        last = self.visits[-1] if self.visits and self.visits[-1].place == program else None
        if last is not None and (last.logical_block, last.physical_block) == (logical, physical):
            order, lanes = last.order, self.visits.pop().lanes + 1
        else:
            order, lanes = (0 if last is None else last.order + 1), 1
        row = self._tile_rows.get(program[0], -1)
        self.visits.append(Visit(program, row, order, logical, physical, lanes))


def _rows_of_tiles(meta: AttentionMetadata, group: int | None) -> dict[int, int]:
    """Tile → row, by the definition of the grid and not by what the kernel finds."""
    if group is None:
        return {}
    block_q, _ = rows_per_program(group)
    starts = meta.query_start_loc.tolist()
    return {
        starts[row] // block_q + row + tile: row
        for row in range(meta.num_seqs)
        for tile in range(-(-(starts[row + 1] - starts[row]) // block_q))
    }

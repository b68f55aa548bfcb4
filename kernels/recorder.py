"""What one attention launch did, program by program and block by block: one schema from three sources.

The kernel writes it down itself when it is launched with RECORD (compiled or interpreted), the interpreter's hooks see
its loads (`kernels.sanitizer`), and `walk` does the same in plain torch. Maximum and sum are those of the online
softmax (Milakov and Gimelshein 2018, §3) as they stand once the block is read, however many blocks a tile spans.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from importlib.util import find_spec
from itertools import chain
from typing import Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from kernels.errors import KernelError
from kernels.layout import KVLayer
from kernels.masks import visible_positions
from kernels.metadata import AttentionMetadata, MaskKind, ScoreRule
from kernels.reference import gather_kv
from kernels.tiling import Shape, Tiling, rows_per_program, tiling

Source = Literal["kernel", "hooks", "twin"]


@dataclass(frozen=True, slots=True)
class Program:
    """A program of the launch that has something to do: `place` (tile, KV head, split) in the grid.

    It serves the batch's tokens `first_token` up to `end_token` (of row `row`) with all query heads of its KV head, and
    reads positions `start` up to `stop`.
    """

    place: tuple[int, int, int]
    row: int
    first_token: int
    end_token: int
    start: int
    stop: int

    @property
    def kv_head(self) -> int:
        return self.place[1]


@dataclass(frozen=True, slots=True)
class Visit:
    """One program reads one block: its `order`-th. `lanes` of the block's positions are read.

    running_max, running_sum: float32 [rows], a row for each query token and query head of the program, tokens first;
    partial: float32 [rows, D], the output if the walk ended here. None where the source does not see them.
    """

    place: tuple[int, int, int]
    row: int
    order: int
    logical_block: int
    physical_block: int
    lanes: int
    running_max: NDArray[np.float32] | None = None
    running_sum: NDArray[np.float32] | None = None
    partial: NDArray[np.float32] | None = None


@dataclass(frozen=True, slots=True)
class LaunchPlan:
    """What is known of a launch before it runs: the grid (tiles, KV heads, splits), its programs with work to do."""

    grid: tuple[int, int, int]
    programs: tuple[Program, ...]
    block_size: int


@dataclass(frozen=True, slots=True)
class LaunchRecord(LaunchPlan):
    """One launch: its plan, and what its programs visited, in order."""

    source: Source
    visits: tuple[Visit, ...]

    def of(self, place: tuple[int, int, int]) -> tuple[Visit, ...]:
        """One program's visits, in order."""
        return tuple(visit for visit in self.visits if visit.place == place)


@dataclass(frozen=True, slots=True)
class RecordBuffers:
    """Where the kernel writes under RECORD, by program (x, y, z of the grid) and logical block.

    block [x, y, z, blocks] int64, -1 where nothing was visited; lanes [x, y, z, blocks] int32; running_max,
    running_sum [x, y, z, blocks, BLOCK_M] float32, not written where nothing was visited.
    """

    block: Tensor
    lanes: Tensor
    running_max: Tensor
    running_sum: Tensor

    @classmethod
    def allocate(
        cls, grid: tuple[int, int, int], blocks: int, block_m: int, device: torch.device | str
    ) -> RecordBuffers:
        """For a launch of this grid whose longest row has `blocks` blocks."""
        return cls(
            torch.full((*grid, blocks), -1, dtype=torch.int64, device=device),
            torch.zeros((*grid, blocks), dtype=torch.int32, device=device),
            *(torch.empty((*grid, blocks, block_m), device=device) for _ in range(2)),
        )


def record(
    query: Tensor,
    layer: KVLayer,
    meta: AttentionMetadata,
    rule: ScoreRule,
    lse: Tensor | None = None,
    chosen: Tiling | None = None,
) -> tuple[Tensor, LaunchRecord]:
    """(output, what the kernel wrote down), launched with RECORD; arguments as `paged_attention.paged_attention`.

    On CPU tensors in Triton's interpreter only. Raises KernelError where triton is missing.
    """
    if find_spec("triton") is None:
        raise KernelError("triton", "is not installed here (it has wheels for Linux only)")
    from kernels.paged_attention import paged_attention

    buffers = buffers_for(query, layer, meta, chosen)
    output = paged_attention(query, layer, meta, rule, lse, chosen, buffers)
    return output, read_buffers(buffers, query, layer, meta, chosen)


def buffers_for(query: Tensor, layer: KVLayer, meta: AttentionMetadata, chosen: Tiling | None = None) -> RecordBuffers:
    """Buffers for one launch."""
    num_heads, num_kv_heads = query.shape[1], layer.layout.num_kv_heads
    grid = grid_of(meta, num_heads, num_kv_heads, chosen or tiling_of(query, layer))
    _, block_m = rows_per_program(num_heads // num_kv_heads)
    return RecordBuffers.allocate(grid, -(-meta.max_seq_len // meta.block_size), block_m, query.device)


def read_buffers(
    buffers: RecordBuffers, query: Tensor, layer: KVLayer, meta: AttentionMetadata, chosen: Tiling | None = None
) -> LaunchRecord:
    """What a launch left in its buffers; waits for the device."""
    group = query.shape[1] // layer.layout.num_kv_heads
    planned = plan(query, layer, meta, chosen)
    number = {program.place: at for at, program in enumerate(planned.programs)}
    blocks, lanes = buffers.block.cpu().numpy(), buffers.lanes.cpu().numpy()
    maxima, sums = buffers.running_max.cpu().numpy(), buffers.running_sum.cpu().numpy()
    written: dict[tuple[int, int, int], list[int]] = {}
    for x, y, z, logical in np.argwhere(blocks >= 0).tolist():
        written.setdefault((x, y, z), []).append(logical)
    visits = []
    # A program that visited a block, but by `plan` has nothing to do, is a KeyError here.
    for place in sorted(written, key=number.__getitem__):
        program = planned.programs[number[place]]
        rows = (program.end_token - program.first_token) * group
        visits += [
            Visit(
                place, program.row, order, logical, int(blocks[place][logical]), int(lanes[place][logical]),
                maxima[place][logical, :rows], sums[place][logical, :rows],
            )
            for order, logical in enumerate(written[place])
        ]  # fmt: skip
    return recorded(planned, "kernel", visits)


def recorded(planned: LaunchPlan, source: Source, visits: Iterable[Visit]) -> LaunchRecord:
    """The plan with what came of it."""
    return LaunchRecord(planned.grid, planned.programs, planned.block_size, source, tuple(visits))


def tiling_of(query: Tensor, layer: KVLayer) -> Tiling:
    """The one a launch takes when none is given."""
    return tiling(Shape(query.shape[1] // layer.layout.num_kv_heads, query.shape[2], query.dtype))


def grid_of(meta: AttentionMetadata, num_heads: int, num_kv_heads: int, chosen: Tiling) -> tuple[int, int, int]:
    """(tiles, KV heads, splits) of `paged_attention.launches`; some of its programs may have nothing to do."""
    block_q, _ = rows_per_program(num_heads // num_kv_heads)
    splits = -(-meta.max_seq_len // chosen.split) if meta.is_decode else 1
    return meta.num_tokens // block_q + meta.num_seqs, num_kv_heads, splits


def plan(query: Tensor, layer: KVLayer, meta: AttentionMetadata, chosen: Tiling | None = None) -> LaunchPlan:
    """Of `paged_attention.launches`; no number of the query or the cache is looked at."""
    chosen = chosen or tiling_of(query, layer)
    num_heads, num_kv_heads = query.shape[1], layer.layout.num_kv_heads
    block_q, _ = rows_per_program(num_heads // num_kv_heads)
    grid = grid_of(meta, num_heads, num_kv_heads, chosen)
    splits = grid[2]
    split_size = chosen.split if splits > 1 else 0
    starts, seq_lens = meta.query_start_loc.tolist(), meta.seq_lens.tolist()
    programs: list[Program] = []
    for row, seq_len in enumerate(seq_lens):
        length = starts[row + 1] - starts[row]
        for tile in range(-(-length // block_q)):
            first, stop = _reach(meta, row, seq_len, seq_len - length + tile * block_q, block_q)
            tokens = starts[row] + tile * block_q, min(starts[row] + (tile + 1) * block_q, starts[row + 1])
            for head in range(num_kv_heads):
                for split in range(splits):
                    begin, end = (split * split_size, (split + 1) * split_size) if split_size else (0, stop)
                    if begin < seq_len:
                        place = (starts[row] // block_q + row + tile, head, split)
                        programs.append(Program(place, row, *tokens, max(first, begin), min(stop, end)))
    return LaunchPlan(grid, tuple(programs), meta.block_size)


def _reach(meta: AttentionMetadata, row: int, seq_len: int, position: int, block_q: int) -> tuple[int, int]:
    """Positions (from, to) that some query token of a tile may see; `position` is the tile's first."""
    stop = min(seq_len, position + block_q)
    if meta.masks is None:
        return 0, stop
    kind, size = MaskKind(int(meta.masks.kind[row])), int(meta.masks.size[row])
    if kind is MaskKind.WINDOW:
        return max(0, position - size + 1), stop
    if kind is MaskKind.PREFIX:
        return 0, max(stop, min(size, seq_len))
    return 0, seq_len if kind is MaskKind.TREE else stop


def blocks_of(program: Program, block_size: int) -> Iterator[tuple[int, int, int]]:
    """(logical block, first position, end position) of what a program reads, in order."""
    for block in range(program.start // block_size, -(-program.stop // block_size)):
        yield block, max(program.start, block * block_size), min(program.stop, (block + 1) * block_size)


def walk(
    query: Tensor, layer: KVLayer, meta: AttentionMetadata, rule: ScoreRule, chosen: Tiling | None = None
) -> LaunchRecord:
    """The launch in torch: the same programs read the same blocks. Arguments as `reference.paged_attention`."""
    planned = plan(query, layer, meta, chosen)
    each = (walk_program(program, query, layer, meta, rule) for program in planned.programs)
    return recorded(planned, "twin", chain.from_iterable(each))


def walk_program(
    program: Program, query: Tensor, layer: KVLayer, meta: AttentionMetadata, rule: ScoreRule
) -> Iterator[Visit]:
    """The visits of one program of the launch, in order."""
    if program.start >= program.stop:
        return
    table = meta.block_table[program.row]
    scores, values = _scores(program, query, layer, meta, rule)
    maximum = torch.full((scores.shape[0],), float("-inf"))
    total, accumulator = torch.zeros(scores.shape[0]), torch.zeros(scores.shape[0], values.shape[1])
    for order, (block, start, stop) in enumerate(blocks_of(program, meta.block_size)):
        part = scores[:, start - program.start : stop - program.start]
        new = torch.maximum(maximum, part.amax(1))
        shift = torch.where(new.isneginf(), 0.0, new)
        weights, decay = (part - shift[:, None]).exp(), (maximum - shift).exp()
        total = total * decay + weights.sum(1)
        accumulator = accumulator * decay[:, None] + weights @ values[start - program.start : stop - program.start]
        maximum = new
        partial = accumulator / torch.where(total > 0, total, 1.0)[:, None]
        yield Visit(
            program.place, program.row, order, block, int(table[block]), stop - start,
            maximum.numpy(), total.numpy(), partial.numpy(),
        )  # fmt: skip


def _scores(
    program: Program, query: Tensor, layer: KVLayer, meta: AttentionMetadata, rule: ScoreRule
) -> tuple[Tensor, Tensor]:
    """(float32 scores [query tokens * group, positions], -inf where the mask hides; values [positions, D])."""
    head, group = program.kv_head, query.shape[1] // layer.layout.num_kv_heads
    heads = slice(head * group, (head + 1) * group)
    table = meta.block_table[program.row]
    key = gather_kv(layer.key, layer.key_scale, table, program.start, program.stop)[:, head].float().cpu()
    value = gather_kv(layer.value, layer.value_scale, table, program.start, program.stop)[:, head].float().cpu()
    tokens = slice(program.first_token, program.end_token)
    scores = torch.einsum("qhd,sd->qhs", query[tokens, heads].float().cpu(), key) * rule.scale
    if rule.soft_cap is not None:
        scores = rule.soft_cap * torch.tanh(scores / rule.soft_cap)
    visible, distance = visible_positions(meta, program.row, tokens, slice(program.start, program.stop))
    if rule.alibi_slopes is not None:
        scores = scores + rule.alibi_slopes[heads].cpu()[None, :, None] * distance[:, None].cpu()
    return scores.masked_fill(~visible[:, None].cpu(), float("-inf")).flatten(0, 1), value

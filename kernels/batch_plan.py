"""What is the same in every layer of a step, worked out once: where each row's K and V lie, and who sees what."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from kernels.masks import visible_positions
from kernels.metadata import AttentionMetadata, MaskKind

# Rows with one new token are attended together, padded to the longest. A row that would be padded by more slots than
# this goes into a group of its own: reading them costs more than another call (0.2 µs a slot, 16 µs a call).
PADDING_WORTH_A_CALL = 64


@dataclass(frozen=True, slots=True)
class DecodeGroup:
    """n rows with one new token each, all of whose positions are visible, padded to S positions.

    `tokens` [n] int64, their places in the batch, ascending, or None when they are the whole batch in order. `slots`
    [n * S] int64: a shorter row repeats its own last slot, so that nothing unwritten and nothing foreign is read.
    `bias` float32 [n, 1, 1, S], -inf on the repeats, or None without any.
    """

    tokens: Tensor | None
    slots: Tensor
    bias: Tensor | None
    rows: int


@dataclass(frozen=True, slots=True)
class LongRow:
    """One row's tokens `start` to `end` of the batch, and the slots [S] of the positions any of them sees.

    `bias` float32 [end - start, S], -inf where a token does not see a position; None: plainly causal over its own
    tokens, with no context before them.
    """

    start: int
    end: int
    slots: Tensor
    bias: Tensor | None


@dataclass(frozen=True, slots=True)
class BatchPlan:
    """Each row with anything to attend to is in one of the two; the others' output is zero."""

    groups: tuple[DecodeGroup, ...]
    long_rows: tuple[LongRow, ...]


@dataclass(frozen=True, slots=True)
class Row:
    """One row's query: tokens `start` to `end` of the batch, which see positions `first` to `seq_len` at most."""

    index: int
    start: int
    end: int
    first: int
    seq_len: int
    kind: MaskKind
    size: int


def plan_batch(meta: AttentionMetadata) -> BatchPlan:
    """Reads the metadata back to the host (on a GPU that waits for it) and lays out the gathers of one step."""
    table = meta.block_table.long()
    short, long_rows = [], []
    for row in rows_of(meta):
        if row.end - row.start == 1:
            short.append(row)
        else:
            long_rows.append(LongRow(row.start, row.end, _slots(table, meta.block_size, [row])[0], _bias(meta, row)))
    groups = tuple(_group(meta, table, rows) for rows in _alike(short))
    return BatchPlan(groups, tuple(long_rows))


def rows_of(meta: AttentionMetadata) -> list[Row]:
    """The rows that have anything to attend to."""
    starts, kinds, sizes = meta.query_start_loc.tolist(), None, None
    if meta.masks is not None:
        kinds, sizes = meta.masks.kind.tolist(), meta.masks.size.tolist()
    rows = []
    for index, seq_len in enumerate(meta.seq_lens.tolist()):
        end = starts[index + 1]
        start = max(starts[index], end - seq_len)
        if start >= end:
            continue
        kind = MaskKind.CAUSAL if kinds is None else MaskKind(kinds[index])
        size = 0 if sizes is None else sizes[index]
        first = max(0, seq_len - (end - start) - size + 1) if kind is MaskKind.WINDOW else 0
        rows.append(Row(index, start, end, first, seq_len, kind, size))
    return rows


def visible(meta: AttentionMetadata, row: Row) -> tuple[Tensor | None, Tensor]:
    """(bool, int64 j - i), both [row.end - row.start, row.seq_len - row.first]; None: everything is visible."""
    tokens, positions = slice(row.start, row.end), slice(row.first, row.seq_len)
    seen, distance = visible_positions(meta, row.index, tokens, positions)
    return None if row.end - row.start == 1 else seen, distance


def _bias(meta: AttentionMetadata, row: Row) -> Tensor | None:
    if row.kind is MaskKind.CAUSAL and row.end - row.start == row.seq_len:
        return None
    seen, _ = visible(meta, row)
    assert seen is not None
    return torch.zeros(seen.shape, device=seen.device).masked_fill_(~seen, float("-inf"))


def _alike(rows: Sequence[Row]) -> list[list[Row]]:
    """The rows in groups of about one length, each group in batch order."""
    groups: list[list[Row]] = []
    for row in sorted(rows, key=lambda row: row.first - row.seq_len):
        longest = groups[-1][0] if groups else None
        if longest is None or _length(longest) - _length(row) > PADDING_WORTH_A_CALL:
            groups.append([row])
        else:
            groups[-1].append(row)
    return [sorted(group, key=lambda row: row.start) for group in groups]


def _length(row: Row) -> int:
    return row.seq_len - row.first


def _group(meta: AttentionMetadata, table: Tensor, rows: list[Row]) -> DecodeGroup:
    device = table.device
    slots = _slots(table, meta.block_size, rows)
    whole = [row.start for row in rows] == list(range(meta.num_tokens))
    tokens = None if whole else torch.tensor([row.start for row in rows], device=device)
    lengths = [_length(row) for row in rows]
    bias = None
    if min(lengths) < max(lengths):
        repeated = torch.arange(max(lengths), device=device) >= torch.tensor(lengths, device=device)[:, None]
        bias = torch.zeros(repeated.shape, device=device).masked_fill_(repeated, float("-inf"))[:, None, None]
    return DecodeGroup(tokens, slots.flatten(), bias, len(rows))


def _slots(table: Tensor, block_size: int, rows: list[Row]) -> Tensor:
    """Slots int64 [rows, longest] of each row's positions, a shorter row's last one repeated."""
    device = table.device
    bounds = torch.tensor([[row.index, row.first, row.seq_len - 1] for row in rows], device=device)
    steps = torch.arange(max(_length(row) for row in rows), device=device)
    positions = torch.minimum(bounds[:, 1:2] + steps, bounds[:, 2:3])
    blocks = table[bounds[:, :1], positions // block_size]
    return blocks * block_size + positions % block_size

"""Ragged batches over a shuffled, poisoned block pool, with the contiguous K and V an oracle needs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from kernels.layout import CacheLayout, KVLayer, Order, Scales
from kernels.metadata import AttentionMetadata, Mask, MaskKind, RowMasks, ScoreRule, Semantics
from kernels.reference import from_stored, write_kv
from tests.kernels import oracle

SHAPES = [(9, 3, 64), (6, 2, 80), (4, 4, 32), (5, 1, 96)]  # query heads, KV heads, head size
BLOCK_SIZES = [1, 2, 4, 16, 32]
TOLERANCE = {torch.float32: 1e-5, torch.float16: 2e-3, torch.bfloat16: 2e-2}


def interesting_contexts(block_size: int) -> list[int]:
    """Sequence lengths around the block boundaries."""
    lengths = {1, block_size - 1, block_size, block_size + 1, 2 * block_size, 2 * block_size + 3}
    return sorted(lengths - {0})


@dataclass
class Batch:
    """One step: rows (context length, query length), the new tokens, the layer before the write, the truth per row."""

    rows: list[tuple[int, int]]
    masks: list[Mask]
    query: Tensor
    new_key: Tensor
    new_value: Tensor
    layer: KVLayer
    meta: AttentionMetadata
    keys: list[Tensor]
    values: list[Tensor]
    rule: ScoreRule

    def expected(self) -> Tensor:
        """Dense attention in float64, row by row."""
        return torch.cat([output for output, _ in self._truth()])

    def expected_lse(self) -> Tensor:
        return torch.cat([sums for _, sums in self._truth()])

    def _truth(self) -> list[tuple[Tensor, Tensor]]:
        queries = self.query.split([length for _, length in self.rows])
        return [
            oracle.attention(query, key, value, self.rule.scale, mask, self.rule.soft_cap, self.rule.alibi_slopes)
            for query, key, value, mask in zip(queries, self.keys, self.values, self.masks, strict=True)
        ]

    def stored(self) -> Batch:
        """The same batch with K and V as the cache keeps them: what a quantised result must equal closely."""
        block_size = self.layer.layout.block_size
        keys, values = [], []
        for row, (context, length) in enumerate(self.rows):
            positions = torch.arange(context + length)
            blocks, slots = self.meta.block_table[row].long()[positions // block_size], positions % block_size
            for target, cache, scale in (
                (keys, self.layer.key, self.layer.key_scale), (values, self.layer.value, self.layer.value_scale),
            ):  # fmt: skip
                own = None if scale is None else scale[blocks, slots if scale.shape[1] > 1 else 0]
                target.append(from_stored(cache[blocks, slots], own))
        return replace(self, keys=keys, values=values)


def make_batch(
    rows: Sequence[tuple[int, int]],
    shape: tuple[int, int, int],
    block_size: int,
    *,
    dtype: torch.dtype = torch.float32,
    kv_dtype: torch.dtype | None = None,
    scales: Scales = Scales.NONE,
    order: Order = Order.LBSH,
    masks: Sequence[Mask] | None = None,
    soft_cap: float | None = None,
    alibi: bool = False,
    poison: float = float("nan"),
    seed: int = 0,
) -> Batch:
    """Everything but the context's own slots holds `poison`; physical blocks are handed out in random order.

    The layer is the second of three, so that a wrong layer stride reads poison.
    """
    generator = torch.Generator().manual_seed(seed)
    query_heads, kv_heads, head_dim = shape
    blocks_of = [-(-(context + length) // block_size) for context, length in rows]
    num_blocks = sum(blocks_of) + 3
    shuffled = (torch.randperm(num_blocks - 1, generator=generator) + 1).tolist()
    layout = CacheLayout(3, num_blocks, block_size, kv_heads, head_dim, kv_dtype or dtype, scales, order)
    pool = layout.allocate()
    for tensor in pool.tensors:
        if tensor.dtype == torch.int8:
            tensor.fill_(127)
        else:
            tensor.copy_(torch.full(tensor.shape, poison))
    layer = pool.layer(1)
    starts, tables, slots = [0], [], []
    keys, values, new_keys, new_values = [], [], [], []
    for (context, length), count in zip(rows, blocks_of, strict=True):
        table = [shuffled.pop() for _ in range(count)]
        key, value = torch.randn(2, context + length, kv_heads, head_dim, generator=generator).to(dtype)
        row_slots = [table[p // block_size] * block_size + p % block_size for p in range(context + length)]
        write_kv(key[:context], value[:context], layer, torch.tensor(row_slots[:context], dtype=torch.int64))
        slots += row_slots[context:]
        starts.append(starts[-1] + length)
        tables.append(table)
        keys.append(key)
        values.append(value)
        new_keys.append(key[context:])
        new_values.append(value[context:])
    width = max(blocks_of, default=0)
    row_masks = list(masks) if masks is not None else [Mask()] * len(rows)
    lengths = [length for _, length in rows]
    # Entries beyond a row's length name a block that does not exist: who follows one crashes or reads poison.
    unused = 2**30
    meta = AttentionMetadata(
        query_start_loc=torch.tensor(starts, dtype=torch.int32),
        seq_lens=torch.tensor([context + length for context, length in rows], dtype=torch.int32),
        block_table=torch.tensor([table + [unused] * (width - len(table)) for table in tables], dtype=torch.int32),
        slot_mapping=torch.tensor(slots, dtype=torch.int64),
        block_size=block_size,
        max_query_len=max(lengths),
        max_seq_len=max(context + length for context, length in rows),
        semantics=tuple(_semantics(mask, length) for mask, length in zip(row_masks, lengths, strict=True)),
        masks=None if masks is None else RowMasks.of(row_masks, lengths),
    )
    query = torch.randn(starts[-1], query_heads, head_dim, generator=generator).to(dtype)
    slopes = torch.tensor([2.0 ** -(head + 1) for head in range(query_heads)]) if alibi else None
    return Batch(
        list(rows), row_masks, query, torch.cat(new_keys), torch.cat(new_values), layer, meta, keys, values,
        ScoreRule(head_dim**-0.5, soft_cap, slopes),
    )  # fmt: skip


def _semantics(mask: Mask, length: int) -> Semantics:
    if mask.kind is MaskKind.TREE:
        return Semantics.VERIFY
    return Semantics.DECODE if length == 1 else Semantics.PREFILL


def mixed_rows(block_size: int) -> list[tuple[int, int]]:
    """Prefill, chunk and decode of every interesting length in one batch."""
    rows = []
    for number, length in enumerate(interesting_contexts(block_size)):
        query_len = (length, 1, (length + 1) // 2)[number % 3]
        rows.append((length - query_len, query_len))
    return rows


def every_mask(rows: Sequence[tuple[int, int]]) -> list[Mask]:
    """The four kinds in turn, each with a size that cuts."""
    masks = []
    for number, (context, length) in enumerate(rows):
        kinds = (
            Mask(MaskKind.WINDOW, size=max(1, (context + length) // 3)),
            Mask(MaskKind.PREFIX, size=max(1, context + length // 2)),
            # token 0 is the root; the others hang under every second one: branches that must not see each other
            Mask(MaskKind.TREE, parents=tuple((token + 1) // 2 - 1 for token in range(min(length, 64)))),
            Mask(),
        )
        masks.append(kinds[number % 4] if length <= 64 else kinds[3])
    return masks

"""Ragged batches over a shuffled, poisoned block pool, with the contiguous K and V an oracle needs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from kernels.metadata import AttentionMetadata
from kernels.reference import dense_attention

SHAPES = [(9, 3, 64), (6, 2, 80), (4, 4, 32), (5, 1, 96)]  # query heads, KV heads, head size
BLOCK_SIZES = [1, 2, 4, 16, 32]
TOLERANCE = {torch.float32: 1e-5, torch.float16: 2e-3}


def interesting_contexts(block_size: int) -> list[int]:
    """Sequence lengths around the block boundaries."""
    lengths = {1, block_size - 1, block_size, block_size + 1, 2 * block_size, 2 * block_size + 3}
    return sorted(lengths - {0})


@dataclass
class Batch:
    """One step: rows (context length, query length), the new tokens, the pool before the write, the truth per row."""

    rows: list[tuple[int, int]]
    query: Tensor
    new_key: Tensor
    new_value: Tensor
    key_cache: Tensor
    value_cache: Tensor
    meta: AttentionMetadata
    keys: list[Tensor]
    values: list[Tensor]
    scale: float

    def expected(self) -> Tensor:
        """Dense attention in float64, row by row."""
        starts = self.meta.query_start_loc.tolist()
        outputs = [
            dense_attention(self.query[a:b].double(), key.double(), value.double(), self.scale)
            for a, b, key, value in zip(starts[:-1], starts[1:], self.keys, self.values, strict=True)
        ]
        return torch.cat(outputs)


def make_batch(
    rows: Sequence[tuple[int, int]],
    shape: tuple[int, int, int],
    block_size: int,
    *,
    dtype: torch.dtype = torch.float32,
    poison: float = float("nan"),
    seed: int = 0,
) -> Batch:
    """Everything but the context's own slots holds `poison`; physical blocks are handed out in random order."""
    generator = torch.Generator().manual_seed(seed)
    query_heads, kv_heads, head_dim = shape
    blocks_of = [-(-(context + length) // block_size) for context, length in rows]
    num_blocks = sum(blocks_of) + 3
    shuffled = (torch.randperm(num_blocks - 1, generator=generator) + 1).tolist()
    pool = torch.full((2, num_blocks, block_size, kv_heads, head_dim), poison, dtype=dtype)
    starts, tables, slots = [0], [], []
    keys, values, new_keys, new_values = [], [], [], []
    for (context, length), count in zip(rows, blocks_of, strict=True):
        table = [shuffled.pop() for _ in range(count)]
        key, value = torch.randn(2, context + length, kv_heads, head_dim, generator=generator).to(dtype)
        row_slots = [table[p // block_size] * block_size + p % block_size for p in range(context + length)]
        old = torch.tensor(row_slots[:context], dtype=torch.int64)
        pool[0].flatten(0, 1)[old] = key[:context]
        pool[1].flatten(0, 1)[old] = value[:context]
        slots += row_slots[context:]
        starts.append(starts[-1] + length)
        tables.append(table)
        keys.append(key)
        values.append(value)
        new_keys.append(key[context:])
        new_values.append(value[context:])
    width = max(blocks_of, default=0)
    meta = AttentionMetadata(
        query_start_loc=torch.tensor(starts, dtype=torch.int32),
        seq_lens=torch.tensor([context + length for context, length in rows], dtype=torch.int32),
        block_table=torch.tensor([table + [0] * (width - len(table)) for table in tables], dtype=torch.int32),
        slot_mapping=torch.tensor(slots, dtype=torch.int64),
        block_size=block_size,
        max_query_len=max(length for _, length in rows),
        max_seq_len=max(context + length for context, length in rows),
    )
    query = torch.randn(starts[-1], query_heads, head_dim, generator=generator).to(dtype)
    return Batch(
        list(rows), query, torch.cat(new_keys), torch.cat(new_values), pool[0], pool[1], meta, keys, values,
        head_dim**-0.5,
    )  # fmt: skip


def mixed_rows(block_size: int) -> list[tuple[int, int]]:
    """Prefill, chunk and decode of every interesting length in one batch."""
    rows = []
    for number, length in enumerate(interesting_contexts(block_size)):
        query_len = (length, 1, (length + 1) // 2)[number % 3]
        rows.append((length - query_len, query_len))
    return rows

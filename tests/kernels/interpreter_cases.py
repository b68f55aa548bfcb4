"""Run the Triton sources in Triton's interpreter and write what came out as JSON to stdout.

One process has one mode, read from TRITON_INTERPRET at import; `test_triton.py` starts this one with it set.
"""

from __future__ import annotations

import json
import sys
from dataclasses import replace

import torch

from kernels import cache_ops, paged_attention, reference
from tests.kernels.batches import Batch, make_batch, mixed_rows


def run(batch: Batch) -> torch.Tensor:
    cache_ops.write_kv(batch.new_key, batch.new_value, batch.key_cache, batch.value_cache, batch.meta.slot_mapping)
    return paged_attention.paged_attention(
        batch.query, batch.key_cache, batch.value_cache, batch.meta, batch.scale
    )  # fmt: skip


def error(batch: Batch) -> float:
    """Largest difference from dense attention; NaN if any output is."""
    return float((run(batch).double() - batch.expected()).abs().max())


def shapes() -> dict[str, float]:
    result = {}
    for shape, block_size, dtype in (
        ((9, 3, 64), 4, torch.float32), ((9, 3, 64), 16, torch.float32), ((9, 3, 64), 16, torch.float16),
        ((6, 2, 80), 2, torch.float32), ((6, 2, 80), 32, torch.float16), ((4, 4, 32), 1, torch.float32),
        ((5, 1, 96), 4, torch.float32), ((5, 1, 96), 16, torch.float16), ((17, 1, 16), 4, torch.float32),
        ((2, 1, 8), 4, torch.float32), ((2, 1, 8), 3, torch.float32), ((2, 1, 8), 48, torch.float32),
        ((9, 3, 64), 4, torch.bfloat16),
    ):  # fmt: skip
        batch = make_batch(mixed_rows(block_size), shape, block_size, dtype=dtype)
        result[f"{shape} block {block_size} {dtype}"] = error(batch)
    return result


def poison() -> dict[str, bool]:
    rows = [(5, 1), (0, 6), (30, 9)]
    clean = run(make_batch(rows, (9, 3, 64), 4, poison=0.0))
    return {
        str(value): torch.equal(run(make_batch(rows, (9, 3, 64), 4, poison=value)), clean)
        for value in (float("nan"), float("inf"))
    }


def alone_equals_batched() -> bool:
    """A request's rows do not depend, to the bit, on who else is in the batch: tiles are fixed and never shared.

    (A chunk against single decodes differs in last bits here: the row moves within the tile, and numpy's matmul, which
    the interpreter uses, rounds by row position.)
    """
    rows = [(7, 5), (40, 1), (0, 13)]
    batch = make_batch(rows, (9, 3, 64), 4)
    together = run(batch)
    starts = batch.meta.query_start_loc.tolist()
    for index, (context, length) in enumerate(rows):
        mine = slice(starts[index], starts[index + 1])
        meta = replace(
            batch.meta,
            query_start_loc=torch.tensor([0, length], dtype=torch.int32),
            seq_lens=torch.tensor([context + length], dtype=torch.int32),
            block_table=batch.meta.block_table[index : index + 1],
            slot_mapping=batch.meta.slot_mapping[mine],
        )
        alone = paged_attention.paged_attention(
            batch.query[mine], batch.key_cache, batch.value_cache, meta, batch.scale
        )  # fmt: skip
        if not torch.equal(alone, together[mine]):
            return False
    return True


def writes() -> dict[str, bool]:
    result = {}
    for kv_heads, head_dim in ((3, 64), (2, 80), (1, 5)):
        slots = torch.tensor([7, -1, 0, 13])
        fused = torch.randn(4, kv_heads + 2, head_dim)  # as sliced from a fused projection: rows are strided
        key, value = fused[:, 2:], torch.randn(4, kv_heads, head_dim)
        pools = [torch.zeros(4, 4, kv_heads, head_dim) for _ in range(4)]
        cache_ops.write_kv(key, value, pools[0], pools[1], slots)
        reference.write_kv(key, value, pools[2], pools[3], slots)
        same = torch.equal(pools[0], pools[2]) and torch.equal(pools[1], pools[3])
        result[f"{kv_heads} x {head_dim}"] = same and bool(pools[0].any())
    return result


def copies() -> dict[str, bool]:
    result = {}
    for layers, block_size, kv_heads, head_dim in ((3, 4, 3, 64), (1, 16, 2, 80), (2, 1, 1, 5)):
        pools = [torch.randn(layers, 8, block_size, kv_heads, head_dim) for _ in range(2)]
        twins = [pool.clone() for pool in pools]
        before = [pool.clone() for pool in pools]
        pairs = torch.tensor([[7, 0], [2, 5], [2, 1]])
        cache_ops.copy_blocks(pools[0], pools[1], pairs)
        reference.copy_blocks(twins[0], twins[1], pairs)
        same = all(torch.equal(pool, twin) for pool, twin in zip(pools, twins, strict=True))
        right = all(torch.equal(pool[:, [0, 5, 1]], old[:, [7, 2, 2]]) for pool, old in zip(pools, before, strict=True))
        result[f"{layers} x {block_size} x {kv_heads} x {head_dim}"] = same and right
    return result


def no_context() -> bool:
    fine = True
    for seq_len, empty in ((0, 2), (1, 1)):
        batch = make_batch([(0, 2), (3, 1)], (4, 2, 8), 4)
        batch.meta.seq_lens[0] = seq_len
        output = run(batch)
        fine &= torch.equal(output[:empty], torch.zeros(empty, 4, 8)) and bool(torch.isfinite(output).all())
        fine &= bool(output[empty:].abs().sum(dim=(1, 2)).all())
    return fine


def main() -> None:
    torch.set_num_threads(1)
    torch.manual_seed(0)
    results = {
        "shapes": shapes(), "poison": poison(), "alone": alone_equals_batched(), "writes": writes(),
        "copies": copies(), "no_context": no_context(),
    }  # fmt: skip
    json.dump(results, sys.stdout)


if __name__ == "__main__":
    main()

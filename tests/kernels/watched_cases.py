"""Launches watched in Triton's interpreter: clean ones, and one for each way to go wrong. JSON to stdout.

`test_sanitizer.py` starts this with TRITON_INTERPRET set.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import torch
from triton.runtime.interpreter import interpreter_builder

from kernels.layout import Order, Scales
from kernels.metadata import AttentionMetadata
from kernels.paged_attention import launches as launches_of
from kernels.paged_attention import paged_attention
from kernels.recorder import walk
from kernels.sanitizer import Log, Rights, Watched, watch, watch_launch
from tests.kernels.batches import Batch, every_mask, make_batch
from tests.kernels.records import launches, trail, written


def see(batch: Batch, meta: AttentionMetadata, rights: Rights) -> Watched:
    return watch(batch.query, batch.layer, meta, batch.rule, rights)


def clean() -> dict[str, dict[str, Any]]:
    """Nothing to complain of, the output as unwatched, the reads as the twin's walk."""
    result = {}
    cases = launches()
    rows = [(13, 5), (30, 1), (0, 9), (5, 2)]
    for scales, order, dtype in (
        (Scales.BLOCK, Order.BLSH, torch.float8_e4m3fn), (Scales.TOKEN_HEAD, Order.BLHS, torch.int8),
        (Scales.NONE, Order.LBHS, torch.bfloat16),
    ):  # fmt: skip
        batch = make_batch(rows, (9, 3, 64), 4, kv_dtype=dtype, scales=scales, order=order, masks=every_mask(rows))
        cases[f"{scales} {order}"] = batch, None
    cases["blocks of 1"] = make_batch(rows, (4, 4, 32), 1), None
    cases["one block, one head"] = make_batch([(3, 1)], (1, 1, 16), 128), None
    for name, (batch, tiling) in cases.items():
        written(batch)
        lse = torch.empty(batch.query.shape[:2])
        seen = watch(batch.query, batch.layer, batch.meta, batch.rule, Rights.of(batch.meta), lse, tiling)
        twin = walk(batch.query, batch.layer, batch.meta, batch.rule, tiling)
        plain = paged_attention(batch.query, batch.layer, batch.meta, batch.rule, chosen=tiling)
        result[name] = {
            "violations": [str(violation) for violation in seen.violations],
            "same": torch.equal(seen.output, plain),
            "walk": (seen.record.grid, trail(seen.record)) == (twin.grid, trail(twin)) and bool(twin.visits),
            "programs": seen.record.programs == twin.programs,
        }
    return result


def log_of_a_decode() -> list[tuple[Any, ...]]:
    """Every access of the first program: 6 positions in blocks of 4, one tile."""
    batch = written(make_batch([(5, 1)], (2, 1, 8), 4))
    seen = see(batch, batch.meta, Rights.of(batch.meta))
    blocks = batch.meta.block_table[0].tolist()
    return [
        (a.program, a.order, a.tensor, a.store, a.lanes, [blocks.index(block) for block in a.blocks])
        for a in seen.accesses
        if a.program == (0, 0, 0)
    ]


ROWS = [(9, 1), (6, 3), (0, 5)]


def broken() -> dict[str, list[str]]:
    """What is said of a launch gone wrong in one way."""
    batch = written(make_batch(ROWS, (6, 2, 16), 4))
    rights = Rights.of(batch.meta)
    free = next(block for block in range(batch.layer.key.shape[0]) if not any(block in b for b in rights.blocks))

    def table(row: int, column: int, block: int) -> list[str]:
        wrong = batch.meta.block_table.clone()
        wrong[row, column] = block
        return named(see(batch, replace(batch.meta, block_table=wrong), rights), batch, free)

    swapped = batch.meta.block_table.clone()
    swapped[0, :2] = swapped[0, [1, 0]]
    longer = batch.meta.seq_lens + torch.tensor([1, 0, 0], dtype=torch.int32)
    return {
        "free block": table(0, 1, free),
        "another's block": table(1, 0, rights.blocks[2][1]),
        "entries swapped": named(see(batch, replace(batch.meta, block_table=swapped), rights), batch, free),
        "own block, wrong place": table(0, 0, rights.blocks[0][2]),
        "no block": table(0, 1, 2**30),
        "negative block": table(0, 1, -(2**30)),
        "one too long": named(see(batch, replace(batch.meta, seq_lens=longer), rights), batch, free),
    }


def named(seen: Watched, batch: Batch, free: int) -> list[str]:
    """Sentences with blocks named after whose they are, since ids are random."""
    names = {free: "FREE"}
    for row, blocks in enumerate(Rights.of(batch.meta).blocks):
        names |= {block: f"{'ABC'[row]}{logical}" for logical, block in enumerate(blocks)}
    assert torch.isfinite(seen.output[1:]).all() or seen.violations
    return [str(v).replace(f"block {v.block},", f"block {names.get(v.block or 0, '?')},") for v in seen.violations]


def wrong_arguments() -> dict[str, list[str]]:
    """A launch with one argument that does not fit its tensor: (reasons, tensors) in words, and does it end?"""
    batch = written(make_batch(ROWS, (6, 2, 16), 4))
    result = {}
    for name, factor in (
        ("block_stride", 2), ("block_stride", 1000), ("slot_stride", 2), ("head_stride", 2), ("table_stride", 2),
        ("query_stride_token", 100), ("GROUP", 2),
    ):  # fmt: skip
        log = altered(batch, lambda arguments, name=name, factor=factor: arguments[name] * factor, name)
        result[f"{name} x {factor}"] = sorted({f"{v.tensor or '-'}: {v.why}" for v in log.violations})
    return result


def altered(batch: Batch, change: Callable[[dict[str, Any]], Any], name: str) -> Log:
    (launch,) = launches_of(batch.query, batch.layer, batch.meta, batch.rule, torch.zeros_like(batch.query))
    changed = replace(launch, arguments={**launch.arguments, name: change(launch.arguments)})
    return watch_launch(changed, batch.meta, Rights.of(batch.meta))


def wrong_store() -> dict[str, Any]:
    """An output that is too short, and the queries right behind it: nothing of them is overwritten, and it is said."""
    batch = written(make_batch(ROWS, (6, 2, 16), 4))
    memory = torch.cat([torch.zeros(2, 6, 16), batch.query])
    output, query = memory[:2], memory[2:]
    (launch,) = launches_of(query, batch.layer, batch.meta, batch.rule, output)
    log = watch_launch(launch, batch.meta, Rights.of(batch.meta))
    return {
        "stores": sorted({f"{v.tensor or '-'}: {v.why}" for v in log.violations if v.store}),
        "others": [str(violation) for violation in log.violations if not violation.store],
        "untouched": torch.equal(query, batch.query),
        "written": bool(output.any(dim=2).all()),
    }


def hooks_are_gone() -> bool:
    mine = {"create_masked_load", "create_masked_store"}
    batch = make_batch(ROWS, (6, 2, 16), 4)
    bad = replace(batch.meta, seq_lens=batch.meta.seq_lens.double())
    for meta in (batch.meta, bad):
        try:
            see(batch, meta, Rights.of(batch.meta))
        except Exception:
            assert meta is bad
    return not mine & set(vars(interpreter_builder))


def main() -> None:
    torch.set_num_threads(1)
    results = {
        "clean": clean(), "log": log_of_a_decode(), "broken": broken(), "arguments": wrong_arguments(),
        "store": wrong_store(), "gone": hooks_are_gone(),
    }  # fmt: skip
    json.dump(results, sys.stdout)


if __name__ == "__main__":
    main()

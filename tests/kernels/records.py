"""Launches worth recording, and how far a record is from the torch twin's."""

from __future__ import annotations

import math

import numpy as np
import torch

from kernels import reference
from kernels.layout import Scales
from kernels.recorder import LaunchRecord, walk
from kernels.tiling import Tiling
from tests.kernels.batches import Batch, every_mask, make_batch, mixed_rows

DECODES = [(70, 1), (3, 1), (40, 1), (31, 1)]
SPLIT = Tiling(tile=16, split=32)


def written(batch: Batch) -> Batch:
    reference.write_kv(batch.new_key, batch.new_value, batch.layer, batch.meta.slot_mapping)
    return batch


def batches() -> dict[str, Batch]:
    rows = mixed_rows(4)
    return {
        "mixed": make_batch(rows, (9, 3, 64), 4),
        "masks": make_batch(rows, (9, 3, 64), 4, masks=every_mask(rows)),
        "rules": make_batch(rows, (5, 1, 96), 4, soft_cap=3.0, alibi=True),
        "decode": make_batch(DECODES, (6, 2, 80), 16, masks=every_mask(DECODES)),
        "long chunk": make_batch([(9, 40), (0, 17)], (9, 3, 64), 3),
        "int8": make_batch(rows, (9, 3, 64), 4, kv_dtype=torch.int8, scales=Scales.TOKEN_HEAD),
    }


def launches() -> dict[str, tuple[Batch, Tiling | None]]:
    """Blocks smaller than a tile, larger, and of no power of two; splits."""
    wide = mixed_rows(48)[:4]
    result: dict[str, tuple[Batch, Tiling | None]] = {name: (batch, None) for name, batch in batches().items()}
    result["splits"] = (make_batch(DECODES, (6, 2, 80), 4, masks=every_mask(DECODES)), SPLIT)
    result["blocks of 48"] = (make_batch(wide, (2, 1, 8), 48, masks=every_mask(wide)), Tiling(tile=16))
    return result


def apart(got: LaunchRecord, batch: Batch, tiling: Tiling | None) -> float:
    """Largest difference of maxima and sums from `walk`'s; infinite where anything else differs at all."""
    twin = walk(batch.query, batch.layer, batch.meta, batch.rule, tiling)
    if (got.grid, got.programs, trail(got)) != (twin.grid, twin.programs, trail(twin)):
        return math.inf
    worst = 0.0
    for ours, theirs in zip(got.visits, twin.visits, strict=True):
        for one, other in ((ours.running_max, theirs.running_max), (ours.running_sum, theirs.running_sum)):
            assert one is not None and other is not None
            if one.shape != other.shape or not np.array_equal(np.isneginf(one), np.isneginf(other)):
                return math.inf
            finite = ~np.isneginf(one)
            worst = max(worst, float(np.abs(one - other, where=finite, out=np.zeros_like(one)).max()))
    return worst


def trail(record: LaunchRecord) -> list[tuple[object, ...]]:
    """All of a record that does not depend on numbers."""
    return [(v.place, v.row, v.order, v.logical_block, v.physical_block, v.lanes) for v in record.visits]

"""How much of a launch one program takes: fixed for a shape, never chosen from the batch.

A request's result then does not depend, to the bit, on who shares its batch. `kernels.tune` measures the candidates on
the GPU at hand and keeps the fastest for this process; nobody is timed in the middle of a step.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import torch

_MIN_ROWS = 16  # smallest row count tensor cores take


@dataclass(frozen=True, slots=True)
class Shape:
    """What the choice depends on. dtype is the query's; group is query heads per KV head."""

    group: int
    head_dim: int
    dtype: torch.dtype

    @property
    def padded_dim(self) -> int:
        return max(16, power_of_two(self.head_dim))


@dataclass(frozen=True, slots=True)
class Tiling:
    """tile: positions per turn of the loop; split: positions per program of a decode launch, a multiple of `tile`."""

    tile: int = 32
    split: int = 512
    num_warps: int = 4
    num_stages: int = 3


def default_tiling(shape: Shape) -> Tiling:
    """The largest tile whose K, V and output stay in registers (`offline` watches over it)."""
    return Tiling() if _half_words(shape) < 256 else Tiling(num_warps=8)


def candidates(shape: Shape) -> list[Tiling]:
    """What `tune` tries: every one compiles without spills on sm_80 and sm_90 (tests/kernels/test_offline.py)."""
    start = default_tiling(shape)
    more = [replace(start, split=256), replace(start, split=1024), replace(start, num_stages=4)]
    # A two-stage pipeline keeps more in registers: fp32 heads of 128 and 256 then spill on sm_90.
    return [start, *more] if _half_words(shape) >= 256 else [start, *more, replace(start, num_stages=2)]


def _half_words(shape: Shape) -> int:
    """Half words of a head: what a position of K or V takes in registers."""
    return shape.padded_dim * (2 if shape.dtype == torch.float32 else 1)


def tiling(shape: Shape) -> Tiling:
    return _tuned.get(shape) or default_tiling(shape)


def use_fastest(shape: Shape, milliseconds: Mapping[Tiling, float]) -> Tiling:
    """From now on `tiling` gives the one of these that took least."""
    _tuned[shape] = min(milliseconds, key=milliseconds.__getitem__)
    return _tuned[shape]


_tuned: dict[Shape, Tiling] = {}


def rows_per_program(group: int) -> tuple[int, int]:
    """(BLOCK_Q, BLOCK_M) for `group` query heads per KV head: whole query tokens, in a power of two of rows."""
    block_m = max(_MIN_ROWS, power_of_two(group))
    return block_m // group, block_m


def power_of_two(number: int) -> int:
    """The next one from `number` on."""
    return 1 << (number - 1).bit_length()

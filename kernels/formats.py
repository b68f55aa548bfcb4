"""Number formats inside a kernel: stored ↔ computed, by integer steps that every GPU and the interpreter can do.

fp8 e4m3 lies as bytes: sm_80 has no type for it, and one path for all is one path to trust.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

PLAIN, INT8, FP8 = tl.constexpr(0), tl.constexpr(1), tl.constexpr(2)
_FORMATS = {torch.int8: 1, torch.float8_e4m3fn: 2}


def format_of(dtype: torch.dtype) -> int:
    """The FORMAT constant of a cache dtype."""
    return _FORMATS.get(dtype, 0)


def as_bytes(tensor: Tensor) -> Tensor:
    """What is handed to a kernel for a cache tensor."""
    return tensor.view(torch.uint8) if tensor.dtype == torch.float8_e4m3fn else tensor


@triton.jit  # type: ignore[untyped-decorator]
def decode(stored, FORMAT: tl.constexpr):  # type: ignore[no-untyped-def]
    """Stored numbers as float32, float16 for fp8 (exact); plain ones as they lie."""
    if FORMAT == INT8:
        numbers = stored.to(tl.float32)
    elif FORMAT == FP8:
        code = stored.to(tl.int16)
        # Sign, and exponent and mantissa one place to the left of float16's; the exponents' biases differ by 8.
        half = (((code & 0x80) << 8) | ((code & 0x7F) << 7)).to(tl.float16, bitcast=True) * 256.0
        numbers = tl.where((code & 0x7F) == 0x7F, float("nan"), half)
    else:
        numbers = stored
    return numbers


@triton.jit  # type: ignore[untyped-decorator]
def encode(numbers, FORMAT: tl.constexpr):  # type: ignore[no-untyped-def]
    """float32 numbers, already divided by their scale, as they are stored: nearest, ties to even, saturating."""
    if FORMAT == INT8:
        code = nearest(tl.minimum(tl.maximum(numbers, -127.0), 127.0)).to(tl.int8)
    elif FORMAT == FP8:
        size = tl.minimum(tl.abs(numbers), 448.0)
        bits = size.to(tl.int32, bitcast=True)
        # Normal: keep 3 of 23 mantissa bits, move the exponent's bias from 127 to 7. Below 2^-6: steps of 2^-9.
        normal = ((bits + 0x7FFFF + ((bits >> 20) & 1)) >> 20) - (120 << 3)
        rounded = tl.where(size < 0.015625, nearest(size * 512.0).to(tl.int32), normal)
        code = (rounded | tl.where(numbers < 0.0, 0x80, 0)).to(tl.uint8)
    else:
        code = numbers
    return code


@triton.jit
def nearest(numbers):  # type: ignore[no-untyped-def]
    """Round below 2^22 to the nearest integer, ties to even: the sum has no bits left for a fraction."""
    return (numbers + 12582912.0) - 12582912.0

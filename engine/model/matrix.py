"""One weight matrix, and the ways to multiply by it: as it is, or in a smaller format that a CPU reads faster."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal, get_args

import torch
from torch import Tensor
from torch.nn import functional

Format = Literal["fp32", "bf16", "int8", "int4"]
FORMATS: tuple[Format, ...] = get_args(Format)

# x [T, in] → [T, out], both in the dtype of the model.
Matrix = Callable[[Tensor], Tensor]

# From this many rows on a packed copy wins; up to this many it does. Measured on AVX-512, at 4 rows 55 against 77 ms.
_PACKED_ROWS = range(3, 17)
# Up to this many rows the smaller formats beat float32, which has its rows' arithmetic to hide its reading behind.
_FEW_ROWS = 16
_WORTH_PACKING = 1 << 18  # elements of a matrix; smaller ones lie in a core's own cache anyway
PACK_AT_MOST = 2 << 30  # bytes of a model's weights: the packed copies take as much again
INT4_GROUP = 32  # as in GGUF's Q4_0 and Q4_1, whose numbers therefore come back to within the scale's rounding


def make_matrix(weight: Tensor, form: Format, packs: bool = True) -> Matrix:
    """`weight` [out, in] in this format. On a GPU, where none of them has a kernel here, it stays as it is.

    `packs`: whether a float32 matrix may keep a second, packed copy of itself.
    """
    if weight.device.type != "cpu" or weight.dtype != torch.float32:
        return _Plain(weight)
    if form == "bf16":
        return _BFloat16(weight)
    if form == "int8" or (form == "int4" and not fits_int4(weight)):
        return _Int8(weight)
    return _Int4(weight) if form == "int4" else _Float32(weight, packs)


def fits_int4(weight: Tensor) -> bool:
    """Whole groups, and rows the packed layout can hold."""
    return weight.shape[1] % INT4_GROUP == 0 and weight.shape[0] % 16 == 0


class _Plain:
    def __init__(self, weight: Tensor) -> None:
        self._weight = weight

    def __call__(self, x: Tensor) -> Tensor:
        return functional.linear(x, self._weight)


class _Float32:
    """The weight itself for one row or many; for a few a copy in oneDNN's blocked layout, made when first wanted."""

    def __init__(self, weight: Tensor, packs: bool) -> None:
        self._weight = weight
        self._packed: Tensor | None = None
        self._can_pack = packs and can_pack() and weight.numel() >= _WORTH_PACKING

    def __call__(self, x: Tensor) -> Tensor:
        if not self._can_pack or x.shape[0] not in _PACKED_ROWS:
            return functional.linear(x, self._weight)
        if self._packed is None:
            self._packed = pack(self._weight)
        return packed_linear(x, self._packed)


class _BFloat16:
    """Weights and inputs rounded to 8 bits of mantissa, sums in float32 (AMX, AVX512_BF16)."""

    def __init__(self, weight: Tensor) -> None:
        half = weight.to(torch.bfloat16)
        self._multiply = packed_linear if can_pack() else functional.linear
        self._weight = pack(half) if can_pack() else half

    def __call__(self, x: Tensor) -> Tensor:
        return self._multiply(x.to(torch.bfloat16), self._weight).to(x.dtype)


class _Int8:
    """One scale per output row; inputs in bfloat16, since the kernel knows no float32 path that is fast."""

    def __init__(self, weight: Tensor) -> None:
        self._float = weight
        scale = weight.abs().amax(1).clamp(min=1e-30) / 127
        self._weight = (weight / scale[:, None]).round().to(torch.int8)
        self._scale = scale.to(torch.bfloat16)

    def __call__(self, x: Tensor) -> Tensor:
        if x.shape[0] > _FEW_ROWS:
            return functional.linear(x, self._float)
        return torch._weight_int8pack_mm(x.to(torch.bfloat16), self._weight, self._scale).to(x.dtype)


class _Int4:
    """A scale and an offset per 32 weights of a row, as in the GGUF file."""

    def __init__(self, weight: Tensor) -> None:
        self._float = weight
        groups = weight.view(weight.shape[0], -1, INT4_GROUP)
        low = groups.amin(2)
        scale = ((groups.amax(2) - low) / 15).clamp(min=1e-30)
        steps = ((groups - low[..., None]) / scale[..., None]).round().clamp(0, 15)
        self._weight = torch._convert_weight_to_int4pack_for_cpu(steps.to(torch.int32).view(weight.shape), 1)
        # The kernel computes (step - 8) * scale + middle.
        self._scales = torch.stack((scale, low + 8 * scale), -1).transpose(0, 1).to(torch.bfloat16).contiguous()

    def __call__(self, x: Tensor) -> Tensor:
        if x.shape[0] > _FEW_ROWS:
            return functional.linear(x, self._float)
        narrow = x.to(torch.bfloat16)
        product: Tensor = torch.ops.aten._weight_int4pack_mm_for_cpu(narrow, self._weight, INT4_GROUP, self._scales)
        return product.to(x.dtype)


def can_pack() -> bool:
    """Whether this build of torch has oneDNN's packed matrices (Intel and AMD builds do)."""
    return bool(torch._C._has_mkldnn) and hasattr(torch.ops.mkldnn, "_linear_pointwise")


def pack(weight: Tensor) -> Tensor:
    """A copy in the blocked layout that suits about eight rows."""
    packed: Tensor = torch.ops.mkldnn._reorder_linear_weight(weight, 8)
    return packed


def packed_linear(x: Tensor, packed: Tensor) -> Tensor:
    """x [T, in] times a matrix that `pack` has made."""
    product: Tensor = torch.ops.mkldnn._linear_pointwise(x, packed, None, "none", [], "")
    return product

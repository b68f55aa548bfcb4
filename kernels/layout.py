"""How K and V lie in memory: the order of the axes, what a number is stored as, and where its scale is.

Tensors are always *indexed* [layer, block, slot, head, D]; the order in which they lie is a matter of strides.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from math import prod

import torch
from torch import Tensor

from kernels.errors import KernelError, expect

SCHEMA_VERSION = 2
MAX_BLOCK_SIZE = 256
# fp32 heads of 512 compile without spills, but want 162 KiB of shared memory a program: more than most GPUs have.
MAX_HEAD_DIM = 256


class Order(StrEnum):
    """Axes from the outermost to the innermost: Layer, Block, Slot, Head; the head's D numbers always come last."""

    LBSH = "LBSH"  # vLLM's NHD: the heads of a token together
    LBHS = "LBHS"  # vLLM's HND: the tokens of a head together
    BLSH = "BLSH"  # all layers of a block together, as vLLM's cross-layer blocks: a transfer is one copy
    BLHS = "BLHS"


class Scales(StrEnum):
    """What shares one float32 scale."""

    NONE = "none"
    TOKEN_HEAD = "token_head"  # each token's head, in K and V: vLLM 0.33's int8/fp8 `per_token_head` modes
    BLOCK = "block"  # each block's head; grows with the block's largest number


QUANTISED = (torch.int8, torch.float8_e4m3fn)
DTYPES = (torch.float32, torch.float16, torch.bfloat16, *QUANTISED)
LARGEST = {torch.int8: 127.0, torch.float8_e4m3fn: 448.0}


@dataclass(frozen=True, slots=True)
class CacheLayout:
    """Everything two sides must agree on before one reads what the other wrote. Raises KernelError naming the field."""

    num_layers: int
    num_blocks: int
    block_size: int
    num_kv_heads: int
    head_dim: int
    dtype: torch.dtype = torch.float32
    scales: Scales = Scales.NONE
    order: Order = Order.LBSH
    schema_version: int = SCHEMA_VERSION

    def __post_init__(self) -> None:
        expect("schema_version", "version", self.schema_version, SCHEMA_VERSION)
        for field, most in (
            ("num_layers", None), ("num_blocks", None), ("block_size", MAX_BLOCK_SIZE), ("num_kv_heads", None),
            ("head_dim", MAX_HEAD_DIM),
        ):  # fmt: skip
            value = getattr(self, field)
            if value < 1:
                raise KernelError(field, f"is {value}, but it must be at least 1")
            if most is not None and value > most:
                raise KernelError(field, f"is {value}, but the kernels go up to {most}")
        if self.dtype not in DTYPES:
            raise KernelError("dtype", f"{self.dtype} is none of {', '.join(map(str, DTYPES))}")
        if self.dtype == torch.int8 and self.scales is Scales.NONE:
            raise KernelError("scales", "int8 cannot do without: choose token_head or block")
        if self.dtype not in QUANTISED and self.scales is not Scales.NONE:
            raise KernelError("scales", f"{self.scales} makes sense for int8 and fp8 only, not for {self.dtype}")

    @property
    def shape(self) -> tuple[int, int, int, int, int]:
        return self.num_layers, self.num_blocks, self.block_size, self.num_kv_heads, self.head_dim

    @property
    def strides(self) -> tuple[int, int, int, int, int]:
        """Elements between neighbours along each axis of `shape`."""
        size = dict(zip("LBSH", self.shape, strict=False))
        inner = {axis: prod(size[later] for later in self.order[at + 1 :]) for at, axis in enumerate(self.order)}
        layer, block, slot, head = (inner[axis] * self.head_dim for axis in "LBSH")
        return layer, block, slot, head, 1

    @property
    def scale_shape(self) -> tuple[int, ...] | None:
        """[layer, block, slot, head] for a scale per token and head, slot 1 for one per block and head."""
        if self.scales is Scales.NONE:
            return None
        slots = self.block_size if self.scales is Scales.TOKEN_HEAD else 1
        return self.num_layers, self.num_blocks, slots, self.num_kv_heads

    @property
    def bytes_per_block(self) -> int:
        """All layers, K and V, scales included."""
        numbers = 2 * self.num_layers * self.num_kv_heads * self.block_size * self.head_dim * self.dtype.itemsize
        return numbers + (0 if self.scale_shape is None else 2 * 4 * prod(self.scale_shape) // self.num_blocks)

    def allocate(self, device: torch.device | str = "cpu", pin_memory: bool = False) -> KVPool:
        """A pool as the allocator gives it: nothing may ever depend on a slot that was not written."""
        axes = ["LBSH".index(axis) for axis in self.order]
        outer = [self.shape[axis] for axis in axes]
        back = [axes.index(axis) for axis in range(4)]
        key, value = (
            torch.empty((*outer, self.head_dim), dtype=self.dtype, device=device, pin_memory=pin_memory).permute(
                *back, 4
            )
            for _ in range(2)
        )
        if self.scale_shape is None:
            return KVPool(self, key, value)
        scales = (torch.empty(self.scale_shape, device=device, pin_memory=pin_memory) for _ in range(2))
        return KVPool(self, key, value, *scales)


@dataclass(frozen=True, slots=True)
class KVPool:
    """All layers' K and V [layers, blocks, block_size, Hkv, D], with the scales of `CacheLayout.scale_shape` if any.

    Raises KernelError naming the tensor that does not lie as the layout says.
    """

    layout: CacheLayout
    key: Tensor
    value: Tensor
    key_scale: Tensor | None = None
    value_scale: Tensor | None = None

    def __post_init__(self) -> None:
        layout = self.layout
        for field in ("key", "value"):
            tensor: Tensor = getattr(self, field)
            _expect_place(field, tensor, layout.shape, layout.strides)
            expect(field, "dtype", tensor.dtype, layout.dtype)
            expect(field, "device", tensor.device, self.key.device)
        for field in ("key_scale", "value_scale"):
            scale: Tensor | None = getattr(self, field)
            if scale is None or layout.scale_shape is None:
                expect(field, "shape", None if scale is None else tuple(scale.shape), layout.scale_shape)
                continue
            _expect_place(field, scale, layout.scale_shape, None)
            expect(field, "dtype", scale.dtype, torch.float32)
            expect(field, "device", scale.device, self.key.device)

    @property
    def tensors(self) -> tuple[Tensor, ...]:
        """Whatever moves when a block moves; the block is axis 1 of each."""
        return tuple(x for x in (self.key, self.value, self.key_scale, self.value_scale) if x is not None)

    def layer(self, index: int) -> KVLayer:
        """One layer's part; no copy."""
        scales = (None if x is None else x[index] for x in (self.key_scale, self.value_scale))
        return KVLayer(self.layout, self.key[index], self.value[index], *scales)


@dataclass(frozen=True, slots=True)
class KVLayer:
    """One layer of a `KVPool`: key, value [blocks, block_size, Hkv, D]; scales [blocks, block_size or 1, Hkv].

    Made by `KVPool.layer`, which has checked the tensors, so a launch need not do it again.
    """

    layout: CacheLayout
    key: Tensor
    value: Tensor
    key_scale: Tensor | None = None
    value_scale: Tensor | None = None


def _expect_place(field: str, tensor: Tensor, shape: tuple[int, ...], strides: tuple[int, ...] | None) -> None:
    expect(field, "shape", tuple(tensor.shape), shape)
    if strides is None:
        if not tensor.is_contiguous():
            raise KernelError(field, "must be contiguous")
        return
    # The stride of an axis of length 1 means nothing.
    got = tuple(stride for stride, length in zip(tensor.stride(), shape, strict=True) if length > 1)
    wanted = tuple(stride for stride, length in zip(strides, shape, strict=True) if length > 1)
    expect(field, "strides, which the layout's order decides,", got, wanted)

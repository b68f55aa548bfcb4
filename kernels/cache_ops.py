"""KV write, read and block copy in Triton. Needs the triton package (Linux); `kernels.dispatch` decides who serves."""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

from kernels.formats import PLAIN, as_bytes, decode, encode, format_of
from kernels.launch import Launch
from kernels.layout import LARGEST, KVLayer, KVPool, Scales
from kernels.tiling import power_of_two

# Rounding must not depend on what a compiler fuses: what is written equals the twin's to the bit.
EXACT = {"enable_fp_fusion": False}


@triton.jit  # type: ignore[untyped-decorator]
def write_kv_kernel(  # type: ignore[no-untyped-def]
    new_ptr,  # [T, HEADS, D]
    cache_ptr,  # [num_blocks, BLOCK_SIZE, HEADS, D] by the strides below
    scale_ptr,  # [num_blocks, BLOCK_SIZE, HEADS] contiguous, or None
    slot_mapping_ptr,
    new_stride,
    block_stride,
    slot_stride,
    head_stride,
    BLOCK_SIZE: tl.constexpr,
    HEADS: tl.constexpr,
    HEADS_PADDED: tl.constexpr,  # next power of two
    HEAD_DIM: tl.constexpr,
    HEAD_DIM_PADDED: tl.constexpr,
    FORMAT: tl.constexpr,
    LARGEST: tl.constexpr,  # a format's largest number
):
    """One program a token: all of its heads, each under its own scale if there are any. Negative slots are skipped."""
    token = tl.program_id(0).to(tl.int64)
    slot = tl.load(slot_mapping_ptr + token)
    if slot >= 0:
        head = tl.arange(0, HEADS_PADDED)
        dim = tl.arange(0, HEAD_DIM_PADDED)
        inside = (head < HEADS)[:, None] & (dim < HEAD_DIM)[None, :]
        grid = head[:, None] * HEAD_DIM + dim[None, :]
        new = tl.load(new_ptr + token * new_stride + grid, mask=inside, other=0.0)
        if FORMAT != PLAIN:
            new = new.to(tl.float32)
        if scale_ptr is not None:
            scale = tl.div_rn(tl.max(tl.abs(new), 1), LARGEST)
            tl.store(scale_ptr + slot * HEADS + head, scale, mask=head < HEADS)
            new = tl.div_rn(new, tl.where(scale > 0.0, scale, 1.0)[:, None])
        place = slot // BLOCK_SIZE * block_stride + slot % BLOCK_SIZE * slot_stride
        tl.store(cache_ptr + place + head[:, None] * head_stride + dim[None, :], encode(new, FORMAT), mask=inside)


@triton.jit  # type: ignore[untyped-decorator]
def write_kv_block_scale_kernel(  # type: ignore[no-untyped-def]
    new_ptr,  # [T, HEADS, D]
    cache_ptr,
    scale_ptr,  # [num_blocks, 1, HEADS] contiguous
    slot_mapping_ptr,
    num_tokens,
    new_stride,
    block_stride,
    slot_stride,
    head_stride,
    BLOCK_SIZE: tl.constexpr,
    HEADS: tl.constexpr,
    HEAD_DIM: tl.constexpr,
    HEAD_DIM_PADDED: tl.constexpr,
    FORMAT: tl.constexpr,
    LARGEST: tl.constexpr,
):
    """Grid (T, HEADS): the first token of a block writes all of them, and rounds the block's earlier ones again.

    A request's tokens are neighbours in the batch, so those of one block lie within BLOCK_SIZE of each other.
    """
    token = tl.program_id(0)
    head = tl.program_id(1)
    slot = tl.load(slot_mapping_ptr + token)
    leads = slot >= 0
    block = slot // BLOCK_SIZE
    for back in range(1, BLOCK_SIZE):
        before = tl.load(slot_mapping_ptr + token - back, mask=token >= back, other=-1)
        leads = leads & ((before < 0) | (before // BLOCK_SIZE != block))
    if leads:
        dim = tl.arange(0, HEAD_DIM_PADDED)
        dim_mask = dim < HEAD_DIM
        first = slot % BLOCK_SIZE
        cache = cache_ptr + block * block_stride + head * head_stride + dim
        # A block written from its first slot on is a new one: what its last owner left does not count.
        old = tl.load(scale_ptr + block * HEADS + head, mask=first > 0, other=0.0)
        grown = old
        for ahead in range(BLOCK_SIZE):
            mine = tl.load(slot_mapping_ptr + token + ahead, mask=token + ahead < num_tokens, other=-1)
            mask = dim_mask & (mine >= 0) & (mine // BLOCK_SIZE == block)
            source = new_ptr + tl.cast(token + ahead, tl.int64) * new_stride + head * HEAD_DIM + dim
            new = tl.load(source, mask=mask, other=0.0).to(tl.float32)
            grown = tl.maximum(grown, tl.div_rn(tl.max(tl.abs(new), 0), LARGEST))
        divisor = tl.where(grown > 0.0, grown, 1.0)
        if grown > old:
            for earlier in range(first):
                stored = tl.load(cache + earlier * slot_stride, mask=dim_mask, other=0)
                again = tl.div_rn(decode(stored, FORMAT).to(tl.float32) * old, divisor)
                tl.store(cache + earlier * slot_stride, encode(again, FORMAT), mask=dim_mask)
        for ahead in range(BLOCK_SIZE):
            mine = tl.load(slot_mapping_ptr + token + ahead, mask=token + ahead < num_tokens, other=-1)
            mask = dim_mask & (mine >= 0) & (mine // BLOCK_SIZE == block)
            source = new_ptr + tl.cast(token + ahead, tl.int64) * new_stride + head * HEAD_DIM + dim
            new = tl.load(source, mask=mask, other=0.0).to(tl.float32)
            place = mine % BLOCK_SIZE * slot_stride
            tl.store(cache + place, encode(tl.div_rn(new, divisor), FORMAT), mask=mask)
        tl.store(scale_ptr + block * HEADS + head, grown)


def write_kv(key: Tensor, value: Tensor, layer: KVLayer, slot_mapping: Tensor) -> None:
    """Launch the writes; arguments as `kernels.reference.write_kv`.

    Slots are not checked against the pool (that would stall the GPU); `kernels.dispatch` has checked the shapes.
    """
    if len(key) > 0:
        for launch in write_launches(key, value, layer, slot_mapping):
            launch.run()


def write_launches(key: Tensor, value: Tensor, layer: KVLayer, slot_mapping: Tensor) -> list[Launch]:
    """One for K, one for V."""
    num_tokens, heads, head_dim = key.shape
    dtype = layer.layout.dtype
    launches = []
    for new, cache, scale in ((key, layer.key, layer.key_scale), (value, layer.value, layer.value_scale)):
        rows = _rows(new)
        arguments = {
            "new_ptr": rows, "cache_ptr": as_bytes(cache), "scale_ptr": scale, "slot_mapping_ptr": slot_mapping,
            "new_stride": rows.stride(0), **_place(cache), "HEADS": heads, "HEAD_DIM": head_dim,
            "HEAD_DIM_PADDED": power_of_two(head_dim), "FORMAT": format_of(dtype), "LARGEST": LARGEST.get(dtype, 0.0),
        }  # fmt: skip
        if layer.layout.scales is Scales.BLOCK:
            arguments["num_tokens"] = num_tokens
            launches.append(Launch(write_kv_block_scale_kernel, (num_tokens, heads), arguments, EXACT))
        else:
            arguments["HEADS_PADDED"] = power_of_two(heads)
            launches.append(Launch(write_kv_kernel, (num_tokens,), arguments, EXACT))
    return launches


def _place(cache: Tensor) -> dict[str, int]:
    block_stride, slot_stride, head_stride, _ = cache.stride()
    block_size = cache.shape[1]
    return {
        "block_stride": block_stride, "slot_stride": slot_stride, "head_stride": head_stride, "BLOCK_SIZE": block_size,
    }  # fmt: skip


def _rows(tensor: Tensor) -> Tensor:
    """The kernels walk a token's heads as one row; slices of a fused projection already lie so."""
    head_dim = tensor.shape[2]
    return tensor if tensor.stride()[1:] == (head_dim, 1) else tensor.contiguous()


@triton.jit  # type: ignore[untyped-decorator]
def read_kv_kernel(  # type: ignore[no-untyped-def]
    output_ptr,  # [T, HEADS, D] contiguous
    cache_ptr,
    scale_ptr,  # or None
    slot_mapping_ptr,
    block_stride,
    slot_stride,
    head_stride,
    scale_block_stride,
    scale_slot_stride,
    BLOCK_SIZE: tl.constexpr,
    HEADS: tl.constexpr,
    HEADS_PADDED: tl.constexpr,
    HEAD_DIM: tl.constexpr,
    HEAD_DIM_PADDED: tl.constexpr,
    FORMAT: tl.constexpr,
):
    """One program a token, all of its heads. Negative slots are zeros."""
    token = tl.program_id(0).to(tl.int64)
    slot = tl.load(slot_mapping_ptr + token)
    block, within = slot // BLOCK_SIZE, slot % BLOCK_SIZE
    head = tl.arange(0, HEADS_PADDED)
    dim = tl.arange(0, HEAD_DIM_PADDED)
    inside = (head < HEADS)[:, None] & (dim < HEAD_DIM)[None, :]
    place = block * block_stride + within * slot_stride + head[:, None] * head_stride + dim[None, :]
    stored = tl.load(cache_ptr + place, mask=inside & (slot >= 0), other=0)
    numbers = decode(stored, FORMAT)
    if scale_ptr is not None:
        scale_place = block * scale_block_stride + within * scale_slot_stride + head
        scale = tl.load(scale_ptr + scale_place, mask=(head < HEADS) & (slot >= 0), other=0.0)
        numbers = numbers.to(tl.float32) * scale[:, None]
    tl.store(output_ptr + (token * HEADS + head[:, None]) * HEAD_DIM + dim[None, :], numbers, mask=inside)


def read_kv(layer: KVLayer, slot_mapping: Tensor) -> tuple[Tensor, Tensor]:
    """Launch the reads; arguments and result as `kernels.reference.read_kv`."""
    _, _, heads, head_dim = layer.key.shape
    dtype = torch.float32 if layer.layout.dtype in LARGEST else layer.layout.dtype
    key, value = (layer.key.new_empty((len(slot_mapping), heads, head_dim), dtype=dtype) for _ in range(2))
    if len(slot_mapping) > 0:
        for launch in read_launches(layer, slot_mapping, key, value):
            launch.run()
    return key, value


def read_launches(layer: KVLayer, slot_mapping: Tensor, key: Tensor, value: Tensor) -> list[Launch]:
    """One for K, one for V."""
    num_tokens, heads, head_dim = key.shape
    launches = []
    for output, cache, scale in ((key, layer.key, layer.key_scale), (value, layer.value, layer.value_scale)):
        arguments = {
            "output_ptr": output, "cache_ptr": as_bytes(cache), "scale_ptr": scale, "slot_mapping_ptr": slot_mapping,
            **_place(cache), "scale_block_stride": 0 if scale is None else scale.stride(0),
            "scale_slot_stride": 0 if scale is None or scale.shape[1] == 1 else scale.stride(1), "HEADS": heads,
            "HEADS_PADDED": power_of_two(heads), "HEAD_DIM": head_dim, "HEAD_DIM_PADDED": power_of_two(head_dim),
            "FORMAT": format_of(layer.layout.dtype),
        }  # fmt: skip
        launches.append(Launch(read_kv_kernel, (num_tokens,), arguments, EXACT))
    return launches


COPY_CHUNK = 1024


@triton.jit(do_not_specialize=["layer_stride", "block_stride"])  # type: ignore[untyped-decorator]
def copy_blocks_kernel(cache_ptr, pairs_ptr, layer_stride, block_stride, BLOCK: tl.constexpr, CHUNK: tl.constexpr):  # type: ignore[no-untyped-def]
    """One program a (pair, layer, chunk of a block's BLOCK elements), which lie side by side in every order."""
    pair = tl.program_id(0).to(tl.int64)
    first = tl.program_id(1).to(tl.int64) * layer_stride
    source = first + tl.load(pairs_ptr + pair * 2) * block_stride
    target = first + tl.load(pairs_ptr + pair * 2 + 1) * block_stride
    column = tl.program_id(2) * CHUNK + tl.arange(0, CHUNK)
    inside = column < BLOCK
    tl.store(cache_ptr + target + column, tl.load(cache_ptr + source + column, mask=inside, other=0), mask=inside)


def copy_blocks(pool: KVPool, pairs: Tensor) -> None:
    """Launch the copies: pairs [n, 2] int64 (source, target).

    Programs run in any order, so no block may be both a source and a target; `kernels.dispatch` has checked that.
    """
    for launch in copy_launches(pool, pairs):
        launch.run()


def copy_launches(pool: KVPool, pairs: Tensor) -> list[Launch]:
    """One for each of the pool's tensors."""
    launches = []
    for tensor in pool.tensors:
        block = tensor[0, 0].numel()
        arguments = {
            "cache_ptr": as_bytes(tensor), "pairs_ptr": pairs, "layer_stride": tensor.stride(0),
            "block_stride": tensor.stride(1), "BLOCK": block, "CHUNK": COPY_CHUNK,
        }  # fmt: skip
        launches.append(Launch(copy_blocks_kernel, (len(pairs), len(tensor), -(-block // COPY_CHUNK)), arguments))
    return launches

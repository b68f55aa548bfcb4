"""KV write and block copy in Triton. Needs the triton package (Linux); `kernels.dispatch` decides who serves."""

from __future__ import annotations

import triton
import triton.language as tl
from torch import Tensor


@triton.jit  # type: ignore[untyped-decorator]
def write_kv_kernel(  # type: ignore[no-untyped-def]
    key_ptr,
    value_ptr,
    key_cache_ptr,
    value_cache_ptr,
    slot_mapping_ptr,
    key_stride,
    value_stride,
    ROW: tl.constexpr,  # Hkv * D
    ROW_PADDED: tl.constexpr,  # next power of two
):
    """One program a token, all of its heads. Negative slots are skipped."""
    token = tl.program_id(0).to(tl.int64)
    slot = tl.load(slot_mapping_ptr + token)
    if slot >= 0:
        column = tl.arange(0, ROW_PADDED)
        inside = column < ROW
        key = tl.load(key_ptr + token * key_stride + column, mask=inside, other=0.0)
        value = tl.load(value_ptr + token * value_stride + column, mask=inside, other=0.0)
        tl.store(key_cache_ptr + slot * ROW + column, key, mask=inside)
        tl.store(value_cache_ptr + slot * ROW + column, value, mask=inside)


def write_kv(key: Tensor, value: Tensor, key_cache: Tensor, value_cache: Tensor, slot_mapping: Tensor) -> None:
    """Launch the write: key, value [T, Hkv, D] into contiguous caches [num_blocks, block_size, Hkv, D].

    Slots are not checked against the pool (that would stall the GPU); `kernels.dispatch` has checked the shapes.
    """
    num_tokens, num_heads, head_dim = key.shape
    if num_tokens == 0:
        return
    key, value = _rows(key), _rows(value)
    row = num_heads * head_dim
    write_kv_kernel[(num_tokens,)](
        key,
        value,
        key_cache,
        value_cache,
        slot_mapping,
        key.stride(0),
        value.stride(0),
        ROW=row,
        ROW_PADDED=triton.next_power_of_2(row),
    )


def _rows(tensor: Tensor) -> Tensor:
    """The kernel walks a token's heads as one row; slices of a fused projection already lie so."""
    head_dim = tensor.shape[2]
    return tensor if tensor.stride()[1:] == (head_dim, 1) else tensor.contiguous()


COPY_CHUNK = 1024


@triton.jit  # type: ignore[untyped-decorator]
def copy_blocks_kernel(  # type: ignore[no-untyped-def]
    key_cache_ptr,
    value_cache_ptr,
    pairs_ptr,
    num_blocks,
    BLOCK: tl.constexpr,  # block_size * Hkv * D
    CHUNK: tl.constexpr,
):
    """One program a (pair, layer, chunk of a block). Offsets are 64-bit: a real pool has more than 2^31 elements."""
    pair = tl.program_id(0).to(tl.int64)
    first = tl.program_id(1).to(tl.int64) * num_blocks
    source = first + tl.load(pairs_ptr + pair * 2)
    target = first + tl.load(pairs_ptr + pair * 2 + 1)
    column = tl.program_id(2) * CHUNK + tl.arange(0, CHUNK)
    inside = column < BLOCK
    key = tl.load(key_cache_ptr + source * BLOCK + column, mask=inside, other=0.0)
    value = tl.load(value_cache_ptr + source * BLOCK + column, mask=inside, other=0.0)
    tl.store(key_cache_ptr + target * BLOCK + column, key, mask=inside)
    tl.store(value_cache_ptr + target * BLOCK + column, value, mask=inside)


def copy_blocks(key_cache: Tensor, value_cache: Tensor, pairs: Tensor) -> None:
    """Launch the copy: contiguous caches [L, num_blocks, block_size, Hkv, D], pairs [n, 2] int64 (source, target).

    Programs run in any order, so no block may be both a source and a target; `kernels.dispatch` has checked that.
    """
    num_layers, num_blocks = key_cache.shape[:2]
    block = key_cache[0, 0].numel()
    grid = (pairs.shape[0], num_layers, triton.cdiv(block, COPY_CHUNK))
    copy_blocks_kernel[grid](key_cache, value_cache, pairs, num_blocks, BLOCK=block, CHUNK=COPY_CHUNK)

"""KV write by slot mapping, in Triton. Needs the triton package (Linux); `kernels.dispatch` decides who serves."""

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

"""The unified paged-attention kernel in Triton: prefill, chunks and decode in one launch.

Built like vLLM 0.33's `kernel_unified_attention`: a program takes BLOCK_Q query tokens of one request with all the
query heads that share one KV head, and walks the context in tiles that need not match the block size. Needs the triton
package (Linux); `kernels.dispatch` decides who serves.
"""

from __future__ import annotations

import triton
import triton.language as tl
from torch import Tensor

from kernels.metadata import AttentionMetadata

# A fixed tile, never chosen from the batch: a request's result then does not depend on its neighbours, to the bit.
TILE = 32
_MIN_BLOCK_M = 16  # smallest row count tensor cores take
# Fused multiply-add moves last bits and its default changes between Triton versions, so it is pinned.
_FP_FUSION = True


# These two change from step to step; specialising on them would recompile in the middle of a run.
@triton.jit(do_not_specialize=["num_seqs", "table_stride"])  # type: ignore[untyped-decorator]
def paged_attention_kernel(  # type: ignore[no-untyped-def]
    output_ptr,  # [T, Hq, D] contiguous
    query_ptr,  # [T, Hq, D]
    key_cache_ptr,  # [num_blocks, BLOCK_SIZE, NUM_KV_HEADS, HEAD_DIM] contiguous
    value_cache_ptr,
    block_table_ptr,  # [num_seqs, table_stride]
    seq_lens_ptr,
    query_start_loc_ptr,
    num_seqs,
    scale,
    query_stride_token,
    query_stride_head,
    table_stride,
    BLOCK_SIZE: tl.constexpr,
    NUM_KV_HEADS: tl.constexpr,
    GROUP: tl.constexpr,  # query heads per KV head
    HEAD_DIM: tl.constexpr,
    HEAD_DIM_PADDED: tl.constexpr,  # next power of two
    BLOCK_Q: tl.constexpr,  # query tokens per program
    BLOCK_M: tl.constexpr,  # rows per program, >= BLOCK_Q * GROUP
    TILE_SIZE: tl.constexpr,  # positions per step of the loop
    UPCAST: tl.constexpr,  # compute in float32 whatever is stored
):
    """Grid (T // BLOCK_Q + num_seqs, NUM_KV_HEADS): enough programs for any split of T; those left over return."""
    tile = tl.program_id(0)
    kv_head = tl.program_id(1)

    # Request r owns the tiles from query_start_loc[r] // BLOCK_Q + r on; find the last r that starts at or before us.
    low = 0
    high = num_seqs
    while low < high:
        middle = (low + high) // 2
        if tl.load(query_start_loc_ptr + middle) // BLOCK_Q + middle <= tile:
            low = middle + 1
        else:
            high = middle
    seq = low - 1

    query_start = tl.load(query_start_loc_ptr + seq)
    query_len = tl.load(query_start_loc_ptr + seq + 1) - query_start
    first_query = (tile - (query_start // BLOCK_Q + seq)) * BLOCK_Q
    if first_query >= query_len:
        return
    seq_len = tl.load(seq_lens_ptr + seq)
    context_len = seq_len - query_len

    row = tl.arange(0, BLOCK_M)
    dim = tl.arange(0, HEAD_DIM_PADDED)
    query_index = first_query + row // GROUP
    head = kv_head * GROUP + row % GROUP
    row_mask = (row < BLOCK_Q * GROUP) & (query_index < query_len)
    dim_mask = dim < HEAD_DIM
    token = (query_start + query_index).to(tl.int64)
    query_offset = token * query_stride_token + head * query_stride_head
    query_mask = row_mask[:, None] & dim_mask[None, :]
    query = tl.load(query_ptr + query_offset[:, None] + dim[None, :], mask=query_mask, other=0.0)
    if UPCAST:
        query = query.to(tl.float32)

    running_max = tl.full([BLOCK_M], float("-inf"), tl.float32)
    running_sum = tl.full([BLOCK_M], 0.0, tl.float32)
    accumulator = tl.full([BLOCK_M, HEAD_DIM_PADDED], 0.0, tl.float32)
    # Causality bounds the walk: nothing after the tile's last query row is read, so unwritten slots never are.
    reach = tl.minimum(seq_len, context_len + first_query + BLOCK_Q)
    table_row = block_table_ptr + tl.cast(seq, tl.int64) * table_stride
    for start in range(0, reach, TILE_SIZE):
        position = start + tl.arange(0, TILE_SIZE)
        valid = position < reach
        block = tl.load(table_row + position // BLOCK_SIZE, mask=valid, other=0).to(tl.int64)
        slot = block * BLOCK_SIZE + position % BLOCK_SIZE
        offset = (slot * NUM_KV_HEADS + kv_head) * HEAD_DIM
        # `other` matters: a masked lane is undefined on a GPU, and a weight of 0 times NaN is NaN.
        key = tl.load(
            key_cache_ptr + offset[None, :] + dim[:, None], mask=valid[None, :] & dim_mask[:, None], other=0.0
        )
        value = tl.load(
            value_cache_ptr + offset[:, None] + dim[None, :], mask=valid[:, None] & dim_mask[None, :], other=0.0
        )
        if UPCAST:
            key = key.to(tl.float32)
            value = value.to(tl.float32)

        scores = tl.dot(query, key, input_precision="ieee") * scale
        visible = valid[None, :] & (position[None, :] <= (context_len + query_index)[:, None])
        scores = tl.where(visible, scores, float("-inf"))
        new_max = tl.maximum(running_max, tl.max(scores, 1))
        # A row that has seen nothing yet has maximum -inf; -inf - -inf would be NaN.
        shift = tl.where(new_max == float("-inf"), 0.0, new_max)
        weights = tl.exp(scores - shift[:, None])
        decay = tl.exp(running_max - shift)
        running_sum = running_sum * decay + tl.sum(weights, 1)
        accumulator = accumulator * decay[:, None]
        accumulator += tl.dot(weights.to(value.dtype), value, input_precision="ieee")
        running_max = new_max

    result = accumulator / tl.where(running_sum > 0.0, running_sum, 1.0)[:, None]
    output_offset = (token * NUM_KV_HEADS * GROUP + head) * HEAD_DIM
    tl.store(output_ptr + output_offset[:, None] + dim[None, :], result, mask=query_mask)


def paged_attention(
    query: Tensor, key_cache: Tensor, value_cache: Tensor, meta: AttentionMetadata, scale: float
) -> Tensor:
    """Launch the kernel; arguments and result as `kernels.reference.paged_attention`.

    In Triton's interpreter (TRITON_INTERPRET=1 when this module was imported) it runs on CPU tensors.
    """
    if query.stride(2) != 1:
        query = query.contiguous()
    output = query.new_zeros(query.shape)
    num_tokens, num_heads, head_dim = query.shape
    num_kv_heads = key_cache.shape[2]
    if num_tokens == 0:
        return output
    block_q, block_m = tile_rows(num_heads // num_kv_heads)
    paged_attention_kernel[(num_tokens // block_q + meta.num_seqs, num_kv_heads)](
        output,
        query,
        key_cache,
        value_cache,
        meta.block_table,
        meta.seq_lens,
        meta.query_start_loc,
        meta.num_seqs,
        scale,
        query.stride(0),
        query.stride(1),
        meta.block_table.stride(0),
        BLOCK_SIZE=meta.block_size,
        NUM_KV_HEADS=num_kv_heads,
        GROUP=num_heads // num_kv_heads,
        HEAD_DIM=head_dim,
        HEAD_DIM_PADDED=max(16, triton.next_power_of_2(head_dim)),
        BLOCK_Q=block_q,
        BLOCK_M=block_m,
        TILE_SIZE=TILE,
        # The interpreter's dot multiplies the bit patterns of bf16 operands (triton#11585).
        UPCAST=bool(triton.knobs.runtime.interpret),
        enable_fp_fusion=_FP_FUSION,
    )
    return output


def tile_rows(group: int) -> tuple[int, int]:
    """(BLOCK_Q, BLOCK_M) for `group` query heads per KV head: whole query tokens, in a power of two of rows."""
    block_m = max(_MIN_BLOCK_M, triton.next_power_of_2(group))
    return block_m // group, block_m

"""The unified paged-attention kernel in Triton: prefill, chunks, decode and verification in one launch.

Built like vLLM 0.33's `kernel_unified_attention` and `reduce_segments`: a program takes BLOCK_Q query tokens of one
request with all the query heads that share one KV head, and walks the context in tiles that need not match the block
size. Needs the triton package (Linux); `kernels.dispatch` decides who serves.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

from kernels.formats import as_bytes, decode, format_of
from kernels.launch import Launch
from kernels.layout import KVLayer
from kernels.metadata import AttentionMetadata, ScoreRule
from kernels.recorder import RecordBuffers
from kernels.tiling import Shape, Tiling, rows_per_program, tiling

# Fused multiply-add moves last bits and its default changes between Triton versions, so it is pinned.
FP_FUSION = True
WINDOW, PREFIX, TREE = tl.constexpr(1), tl.constexpr(2), tl.constexpr(3)  # `metadata.MaskKind`


# These change from step to step; specialising on them would recompile in the middle of a run.
@triton.jit(do_not_specialize=["num_seqs", "table_stride", "split_stride", "record_width"])  # type: ignore[untyped-decorator]
def paged_attention_kernel(  # type: ignore[no-untyped-def]
    output_ptr,  # [T, Hq, D] contiguous; with splits [splits, T, Hq, D] float32
    lse_ptr,  # [T, Hq], [splits, T, Hq] or None
    query_ptr,  # [T, Hq, D]
    key_cache_ptr,  # [num_blocks, BLOCK_SIZE, NUM_KV_HEADS, HEAD_DIM] by the strides below
    value_cache_ptr,
    key_scale_ptr,  # [num_blocks, BLOCK_SIZE or 1, NUM_KV_HEADS] or None
    value_scale_ptr,
    block_table_ptr,  # [num_seqs, table_stride]
    seq_lens_ptr,
    query_start_loc_ptr,
    mask_kind_ptr,  # [num_seqs] or None: all rows causal
    mask_size_ptr,
    branch_ptr,  # [T]
    alibi_ptr,  # [Hq] or None
    num_seqs,
    scale,
    soft_cap,  # or None
    query_stride_token,
    query_stride_head,
    block_stride,
    slot_stride,
    head_stride,
    scale_block_stride,
    scale_slot_stride,  # 0: one scale a block
    table_stride,
    split_stride,  # T * Hq
    record_block_ptr,  # `recorder.RecordBuffers`; all five None unless RECORD
    record_lanes_ptr,
    record_max_ptr,
    record_sum_ptr,
    record_width,
    BLOCK_SIZE: tl.constexpr,
    NUM_KV_HEADS: tl.constexpr,
    GROUP: tl.constexpr,  # query heads per KV head
    HEAD_DIM: tl.constexpr,
    HEAD_DIM_PADDED: tl.constexpr,  # next power of two
    BLOCK_Q: tl.constexpr,  # query tokens per program
    BLOCK_M: tl.constexpr,  # rows per program, >= BLOCK_Q * GROUP
    TILE_SIZE: tl.constexpr,  # positions per turn of the loop
    SPLIT: tl.constexpr,  # positions per program, 0 = all
    FORMAT: tl.constexpr,  # `formats.format_of` the cache
    UPCAST: tl.constexpr,  # compute in float32 whatever is stored
    RECORD: tl.constexpr,  # write down what is visited; off, not a trace of it is compiled
):
    """Grid (T // BLOCK_Q + num_seqs, NUM_KV_HEADS, splits): enough for any cut of T; programs left over return."""
    tile = tl.program_id(0)
    kv_head = tl.program_id(1)
    split = tl.program_id(2)

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
    if SPLIT > 0 and split * SPLIT >= seq_len:
        return  # `reduce_splits_kernel` does not look here
    context_len = seq_len - query_len

    row = tl.arange(0, BLOCK_M)
    dim = tl.arange(0, HEAD_DIM_PADDED)
    query_index = first_query + row // GROUP
    query_position = context_len + query_index
    head = kv_head * GROUP + row % GROUP
    row_mask = (row < BLOCK_Q * GROUP) & (query_index < query_len)
    dim_mask = dim < HEAD_DIM
    token = (query_start + query_index).to(tl.int64)
    query_offset = token * query_stride_token + head * query_stride_head
    query_mask = row_mask[:, None] & dim_mask[None, :]
    query = tl.load(query_ptr + query_offset[:, None] + dim[None, :], mask=query_mask, other=0.0)
    if UPCAST:
        query = query.to(tl.float32)
    if alibi_ptr is not None:
        slope = tl.load(alibi_ptr + head, mask=row_mask, other=0.0)

    # The walk covers what some row of the tile may see and nothing else: what was not written is never read.
    first = 0
    reach = tl.minimum(seq_len, context_len + first_query + BLOCK_Q)
    if mask_kind_ptr is not None:
        kind = tl.load(mask_kind_ptr + seq)
        size = tl.load(mask_size_ptr + seq)
        branch = tl.load(branch_ptr + token, mask=row_mask, other=0)
        first = tl.where(kind == WINDOW, tl.maximum(0, context_len + first_query - size + 1), 0)
        reach = tl.where(kind == PREFIX, tl.maximum(reach, tl.minimum(size, seq_len)), reach)
        reach = tl.where(kind == TREE, seq_len, reach)
    begin = first // TILE_SIZE * TILE_SIZE
    end = reach
    if SPLIT > 0:
        begin = tl.maximum(begin, split * SPLIT)
        end = tl.minimum(end, (split + 1) * SPLIT)

    running_max = tl.full([BLOCK_M], float("-inf"), tl.float32)
    running_sum = tl.full([BLOCK_M], 0.0, tl.float32)
    accumulator = tl.full([BLOCK_M, HEAD_DIM_PADDED], 0.0, tl.float32)
    if RECORD:
        program = (tile * NUM_KV_HEADS + kv_head) * tl.num_programs(2) + split
        record_row = program.to(tl.int64) * record_width
        record_lanes = 0
    table_row = block_table_ptr + tl.cast(seq, tl.int64) * table_stride
    for start in range(begin, end, TILE_SIZE):
        position = start + tl.arange(0, TILE_SIZE)
        valid = (position >= first) & (position < end)
        block = tl.load(table_row + position // BLOCK_SIZE, mask=valid, other=0).to(tl.int64)
        slot = position % BLOCK_SIZE
        offset = block * block_stride + slot * slot_stride + kv_head * head_stride
        # `other` matters: a masked lane is undefined on a GPU, and a weight of 0 times NaN is NaN.
        key = tl.load(key_cache_ptr + offset[None, :] + dim[:, None], mask=valid[None, :] & dim_mask[:, None], other=0)
        value = tl.load(
            value_cache_ptr + offset[:, None] + dim[None, :], mask=valid[:, None] & dim_mask[None, :], other=0
        )
        key = decode(key, FORMAT).to(query.dtype)
        value = decode(value, FORMAT).to(query.dtype)

        scores = tl.dot(query, key, input_precision="ieee") * scale
        if key_scale_ptr is not None:
            scale_offset = block * scale_block_stride + slot * scale_slot_stride + kv_head
            scores *= tl.load(key_scale_ptr + scale_offset, mask=valid, other=0.0)[None, :]
        if soft_cap is not None:
            # tanh, written so that no exponential overflows into NaN
            scores = soft_cap * (1.0 - 2.0 / (tl.exp(2.0 * scores / soft_cap) + 1.0))
        distance = position[None, :] - query_position[:, None]
        if alibi_ptr is not None:
            scores += slope[:, None] * distance
        visible = distance <= 0
        if mask_kind_ptr is not None:
            visible = visible & ((kind != WINDOW) | (distance > -size))
            visible = visible | ((kind == PREFIX) & (position < size)[None, :])
            new = tl.maximum(position - context_len, 0)
            own = ((branch[:, None] >> new[None, :].to(tl.int64)) & 1) != 0
            visible = tl.where(kind == TREE, own | (position < context_len)[None, :], visible)
        scores = tl.where(visible & valid[None, :], scores, float("-inf"))
        if RECORD:
            # After each block, however blocks and tiles overlap; a block of several tiles is overwritten by the last.
            stop = tl.minimum(start + TILE_SIZE, end)
            for logical in range(tl.maximum(start, first) // BLOCK_SIZE, (stop + BLOCK_SIZE - 1) // BLOCK_SIZE):
                inside = valid & (position // BLOCK_SIZE == logical)
                before = tl.where(logical * BLOCK_SIZE < start, record_lanes, 0)
                record_lanes = before + tl.sum(inside.to(tl.int32), 0)
                so_far = tl.where((position < (logical + 1) * BLOCK_SIZE)[None, :], scores, float("-inf"))
                block_max = tl.maximum(running_max, tl.max(so_far, 1))
                block_shift = tl.where(block_max == float("-inf"), 0.0, block_max)
                block_sum = running_sum * tl.exp(running_max - block_shift)
                block_sum += tl.sum(tl.exp(so_far - block_shift[:, None]), 1)
                visit = record_row + logical
                tl.store(record_block_ptr + visit, tl.max(tl.where(inside, block, -1), 0))
                tl.store(record_lanes_ptr + visit, record_lanes)
                tl.store(record_max_ptr + visit * BLOCK_M + row, block_max)
                tl.store(record_sum_ptr + visit * BLOCK_M + row, block_sum)
        new_max = tl.maximum(running_max, tl.max(scores, 1))
        # A row that has seen nothing yet has maximum -inf; -inf - -inf would be NaN.
        shift = tl.where(new_max == float("-inf"), 0.0, new_max)
        weights = tl.exp(scores - shift[:, None])
        decay = tl.exp(running_max - shift)
        running_sum = running_sum * decay + tl.sum(weights, 1)
        if value_scale_ptr is not None:
            weights *= tl.load(value_scale_ptr + scale_offset, mask=valid, other=0.0)[None, :]
        accumulator = accumulator * decay[:, None]
        accumulator += tl.dot(weights.to(value.dtype), value, input_precision="ieee")
        running_max = new_max

    seen = running_sum > 0.0
    place = token * (NUM_KV_HEADS * GROUP) + head
    if SPLIT > 0:
        place += tl.cast(split, tl.int64) * split_stride
    result = accumulator / tl.where(seen, running_sum, 1.0)[:, None]
    tl.store(output_ptr + place[:, None] * HEAD_DIM + dim[None, :], result, mask=query_mask)
    if lse_ptr is not None:
        lse = tl.where(seen, running_max + tl.log(tl.where(seen, running_sum, 1.0)), float("-inf"))
        tl.store(lse_ptr + place, lse, mask=row_mask)


@triton.jit(do_not_specialize=["split_stride"])  # type: ignore[untyped-decorator]
def reduce_splits_kernel(  # type: ignore[no-untyped-def]
    output_ptr,  # [T, Hq, D] contiguous
    lse_ptr,  # [T, Hq] or None
    partial_ptr,  # [splits, T, Hq, D] float32
    partial_lse_ptr,  # [splits, T, Hq]
    seq_lens_ptr,
    query_start_loc_ptr,
    split_stride,  # T * Hq
    NUM_HEADS: tl.constexpr,
    HEAD_DIM: tl.constexpr,
    HEAD_DIM_PADDED: tl.constexpr,
    SPLIT: tl.constexpr,
):
    """One program a (request, query head): each split counts by its exponential of sums (Flash-Decoding)."""
    seq = tl.program_id(0)
    token = tl.load(query_start_loc_ptr + seq)
    if token == tl.load(query_start_loc_ptr + seq + 1):
        return
    dim = tl.arange(0, HEAD_DIM_PADDED)
    dim_mask = dim < HEAD_DIM
    place = token.to(tl.int64) * NUM_HEADS + tl.program_id(1)
    running_max = float("-inf")
    running_sum = 0.0
    accumulator = tl.full([HEAD_DIM_PADDED], 0.0, tl.float32)
    for split in range((tl.load(seq_lens_ptr + seq) + SPLIT - 1) // SPLIT):
        source = place + tl.cast(split, tl.int64) * split_stride
        lse = tl.load(partial_lse_ptr + source)
        partial = tl.load(partial_ptr + source * HEAD_DIM + dim, mask=dim_mask, other=0.0)
        new_max = tl.maximum(running_max, lse)
        shift = tl.where(new_max == float("-inf"), 0.0, new_max)
        decay = tl.exp(running_max - shift)
        weight = tl.exp(lse - shift)
        accumulator = accumulator * decay + partial * weight
        running_sum = running_sum * decay + weight
        running_max = new_max
    total = tl.where(running_sum > 0.0, running_sum, 1.0)
    tl.store(output_ptr + place * HEAD_DIM + dim, accumulator / total, mask=dim_mask)
    if lse_ptr is not None:
        tl.store(lse_ptr + place, running_max + tl.log(total))


def paged_attention(
    query: Tensor,
    layer: KVLayer,
    meta: AttentionMetadata,
    rule: ScoreRule,
    lse: Tensor | None = None,
    chosen: Tiling | None = None,
    record: RecordBuffers | None = None,
) -> Tensor:
    """Launch the kernel; arguments and result as `kernels.reference.paged_attention`. `recorder.record` has `record`.

    In Triton's interpreter (TRITON_INTERPRET=1 when this module was imported) it runs on CPU tensors.
    """
    if query.stride(2) != 1:
        query = query.contiguous()
    output = query.new_zeros(query.shape)
    if lse is not None:
        lse.fill_(float("-inf"))
    if query.shape[0] > 0:
        for launch in launches(query, layer, meta, rule, output, lse, chosen, record):
            launch.run()
    return output


def launches(
    query: Tensor,
    layer: KVLayer,
    meta: AttentionMetadata,
    rule: ScoreRule,
    output: Tensor,
    lse: Tensor | None = None,
    chosen: Tiling | None = None,
    record: RecordBuffers | None = None,
) -> list[Launch]:
    """The launches that fill `output`, in order; the first also fills `record` if there is one.

    Two where every row is decode and the context is longer than `Tiling.split`: the walk in splits, then their sum.
    """
    num_tokens, num_heads, head_dim = query.shape
    num_kv_heads = layer.layout.num_kv_heads
    shape = Shape(num_heads // num_kv_heads, head_dim, query.dtype)
    use = chosen or tiling(shape)
    splits = -(-meta.max_seq_len // use.split) if meta.is_decode else 1
    target, target_lse = output, lse
    if splits > 1:
        target = query.new_empty((splits, *query.shape), dtype=torch.float32)
        target_lse = target.new_empty(target.shape[:3])
    block_q, block_m = rows_per_program(shape.group)
    masks, key_scale = meta.masks, layer.key_scale
    block_stride, slot_stride, head_stride = layer.key.stride()[:3]
    rows = {"seq_lens_ptr": meta.seq_lens, "query_start_loc_ptr": meta.query_start_loc}
    dims = {"HEAD_DIM": head_dim, "HEAD_DIM_PADDED": shape.padded_dim}
    walk = Launch(
        paged_attention_kernel,
        (num_tokens // block_q + meta.num_seqs, num_kv_heads, splits),
        {
            "output_ptr": target,
            "lse_ptr": target_lse,
            "query_ptr": query,
            "key_cache_ptr": as_bytes(layer.key),
            "value_cache_ptr": as_bytes(layer.value),
            "key_scale_ptr": key_scale,
            "value_scale_ptr": layer.value_scale,
            "block_table_ptr": meta.block_table,
            **rows,
            "mask_kind_ptr": None if masks is None else masks.kind,
            "mask_size_ptr": None if masks is None else masks.size,
            "branch_ptr": None if masks is None else masks.branch,
            "alibi_ptr": rule.alibi_slopes,
            "num_seqs": meta.num_seqs,
            "scale": rule.scale,
            "soft_cap": rule.soft_cap,
            "query_stride_token": query.stride(0),
            "query_stride_head": query.stride(1),
            "block_stride": block_stride,
            "slot_stride": slot_stride,
            "head_stride": head_stride,
            "scale_block_stride": 0 if key_scale is None else key_scale.stride(0),
            "scale_slot_stride": 0 if key_scale is None or key_scale.shape[1] == 1 else key_scale.stride(1),
            "table_stride": meta.block_table.stride(0),
            "split_stride": num_tokens * num_heads,
            "record_block_ptr": None if record is None else record.block,
            "record_lanes_ptr": None if record is None else record.lanes,
            "record_max_ptr": None if record is None else record.running_max,
            "record_sum_ptr": None if record is None else record.running_sum,
            "record_width": None if record is None else record.block.shape[3],
            "BLOCK_SIZE": meta.block_size,
            "NUM_KV_HEADS": num_kv_heads,
            "GROUP": shape.group,
            **dims,
            "BLOCK_Q": block_q,
            "BLOCK_M": block_m,
            "TILE_SIZE": use.tile,
            "SPLIT": use.split if splits > 1 else 0,
            "FORMAT": format_of(layer.layout.dtype),
            # The interpreter's dot multiplies the bit patterns of bf16 operands (triton#11585).
            "UPCAST": bool(triton.knobs.runtime.interpret),
            "RECORD": record is not None,
        },
        {"num_warps": use.num_warps, "num_stages": use.num_stages, "enable_fp_fusion": FP_FUSION},
    )
    if splits == 1:
        return [walk]
    add = Launch(
        reduce_splits_kernel,
        (meta.num_seqs, num_heads),
        {
            "output_ptr": output,
            "lse_ptr": lse,
            "partial_ptr": target,
            "partial_lse_ptr": target_lse,
            **rows,
            "split_stride": num_tokens * num_heads,
            "NUM_HEADS": num_heads,
            **dims,
            "SPLIT": use.split,
        },
        {"enable_fp_fusion": FP_FUSION},
    )
    return [walk, add]

"""The torch twin of each kernel: plain, always available, and the live path on a CPU."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional

from kernels.batch_plan import BatchPlan, DecodeGroup, plan_batch, rows_of, visible
from kernels.layout import LARGEST, CacheLayout, KVLayer, KVPool, Scales
from kernels.metadata import AttentionMetadata, ScoreRule


def write_kv(key: Tensor, value: Tensor, layer: KVLayer, slot_mapping: Tensor) -> None:
    """Put each new token's K and V into its slot; negative slots are skipped.

    key, value [T, Hkv, D]; `layer` is changed in place; slot_mapping [T] int64. Raises IndexError for a slot beyond
    the pool. Does what vLLM's `reshape_and_cache_flash` does. With a scale per block, the slots before the first one
    written must hold this sequence's tokens: they are rounded again when the scale grows.
    """
    if len(slot_mapping) and int(slot_mapping.min()) < 0:
        written = slot_mapping >= 0
        key, value, slot_mapping = key[written], value[written], slot_mapping[written]
    for new, cache, scale in ((key, layer.key, layer.key_scale), (value, layer.value, layer.value_scale)):
        if layer.layout.scales is Scales.BLOCK:
            assert scale is not None
            block_size = layer.layout.block_size
            _write_with_block_scale(new, cache, scale, slot_mapping // block_size, slot_mapping % block_size)
            continue
        own = None
        if scale is not None:
            own = largest(new) / LARGEST[cache.dtype]
            _put(scale, slot_mapping, own)
        _put(cache, slot_mapping, to_stored(new, own, cache.dtype))


def _put(cache: Tensor, slots: Tensor, rows: Tensor) -> None:
    """cache [blocks, block_size, ...] at these slots becomes `rows`."""
    flat = _by_slot(cache)
    if flat is not None and cache.dtype == torch.float8_e4m3fn:
        flat.view(torch.uint8).index_copy_(0, slots, rows.view(torch.uint8))  # torch copies no fp8 rows, but any bytes
    elif flat is not None:
        flat.index_copy_(0, slots, rows)
    else:
        cache[slots // cache.shape[1], slots % cache.shape[1]] = rows


def _take(cache: Tensor, slots: Tensor) -> Tensor:
    """Rows [len(slots), ...] of a cache [blocks, block_size, ...]."""
    flat = _by_slot(cache)
    if flat is not None:
        return flat.index_select(0, slots)
    return cache[slots // cache.shape[1], slots % cache.shape[1]]


def _by_slot(cache: Tensor) -> Tensor | None:
    """A view [blocks * block_size, ...], where the order of the axes allows one: whole rows are then copied at once."""
    return cache.flatten(0, 1) if cache.is_contiguous() else None


def _write_with_block_scale(new: Tensor, cache: Tensor, scale: Tensor, block: Tensor, slot: Tensor) -> None:
    blocks, which = torch.unique(block, return_inverse=True)
    first = torch.full_like(blocks, cache.shape[1]).scatter_reduce(0, which, slot, "amin")
    # A block written from its first slot on is a new one: what its last owner left does not count.
    old = torch.where(first[:, None] > 0, scale[blocks, 0], 0.0)
    wanted = largest(new) / LARGEST[cache.dtype]
    grown = old.scatter_reduce(0, which[:, None].expand_as(wanted), wanted, "amax")
    earlier = (torch.arange(cache.shape[1], device=slot.device) < first[:, None])[..., None, None]
    stored = cache[blocks]
    again = to_stored(from_stored(stored, old[:, None]), grown[:, None], cache.dtype)
    cache[blocks] = torch.where(earlier & (grown > old)[:, None, :, None], again, stored)
    scale[blocks, 0] = grown
    cache[block, slot] = to_stored(new, grown[which], cache.dtype)


def largest(numbers: Tensor) -> Tensor:
    """Largest magnitude along the last axis, float32."""
    return numbers.float().abs().amax(-1)


def to_stored(numbers: Tensor, scale: Tensor | None, dtype: torch.dtype) -> Tensor:
    """What the cache keeps of `numbers` [..., D] under `scale` [...]: rounded to nearest, ties to even, saturating."""
    if dtype not in LARGEST:
        return numbers.to(dtype)
    numbers = numbers.float()
    if scale is not None:
        numbers = numbers / torch.where(scale > 0, scale, 1.0)[..., None]
    numbers = numbers.clamp(-LARGEST[dtype], LARGEST[dtype])
    return numbers.round().to(dtype) if dtype == torch.int8 else numbers.to(dtype)


def from_stored(stored: Tensor, scale: Tensor | None) -> Tensor:
    """The numbers a cache tensor [..., D] stands for: as they lie, or float32 where they are quantised."""
    if stored.dtype not in LARGEST:
        return stored
    numbers = stored.float()
    return numbers if scale is None else numbers * scale[..., None]


def round_trip(rows: Tensor, layout: CacheLayout) -> Tensor:
    """`rows` [T, Hkv, D] as a cache of this layout gives them back, in their own dtype.

    Raises ValueError for a scale per block: there a row's rounding depends on its neighbours.
    """
    if layout.scales is Scales.BLOCK:
        raise ValueError("a row alone does not decide how a block-scaled cache rounds it")
    scale = largest(rows) / LARGEST[layout.dtype] if layout.scales is Scales.TOKEN_HEAD else None
    return from_stored(to_stored(rows, scale, layout.dtype), scale).to(rows.dtype)


def read_kv(layer: KVLayer, slot_mapping: Tensor) -> tuple[Tensor, Tensor]:
    """K and V [T, Hkv, D] of these slots, contiguous; float32 where the cache is quantised. Negative slots are zeros.

    The other half of a hand-over: `write_kv` puts them into a pool of any other layout.
    """
    block_size = layer.layout.block_size
    block, slot = slot_mapping.clamp(min=0) // block_size, slot_mapping.clamp(min=0) % block_size
    hole = (slot_mapping < 0)[:, None, None]
    results = []
    for cache, scale in ((layer.key, layer.key_scale), (layer.value, layer.value_scale)):
        own = None if scale is None else scale[block, slot if scale.shape[1] > 1 else 0]
        results.append(from_stored(cache[block, slot], own).masked_fill(hole, 0.0))
    return results[0], results[1]


def copy_blocks(pool: KVPool, pairs: Tensor) -> None:
    """Copy whole blocks in every layer, K and V: the block copy of copy-on-write (PagedAttention paper, §4.4 and §5.1).

    pairs [n, 2] int64 (source, target), where no block is both; the pool is changed in place.
    """
    sources, targets = pairs.unbind(dim=1)
    for tensor in pool.tensors:
        tensor[:, targets] = tensor[:, sources]


def gather_kv(cache: Tensor, scale: Tensor | None, block_ids: Tensor, start: int, stop: int) -> Tensor:
    """Positions start to stop of one sequence as contiguous rows [stop - start, Hkv, D]; see `from_stored`.

    cache [num_blocks, block_size, Hkv, D]; block_ids [n] int, in logical order, n * block_size >= stop. Blocks outside
    are not touched. The unwritten end of the last block is cut off, not masked: what lies there may be NaN, and a
    weight of 0 times NaN is NaN.
    """
    block_size = cache.shape[1]
    first, end = start // block_size, -(-stop // block_size)
    ids = block_ids[first:end]
    rows = from_stored(cache.index_select(0, ids), None if scale is None else scale.index_select(0, ids))
    return rows.flatten(0, 1)[start - first * block_size : stop - first * block_size]


def paged_attention(
    query: Tensor,
    layer: KVLayer,
    meta: AttentionMetadata,
    rule: ScoreRule,
    lse: Tensor | None = None,
    plan: BatchPlan | None = None,
) -> Tensor:
    """Grouped-query attention of one ragged batch over the paged cache. `plan`: `plan_batch(meta)`, if it is at hand.

    query [T, Hq, D]; returns [T, Hq, D] in the query's dtype. Row i of a request sits at position
    `seq_len - query_len + i` and sees what its mask allows; query head h reads KV head `h // (Hq // Hkv)`. Rows with
    nothing to attend to (`seq_len` 0) are zeros. `lse` float32 [T, Hq], if given, is filled with each row's
    log-sum-exp of its scores (-inf where there are none).
    """
    if lse is not None or rule.soft_cap is not None or rule.alibi_slopes is not None:
        return _attend_by_rule(query, layer, meta, rule, lse)
    plan = plan_batch(meta) if plan is None else plan
    if len(plan.groups) == 1 and plan.groups[0].tokens is None:
        return _attend_group(query, layer, plan.groups[0], rule.scale)
    output = torch.zeros_like(query)
    for group in plan.groups:
        assert group.tokens is not None
        output.index_copy_(0, group.tokens, _attend_group(query[group.tokens], layer, group, rule.scale))
    for row in plan.long_rows:
        key, value = _gather(layer, row.slots)
        output[row.start : row.end] = _attend(query[row.start : row.end], key, value, row.bias, rule.scale)
    return output


def _gather(layer: KVLayer, slots: Tensor) -> tuple[Tensor, Tensor]:
    """K and V [len(slots), Hkv, D]; see `from_stored`."""
    key, value = (
        from_stored(_take(cache, slots), None if scale is None else _scale_at(scale, slots, layer.layout.block_size))
        for cache, scale in ((layer.key, layer.key_scale), (layer.value, layer.value_scale))
    )
    return key, value


def _scale_at(scale: Tensor, slots: Tensor, block_size: int) -> Tensor:
    return _take(scale, slots) if scale.shape[1] > 1 else scale[slots // block_size, 0]


def _attend_group(query: Tensor, layer: KVLayer, group: DecodeGroup, scale: float) -> Tensor:
    """query [n, Hq, D], one token a row. The query heads that share a KV head are that head's query rows."""
    heads, head_dim = layer.layout.num_kv_heads, layer.layout.head_dim
    compute = _compute_dtype(query)
    k, v = (
        rows.to(compute).view(group.rows, -1, heads, head_dim).transpose(1, 2) for rows in _gather(layer, group.slots)
    )
    q = query.to(compute).reshape(group.rows, heads, -1, head_dim)
    bias = None if group.bias is None else group.bias.to(compute)
    out = functional.scaled_dot_product_attention(q, k, v, attn_mask=bias, scale=scale)
    return out.reshape(query.shape).to(query.dtype)


def _attend(query: Tensor, key: Tensor, value: Tensor, bias: Tensor | None, scale: float) -> Tensor:
    """One row of several tokens; without a bias it is causal from its first position on."""
    compute = _compute_dtype(query)
    q, k, v = (x.to(compute).transpose(0, 1).unsqueeze(0) for x in (query, key, value))
    out = functional.scaled_dot_product_attention(
        q, k, v, attn_mask=None if bias is None else bias.to(compute), is_causal=bias is None, scale=scale,
        enable_gqa=True,
    )  # fmt: skip
    return out.squeeze(0).transpose(0, 1).to(query.dtype)


def _attend_by_rule(
    query: Tensor, layer: KVLayer, meta: AttentionMetadata, rule: ScoreRule, lse: Tensor | None
) -> Tensor:
    """Row by row and step by step, with whatever a rule asks for."""
    output = torch.zeros_like(query)
    if lse is not None:
        lse.fill_(float("-inf"))
    for row in rows_of(meta):
        blocks, rows = meta.block_table[row.index], slice(row.start, row.end)
        key = gather_kv(layer.key, layer.key_scale, blocks, row.first, row.seq_len)
        value = gather_kv(layer.value, layer.value_scale, blocks, row.first, row.seq_len)
        output[rows], sums = _attend_row_by_rule(query[rows], key, value, *visible(meta, row), rule)
        if lse is not None:
            lse[rows] = sums
    return output


def _attend_row_by_rule(
    query: Tensor, key: Tensor, value: Tensor, visible: Tensor | None, distance: Tensor, rule: ScoreRule
) -> tuple[Tensor, Tensor]:
    """(output [Tq, Hq, D], log-sum-exp [Tq, Hq]), step by step."""
    compute = _compute_dtype(query)
    ratio = query.shape[1] // key.shape[1]
    keys, values = (x.to(compute).repeat_interleave(ratio, dim=1) for x in (key, value))
    scores = torch.einsum("qhd,shd->hqs", query.to(compute), keys) * rule.scale
    if rule.soft_cap is not None:
        scores = rule.soft_cap * torch.tanh(scores / rule.soft_cap)
    if rule.alibi_slopes is not None:
        scores = scores + rule.alibi_slopes[:, None, None] * distance
    if visible is not None:
        scores = scores.masked_fill(~visible, float("-inf"))
    sums = torch.logsumexp(scores, dim=-1)
    output = torch.einsum("hqs,shd->qhd", torch.exp(scores - sums[..., None]), values)
    return output.to(query.dtype), sums.transpose(0, 1)


def dense_attention(query: Tensor, key: Tensor, value: Tensor, scale: float) -> Tensor:
    """The oracle: textbook attention of one sequence over contiguous K and V, sharing no code path with the kernels.

    query [Tq, Hq, D], the last Tq of S positions; key, value [S, Hkv, D]. Returns [Tq, Hq, D] in the dtype it computes
    in: float64 for float64 input, else float32.
    """
    weights = _softmax_weights(query, key, scale)
    ratio = query.shape[1] // key.shape[1]
    values = value.to(weights.dtype).repeat_interleave(ratio, dim=1)
    return torch.einsum("hqs,shd->qhd", weights, values)


def attention_mass(query_row: Tensor, key: Tensor, scale: float, block_size: int) -> Tensor:
    """Where one query row looks: its softmax weight, summed over each block.

    query_row [Hq, D], the row at the last position; key [S, Hkv, D] (see `gather_kv`), S >= 1.
    Returns float32 [Hq, ceil(S / block_size)]; each row sums to 1.
    """
    weights = _softmax_weights(query_row.unsqueeze(0), key, scale)[:, 0]
    padded = functional.pad(weights, (0, -weights.shape[1] % block_size))
    return padded.reshape(weights.shape[0], -1, block_size).sum(dim=2).float()


def _softmax_weights(query: Tensor, key: Tensor, scale: float) -> Tensor:
    """Weights [Hq, Tq, S] of causal attention, computed step by step."""
    compute = _compute_dtype(query)
    keys = key.to(compute).repeat_interleave(query.shape[1] // key.shape[1], dim=1)
    scores = torch.einsum("qhd,shd->hqs", query.to(compute), keys) * scale
    scores = scores.masked_fill(~_causal_mask(query.shape[0], key.shape[0], query.device), float("-inf"))
    return torch.softmax(scores, dim=-1)


def _compute_dtype(tensor: Tensor) -> torch.dtype:
    # Half types are stored, never computed in: bf16 arithmetic flips argmaxes and is slower on a CPU.
    return torch.float64 if tensor.dtype == torch.float64 else torch.float32


def _causal_mask(query_len: int, seq_len: int, device: torch.device) -> Tensor:
    """Bool [query_len, seq_len]: may query row i, at position seq_len - query_len + i, read position j?"""
    positions = torch.arange(seq_len - query_len, seq_len, device=device)
    return torch.arange(seq_len, device=device) <= positions[:, None]

"""The torch twin of each kernel: plain, always available, and the live path on a CPU."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional

from kernels.metadata import AttentionMetadata


def write_kv(key: Tensor, value: Tensor, key_cache: Tensor, value_cache: Tensor, slot_mapping: Tensor) -> None:
    """Put each new token's K and V into its slot; negative slots are skipped.

    key, value [T, Hkv, D]; caches [num_blocks, block_size, Hkv, D], changed in place; slot_mapping [T] int64.
    Raises IndexError for a slot beyond the pool. Does what vLLM's `reshape_and_cache_flash` does.
    """
    written = slot_mapping >= 0
    if not bool(written.all()):
        key, value, slot_mapping = key[written], value[written], slot_mapping[written]
    key_cache.view(-1, *key_cache.shape[2:])[slot_mapping] = key
    value_cache.view(-1, *value_cache.shape[2:])[slot_mapping] = value


def swap_blocks(source: Tensor, target: Tensor, source_ids: Tensor, target_ids: Tensor) -> None:
    """Copy whole blocks between two caches, on one device or across: vLLM V0's `swap_blocks`.

    Caches [layers, blocks, block_size, Hkv, D], `target` changed in place; ids [n] int64, each on its cache's device.
    """
    target.index_copy_(1, target_ids, source.index_select(1, source_ids).to(target.device))


def copy_blocks(key_cache: Tensor, value_cache: Tensor, pairs: Tensor) -> None:
    """Copy whole blocks in every layer, K and V: the block copy of copy-on-write (PagedAttention paper, §4.4 and §5.1).

    caches [L, num_blocks, block_size, Hkv, D], changed in place; pairs [n, 2] int64 (source, target), where no block
    is both.
    """
    sources, targets = pairs.unbind(dim=1)
    for cache in (key_cache, value_cache):
        cache[:, targets] = cache[:, sources]


def gather_kv(cache: Tensor, block_ids: Tensor, length: int) -> Tensor:
    """The first `length` positions of one sequence as contiguous rows.

    cache [num_blocks, block_size, Hkv, D]; block_ids [n] int, in logical order, n * block_size >= length.
    Returns [length, Hkv, D]. The unwritten end of the last block is cut off, not masked: what lies there may be NaN,
    and a weight of 0 times NaN is NaN.
    """
    num_blocks = -(-length // cache.shape[1])
    return cache.index_select(0, block_ids[:num_blocks]).flatten(0, 1)[:length]


def paged_attention(
    query: Tensor, key_cache: Tensor, value_cache: Tensor, meta: AttentionMetadata, scale: float
) -> Tensor:
    """Causal grouped-query attention of one ragged batch over the paged cache.

    query [T, Hq, D]; caches [num_blocks, block_size, Hkv, D]; returns [T, Hq, D] in the query's dtype. Row i of a
    request sits at position `seq_len - query_len + i`; query head h reads KV head `h // (Hq // Hkv)`. Rows with
    nothing to attend to (`seq_len` 0) are zeros.
    """
    output = torch.zeros_like(query)
    starts = meta.query_start_loc.tolist()
    for row, seq_len in enumerate(meta.seq_lens.tolist()):
        end = starts[row + 1]
        start = max(starts[row], end - seq_len)
        if start >= end:
            continue
        blocks = meta.block_table[row]
        output[start:end] = _attend_one(
            query[start:end], gather_kv(key_cache, blocks, seq_len), gather_kv(value_cache, blocks, seq_len), scale
        )
    return output


def _attend_one(query: Tensor, key: Tensor, value: Tensor, scale: float) -> Tensor:
    compute = _compute_dtype(query)
    q, k, v = (x.to(compute).transpose(0, 1).unsqueeze(0) for x in (query, key, value))
    mask = None if query.shape[0] == 1 else _causal_mask(query.shape[0], key.shape[0], query.device)
    out = functional.scaled_dot_product_attention(q, k, v, attn_mask=mask, scale=scale, enable_gqa=True)
    return out.squeeze(0).transpose(0, 1).to(query.dtype)


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

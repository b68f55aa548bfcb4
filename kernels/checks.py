"""What must be true before a launch. Each check raises KernelError naming the argument that does not fit."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from itertools import pairwise

import torch
from torch import Tensor

from kernels.errors import KernelError, expect
from kernels.layout import SCHEMA_VERSION, KVLayer, KVPool
from kernels.metadata import AttentionMetadata, MaskKind, ScoreRule, Semantics


def check_write(key: Tensor, value: Tensor, layer: KVLayer, slot_mapping: Tensor) -> None:
    """key, value [T, Hkv, D] and slot_mapping [T] int64 against the layer's layout."""
    layout = layer.layout
    for field, tensor in (("key", key), ("value", value)):
        expect(field, "shape", tuple(tensor.shape), (slot_mapping.shape[0], layout.num_kv_heads, layout.head_dim))
        expect(field, "dtype", tensor.dtype, key.dtype)
        expect(field, "device", tensor.device, layer.key.device)
        if not tensor.is_floating_point():
            raise KernelError(field, f"dtype is {tensor.dtype}, but it must be a floating-point type")
    expect("slot_mapping", "dtype", slot_mapping.dtype, torch.int64)
    expect("slot_mapping", "device", slot_mapping.device, layer.key.device)


def check_attention(
    query: Tensor, layer: KVLayer, meta: AttentionMetadata, rule: ScoreRule, lse: Tensor | None
) -> None:
    """Shapes, dtypes, devices and everything the host knows; reading values back would stall a GPU."""
    layout = layer.layout
    expect("schema_version", "version", meta.schema_version, SCHEMA_VERSION)
    expect("block_size", "value", meta.block_size, layout.block_size)
    if query.dim() != 3:
        raise KernelError("query", f"has {query.dim()} dimensions, but [T, heads, D] has 3")
    num_tokens, num_heads, head_dim = query.shape
    expect("query", "head size", head_dim, layout.head_dim)
    expect("query", "device", query.device, layer.key.device)
    if not query.is_floating_point():
        raise KernelError("query", f"dtype is {query.dtype}, but it must be a floating-point type")
    if num_heads % layout.num_kv_heads:
        raise KernelError("query", f"{num_heads} query heads cannot share {layout.num_kv_heads} KV heads evenly")
    num_seqs = meta.num_seqs
    expect("semantics", "length", len(meta.semantics), num_seqs)
    if meta.is_decode and meta.max_query_len > 1:
        raise KernelError("semantics", f"every row is decode, but max_query_len is {meta.max_query_len}")
    _expect_tensor(meta, "query_start_loc", (num_seqs + 1,), torch.int32, query.device)
    _expect_tensor(meta, "seq_lens", (num_seqs,), torch.int32, query.device)
    _expect_tensor(meta, "slot_mapping", (num_tokens,), torch.int64, query.device)
    if meta.block_table.dim() != 2:
        raise KernelError("block_table", f"has {meta.block_table.dim()} dimensions, but [rows, blocks] has 2")
    width = meta.block_table.shape[1]
    _expect_tensor(meta, "block_table", (num_seqs, width), torch.int32, query.device)
    if width * meta.block_size < meta.max_seq_len:
        raise KernelError(
            "block_table", f"{width} blocks of {meta.block_size} cannot hold max_seq_len {meta.max_seq_len}"
        )
    if meta.masks is not None:
        _expect_tensor(meta.masks, "kind", (num_seqs,), torch.int32, query.device)
        _expect_tensor(meta.masks, "size", (num_seqs,), torch.int32, query.device)
        _expect_tensor(meta.masks, "branch", (num_tokens,), torch.int64, query.device)
    if rule.alibi_slopes is not None:
        _expect_tensor(rule, "alibi_slopes", (num_heads,), torch.float32, query.device)
    if lse is not None:
        expect("lse", "shape", tuple(lse.shape), (num_tokens, num_heads))
        expect("lse", "dtype", lse.dtype, torch.float32)
        expect("lse", "device", lse.device, query.device)


def check_values(meta: AttentionMetadata, num_blocks: int) -> None:
    """What only the values show. Once a batch, where it is built; on a GPU it waits for the device."""
    starts, lengths = meta.query_start_loc.tolist(), meta.seq_lens.tolist()
    queries = [after - before for before, after in pairwise(starts)]
    if starts[0] != 0 or min(queries, default=0) < 0 or starts[-1] > meta.num_tokens:
        raise KernelError("query_start_loc", f"{starts} does not cut {meta.num_tokens} tokens into rows")
    expect("max_query_len", "value", meta.max_query_len, max(queries, default=0))
    expect("max_seq_len", "value", meta.max_seq_len, max(lengths, default=0))
    kinds = [0] * len(queries) if meta.masks is None else meta.masks.kind.tolist()
    tables = meta.block_table.tolist()
    for row, (query_len, seq_len, semantics) in enumerate(zip(queries, lengths, meta.semantics, strict=True)):
        if seq_len < 0:
            raise KernelError("seq_lens", f"row {row} has length {seq_len}")
        if semantics is Semantics.DECODE and query_len > 1:
            raise KernelError("semantics", f"row {row} is decode, but it has {query_len} new tokens")
        if kinds[row] == MaskKind.TREE and seq_len < query_len:
            raise KernelError("seq_lens", f"row {row} is a tree of {query_len} tokens, but its length is {seq_len}")
        used = tables[row][: -(-seq_len // meta.block_size)]
        for block in used:
            if not 0 <= block < num_blocks:
                raise KernelError("block_table", f"row {row} names block {block}, but the pool has {num_blocks}")
    slots = [slot for slot in meta.slot_mapping.tolist() if slot >= 0]
    if slots and max(slots) >= num_blocks * meta.block_size:
        raise KernelError("slot_mapping", f"slot {max(slots)} is beyond the pool's {num_blocks * meta.block_size}")
    if len(set(slots)) < len(slots):
        raise KernelError("slot_mapping", f"slot {Counter(slots).most_common(1)[0][0]} is written twice")


def check_copies(pairs: Sequence[tuple[int, int]], num_blocks: int) -> None:
    """No block outside the pool, none that is a target twice or both source and target: programs have no order."""
    counts = Counter(target for _, target in pairs)
    for block in (block for pair in pairs for block in pair):
        if not 0 <= block < num_blocks:
            raise KernelError("pairs", f"block {block} is not one of the pool's {num_blocks}")
    for source, target in pairs:
        if counts[target] > 1:
            raise KernelError("pairs", f"block {target} is the target of two copies")
        if source in counts:
            raise KernelError("pairs", f"block {source} is both a source and a target")


def check_swaps(source: KVPool, target: KVPool, pairs: Sequence[tuple[int, int]]) -> None:
    """Two pools that differ in nothing but where they are and how many blocks they have."""
    for field in ("num_layers", "block_size", "num_kv_heads", "head_dim", "dtype", "scales", "order"):
        expect("target", field, getattr(target.layout, field), getattr(source.layout, field))
    for field, pool, ids in (("source", source, [s for s, _ in pairs]), ("target", target, [t for _, t in pairs])):
        if ids and not 0 <= min(ids) <= max(ids) < pool.layout.num_blocks:
            raise KernelError(field, f"blocks {min(ids)}–{max(ids)} are asked for, but it has {pool.layout.num_blocks}")
    if len({target for _, target in pairs}) < len(pairs):
        raise KernelError("target", "a block is written twice")


def _expect_tensor(owner: object, field: str, shape: tuple[int, ...], dtype: torch.dtype, device: torch.device) -> None:
    tensor: Tensor = getattr(owner, field)
    expect(field, "shape", tuple(tensor.shape), shape)
    expect(field, "dtype", tensor.dtype, dtype)
    expect(field, "device", tensor.device, device)

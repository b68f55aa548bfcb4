"""Device → implementation, and the checks that come before any launch."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from functools import cache
from importlib.util import find_spec

import torch
from torch import Tensor

from kernels import reference
from kernels.metadata import SCHEMA_VERSION, AttentionMetadata

MAX_HEAD_DIM = 128


class KernelError(ValueError):
    """A launch was refused before it began. `field` names the argument that does not fit."""

    def __init__(self, field: str, message: str) -> None:
        self.field = field
        super().__init__(f"{field}: {message}")


def implementation_name(device: torch.device | str) -> str:
    """Key of the implementation that serves this device: "triton" or "torch"."""
    return "triton" if torch.device(device).type == "cuda" and _has_triton() else "torch"


def write_kv(key: Tensor, value: Tensor, key_cache: Tensor, value_cache: Tensor, slot_mapping: Tensor) -> None:
    """Put each new token's K and V into its slot; negative slots are skipped.

    key, value [T, Hkv, D]; caches [num_blocks, block_size, Hkv, D], changed in place; slot_mapping [T] int64.
    Raises KernelError when shapes or dtypes do not fit together.
    """
    _check_cache(key_cache, value_cache)
    for field, tensor in (("key", key), ("value", value)):
        _expect(field, "shape", tuple(tensor.shape), (slot_mapping.shape[0], *key_cache.shape[2:]))
        _expect(field, "dtype", tensor.dtype, key_cache.dtype)
    _expect("slot_mapping", "dtype", slot_mapping.dtype, torch.int64)
    if implementation_name(key_cache.device) == "triton":
        # Imported where it is needed: macOS and Windows have no triton, and a CPU run need not wait for it.
        from kernels import cache_ops

        cache_ops.write_kv(key, value, key_cache, value_cache, slot_mapping)
    else:
        reference.write_kv(key, value, key_cache, value_cache, slot_mapping)


def swap_blocks(source: Tensor, target: Tensor, pairs: Sequence[tuple[int, int]]) -> None:
    """Copy blocks (source id, target id) of all layers from one cache to another; see `reference.swap_blocks`.

    Caches [layers, blocks, block_size, Hkv, D]. Raises KernelError when they differ in more than their blocks, or an
    id lies outside. Plain tensor copies on every device: a transfer over the bus needs no kernel of its own.
    """
    _expect("target", "dtype", target.dtype, source.dtype)
    _expect("target", "block shape", (target.shape[0], *target.shape[2:]), (source.shape[0], *source.shape[2:]))
    for field, cache_, ids in (
        ("source", source, [pair[0] for pair in pairs]), ("target", target, [pair[1] for pair in pairs]),
    ):  # fmt: skip
        if ids and not 0 <= min(ids) <= max(ids) < cache_.shape[1]:
            raise KernelError(field, f"blocks {min(ids)}–{max(ids)} are asked for, but it has {cache_.shape[1]}")
    if len({pair[1] for pair in pairs}) < len(pairs):
        raise KernelError("target", "a block is written twice")
    if pairs:
        from_ids, to_ids = (torch.tensor(ids, dtype=torch.int64) for ids in zip(*pairs, strict=True))
        reference.swap_blocks(source, target, from_ids.to(source.device), to_ids.to(target.device))


def copy_blocks(key_cache: Tensor, value_cache: Tensor, pairs: Sequence[tuple[int, int]]) -> None:
    """Copy block `source` onto block `target` for each pair, over all layers of K and V at once.

    caches [L, num_blocks, block_size, Hkv, D], changed in place. Raises KernelError, having copied nothing, when a
    block lies outside the pool, is named twice as a target, or is both source and target: programs have no order.
    """
    if key_cache.dim() != 5:
        wanted = "[layers, blocks, block size, heads, D] has 5"
        raise KernelError("key_cache", f"has {key_cache.dim()} dimensions, but {wanted}")
    for field, tensor in (("key_cache", key_cache), ("value_cache", value_cache)):
        if not tensor.is_contiguous():
            raise KernelError(field, "must be contiguous")
    _expect("value_cache", "shape", tuple(value_cache.shape), tuple(key_cache.shape))
    _expect("value_cache", "dtype", value_cache.dtype, key_cache.dtype)
    _check_pairs(pairs, key_cache.shape[1])
    if not pairs:
        return
    table = torch.tensor(list(pairs), dtype=torch.int64, device=key_cache.device)
    if implementation_name(key_cache.device) == "triton":
        from kernels import cache_ops

        cache_ops.copy_blocks(key_cache, value_cache, table)
    else:
        reference.copy_blocks(key_cache, value_cache, table)


def paged_attention(
    query: Tensor, key_cache: Tensor, value_cache: Tensor, meta: AttentionMetadata, scale: float
) -> Tensor:
    """Causal grouped-query attention of one ragged batch over the paged cache; see `reference.paged_attention`.

    query [T, Hq, D]; caches [num_blocks, block_size, Hkv, D]; returns [T, Hq, D]. Raises KernelError when the metadata
    does not fit the tensors. Only shapes, dtypes and devices are checked: reading values back would stall a GPU.
    """
    _check_cache(key_cache, value_cache)
    _check_metadata(query, key_cache, meta)
    if implementation_name(query.device) == "triton":
        from kernels import paged_attention as compiled

        return compiled.paged_attention(query, key_cache, value_cache, meta, scale)
    return reference.paged_attention(query, key_cache, value_cache, meta, scale)


@cache
def _has_triton() -> bool:
    return find_spec("triton") is not None


def _expect(field: str, what: str, got: object, wanted: object) -> None:
    if got != wanted:
        raise KernelError(field, f"{what} is {got}, but it must be {wanted}")


def _check_cache(key_cache: Tensor, value_cache: Tensor) -> None:
    if key_cache.dim() != 4:
        raise KernelError("key_cache", f"has {key_cache.dim()} dimensions, but [blocks, block size, heads, D] has 4")
    _expect("value_cache", "shape", tuple(value_cache.shape), tuple(key_cache.shape))
    _expect("value_cache", "dtype", value_cache.dtype, key_cache.dtype)
    if key_cache.shape[3] > MAX_HEAD_DIM:
        raise KernelError("key_cache", f"head size is {key_cache.shape[3]}, but the kernels go up to {MAX_HEAD_DIM}")
    for field, tensor in (("key_cache", key_cache), ("value_cache", value_cache)):
        if not tensor.is_contiguous():
            raise KernelError(field, "must be contiguous")


def _check_pairs(pairs: Sequence[tuple[int, int]], num_blocks: int) -> None:
    counts = Counter(target for _, target in pairs)
    for block in (block for pair in pairs for block in pair):
        if not 0 <= block < num_blocks:
            raise KernelError("pairs", f"block {block} is not one of the pool's {num_blocks}")
    for source, target in pairs:
        if counts[target] > 1:
            raise KernelError("pairs", f"block {target} is the target of two copies")
        if source in counts:
            raise KernelError("pairs", f"block {source} is both a source and a target")


def _check_metadata(query: Tensor, key_cache: Tensor, meta: AttentionMetadata) -> None:
    _expect("schema_version", "version", meta.schema_version, SCHEMA_VERSION)
    _expect("block_size", "value", meta.block_size, key_cache.shape[1])
    if query.dim() != 3:
        raise KernelError("query", f"has {query.dim()} dimensions, but [T, heads, D] has 3")
    num_tokens, num_heads, head_dim = query.shape
    _expect("query", "head size", head_dim, key_cache.shape[3])
    _expect("query", "dtype", query.dtype, key_cache.dtype)
    if num_heads % key_cache.shape[2]:
        raise KernelError("query", f"{num_heads} query heads cannot share {key_cache.shape[2]} KV heads evenly")
    num_seqs = meta.num_seqs
    _expect("slot_mapping", "shape", tuple(meta.slot_mapping.shape), (num_tokens,))
    _expect("seq_lens", "shape", tuple(meta.seq_lens.shape), (num_seqs,))
    _expect("query_start_loc", "shape", tuple(meta.query_start_loc.shape), (num_seqs + 1,))
    if meta.block_table.dim() != 2 or meta.block_table.shape[0] != num_seqs:
        raise KernelError("block_table", f"shape is {tuple(meta.block_table.shape)}, but it must have {num_seqs} rows")
    if meta.block_table.shape[1] * meta.block_size < meta.max_seq_len:
        raise KernelError(
            "block_table",
            f"{meta.block_table.shape[1]} blocks of {meta.block_size} cannot hold max_seq_len {meta.max_seq_len}",
        )
    for field, dtype in (
        ("query_start_loc", torch.int32), ("seq_lens", torch.int32), ("block_table", torch.int32),
        ("slot_mapping", torch.int64),
    ):  # fmt: skip
        tensor: Tensor = getattr(meta, field)
        _expect(field, "dtype", tensor.dtype, dtype)
        _expect(field, "device", tensor.device, query.device)
    _expect("key_cache", "device", key_cache.device, query.device)

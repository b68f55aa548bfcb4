"""Device → implementation, after the checks that come before any launch."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from importlib.util import find_spec
from types import ModuleType

import torch
from torch import Tensor

from kernels import checks, reference, swap
from kernels.batch_plan import BatchPlan, plan_batch
from kernels.errors import expect
from kernels.layout import KVLayer, KVPool
from kernels.metadata import AttentionMetadata, ScoreRule
from kernels.transfer import upload


def implementation_name(device: torch.device | str) -> str:
    """Key of the implementation that serves this device: "triton" or "torch"."""
    return "triton" if torch.device(device).type == "cuda" and _has_triton() else "torch"


def write_kv(key: Tensor, value: Tensor, layer: KVLayer, slot_mapping: Tensor) -> None:
    """Put each new token's K and V into its slot, rounded as the layout says; see `reference.write_kv`.

    key, value [T, Hkv, D]; slot_mapping [T] int64. Raises KernelError when they do not fit the layer's layout.
    """
    checks.check_write(key, value, layer, slot_mapping)
    _cache_ops(layer.key).write_kv(key, value, layer, slot_mapping)


def read_kv(layer: KVLayer, slot_mapping: Tensor) -> tuple[Tensor, Tensor]:
    """K and V [T, Hkv, D] of these slots, contiguous; see `reference.read_kv`."""
    result: tuple[Tensor, Tensor] = _cache_ops(layer.key).read_kv(layer, slot_mapping)
    return result


def hand_over(source: KVPool, source_slots: Tensor, target: KVPool, target_slots: Tensor) -> None:
    """Carry tokens from one pool to another of any order, block size, dtype and scales, layer by layer.

    Slots [T] int64, each on its pool's device. Raises KernelError when layers, heads or head sizes differ.
    """
    for field in ("num_layers", "num_kv_heads", "head_dim"):
        expect("target", field, getattr(target.layout, field), getattr(source.layout, field))
    expect("target_slots", "length", len(target_slots), len(source_slots))
    for index in range(source.layout.num_layers):
        key, value = read_kv(source.layer(index), source_slots)
        device = target.key.device
        write_kv(key.to(device), value.to(device), target.layer(index), target_slots)


def copy_blocks(pool: KVPool, pairs: Sequence[tuple[int, int]]) -> None:
    """Copy block `source` onto block `target` for each pair, over all layers of K and V (and scales) at once.

    Raises KernelError, having copied nothing, when the pairs have no one meaning; see `checks.check_copies`.
    """
    checks.check_copies(pairs, pool.layout.num_blocks)
    if pairs:
        (table,) = upload([[block for pair in pairs for block in pair]], torch.int64, pool.key.device)
        _cache_ops(pool.key).copy_blocks(pool, table.view(-1, 2))


def swap_blocks(
    source: KVPool, target: KVPool, pairs: Sequence[tuple[int, int]], stream: torch.cuda.Stream | None = None
) -> None:
    """Copy blocks (source id, target id) of all layers from one pool to another, on one device or over the bus.

    With a `stream` the copies are queued there; see `swap.swap_blocks`.
    Raises KernelError, having copied nothing, when the pools differ in more than their blocks or an id lies outside.
    """
    checks.check_swaps(source, target, pairs)
    swap.swap_blocks(source, target, pairs, stream)


def paged_attention(
    query: Tensor,
    layer: KVLayer,
    meta: AttentionMetadata,
    rule: ScoreRule,
    lse: Tensor | None = None,
    plan: BatchPlan | None = None,
) -> Tensor:
    """Grouped-query attention of one ragged batch over the paged cache; see `reference.paged_attention`.

    query [T, Hq, D]; returns [T, Hq, D]. `plan`: what `plan` made of `meta`, if this is one of several layers.
    Raises KernelError when the metadata does not fit the tensors.
    """
    checks.check_attention(query, layer, meta, rule, lse)
    if implementation_name(query.device) == "triton":
        # Imported where it is needed: macOS and Windows have no triton, and a CPU run need not wait for it.
        from kernels import paged_attention as compiled

        return compiled.paged_attention(query, layer, meta, rule, lse)
    return reference.paged_attention(query, layer, meta, rule, lse, plan)


def plan(meta: AttentionMetadata) -> BatchPlan | None:
    """What all layers of a step share, for the torch twin; compiled kernels find it themselves, without the host."""
    return None if implementation_name(meta.seq_lens.device) == "triton" else plan_batch(meta)


def _cache_ops(tensor: Tensor) -> ModuleType:
    if implementation_name(tensor.device) == "triton":
        from kernels import cache_ops

        return cache_ops
    return reference


@cache
def _has_triton() -> bool:
    return find_spec("triton") is not None

"""A CUDA graph's ways without a GPU: what was captured runs again on the very tensors and numbers of its capture.

A step that would need the host in between, or tensors that are not its buffers, then gives stale results, as on a GPU.
Kernels are replaced by two that never ask the host; the real ones that do not are Triton's.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from kernels import dispatch
from kernels.layout import KVLayer
from kernels.metadata import AttentionMetadata, ScoreRule


class _Tape(TorchDispatchMode):
    """Notes each operation with its arguments and the tensors it gave."""

    def __init__(self) -> None:
        super().__init__()
        self.calls: list[tuple[Any, tuple[Any, ...], dict[str, Any], Any]] = []

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        self.calls.append((func, args, kwargs or {}, result))
        return result


def capture(compute: Callable[[], None]) -> Callable[[], None]:
    with _Tape() as tape:
        compute()

    def replay() -> None:
        with torch.inference_mode():
            for func, args, kwargs, kept in tape.calls:
                taken = {tensor.untyped_storage().data_ptr() for tensor in _tensors((args, kwargs))}
                for old, new in zip(_tensors(kept), _tensors(func(*args, **kwargs)), strict=True):
                    if old.untyped_storage().data_ptr() not in taken:  # views and in-place results lie where they lay
                        old.copy_(new)

    return replay


def _tensors(tree: object) -> Iterator[Tensor]:
    return (leaf for leaf in tree_leaves(tree) if isinstance(leaf, Tensor))


def use_hostless_kernels(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dispatch, "plan", lambda meta: None)
    monkeypatch.setattr(dispatch, "write_kv", _write_kv)
    monkeypatch.setattr(dispatch, "paged_attention", _decode)


def _write_kv(key: Tensor, value: Tensor, layer: KVLayer, slot_mapping: Tensor) -> None:
    for token in range(len(key)):
        slot = slot_mapping[token : token + 1]
        for new, cache in ((key, layer.key), (value, layer.value)):
            flat, place = cache.flatten(0, 1), slot.clamp(min=0)
            kept = torch.where((slot >= 0)[:, None, None], new[token : token + 1], flat.index_select(0, place))
            flat.index_copy_(0, place, kept)


def _decode(
    query: Tensor, layer: KVLayer, meta: AttentionMetadata, rule: ScoreRule, lse: None = None, plan: None = None
) -> Tensor:
    """One token a row, over every position the table has room for."""
    positions = torch.arange(meta.block_table.shape[1] * meta.block_size)
    seen = positions < meta.seq_lens[:, None]
    blocks = torch.where(seen, meta.block_table.long()[:, positions // meta.block_size], 0)
    slots = blocks * meta.block_size + positions % meta.block_size
    ratio = query.shape[1] // layer.layout.num_kv_heads
    key, value = (
        torch.where(seen[..., None, None], cache.flatten(0, 1)[slots], 0.0).repeat_interleave(ratio, dim=2)
        for cache in (layer.key, layer.value)
    )
    scores = torch.einsum("bhd,bshd->bhs", query, key) * rule.scale
    weights = scores.masked_fill(~seen[:, None], float("-inf")).softmax(-1).nan_to_num(0.0)
    return torch.einsum("bhs,bshd->bhd", weights, value)

"""Blocks over the bus: plain tensor copies on every device, a transfer needs no kernel of its own."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import torch
from torch import Tensor

from kernels.layout import KVPool, Order


def swap_blocks(
    source: KVPool, target: KVPool, pairs: Sequence[tuple[int, int]], stream: torch.cuda.Stream | None
) -> None:
    """Copy blocks (source id, target id) of all layers, as vLLM V0's `swap_blocks` does: one copy a run of memory.

    With a `stream` the copies wait for the current stream's work and may still be under way on return; host memory
    must be pinned then, and whoever uses the blocks next waits for the stream.
    """
    if stream is not None:
        stream.wait_stream(torch.cuda.current_stream(stream.device))
    with torch.cuda.stream(stream):  # None: no change
        for one, other in zip(source.tensors, target.tensors, strict=True):
            for part, place in _runs(one, other, pairs, source.layout.order):
                place.copy_(part, non_blocking=stream is not None)


def _runs(
    source: Tensor, target: Tensor, pairs: Sequence[tuple[int, int]], order: Order
) -> Iterator[tuple[Tensor, Tensor]]:
    """(part of source, its place in target), each one piece of memory: strided copies would stall the stream."""
    if order in (Order.BLSH, Order.BLHS) and source.dim() == 5:
        for from_id, to_id in pairs:
            yield source[:, from_id], target[:, to_id]
        return
    for layer in range(source.shape[0]):
        for from_id, to_id, count in neighbours(pairs):
            yield source[layer, from_id : from_id + count], target[layer, to_id : to_id + count]


def neighbours(pairs: Sequence[tuple[int, int]]) -> list[tuple[int, int, int]]:
    """(first source, first target, count) of each stretch of pairs in which both ids rise by one."""
    runs: list[tuple[int, int, int]] = []
    for source, target in pairs:
        if runs and (runs[-1][0] + runs[-1][2], runs[-1][1] + runs[-1][2]) == (source, target):
            runs[-1] = (*runs[-1][:2], runs[-1][2] + 1)
        else:
            runs.append((source, target, 1))
    return runs

"""Textbook attention in float64 for one sequence, every mask and score rule; shares no line with the kernels."""

from __future__ import annotations

import torch
from torch import Tensor

from kernels.metadata import Mask, MaskKind


def visible(mask: Mask, query_len: int, seq_len: int) -> Tensor:
    """Bool [query_len, seq_len], position by position, by the definition of each mask."""
    context = seq_len - query_len
    grid = torch.zeros(query_len, seq_len, dtype=torch.bool)
    for token in range(query_len):
        i = context + token
        ancestors = {token}
        if mask.kind is MaskKind.TREE:
            parent = mask.parents[token]
            while parent >= 0:
                ancestors.add(parent)
                parent = mask.parents[parent]
        for j in range(seq_len):
            grid[token, j] = {
                MaskKind.CAUSAL: j <= i,
                MaskKind.WINDOW: j <= i and i - j < mask.size,
                MaskKind.PREFIX: j <= i or j < mask.size,
                MaskKind.TREE: j < context or j - context in ancestors,
            }[mask.kind]
    return grid


def attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    scale: float,
    mask: Mask,
    soft_cap: float | None = None,
    slopes: Tensor | None = None,
) -> tuple[Tensor, Tensor]:
    """(output [Tq, Hq, D], log-sum-exp [Tq, Hq]) of the last Tq of S positions; key, value [S, Hkv, D]."""
    q, k, v = query.double(), key.double(), value.double()
    ratio = q.shape[1] // k.shape[1]
    grid = visible(mask, q.shape[0], k.shape[0])
    positions = torch.arange(k.shape[0] - q.shape[0], k.shape[0])
    output, sums = torch.empty_like(q), torch.empty(q.shape[:2], dtype=torch.float64)
    for head in range(q.shape[1]):
        scores = q[:, head] @ k[:, head // ratio].T * scale
        if soft_cap is not None:
            scores = soft_cap * torch.tanh(scores / soft_cap)
        if slopes is not None:
            scores = scores + slopes[head].double() * (torch.arange(k.shape[0])[None, :] - positions[:, None])
        scores = torch.where(grid, scores, float("-inf"))
        output[:, head] = torch.softmax(scores, 1) @ v[:, head // ratio]
        sums[:, head] = torch.logsumexp(scores, 1)
    return output, sums

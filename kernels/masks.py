"""Which positions a query token may see, in plain torch: `metadata.MaskKind` row by row."""

from __future__ import annotations

import torch
from torch import Tensor

from kernels.metadata import AttentionMetadata, MaskKind


def visible_positions(meta: AttentionMetadata, row: int, tokens: slice, positions: slice) -> tuple[Tensor, Tensor]:
    """(may the token see position j of its row: bool; j - i: int64), both [tokens, positions].

    `tokens` are the batch's and of this row; both slices have a start and a stop.
    """
    first = int(meta.query_start_loc[row])
    context = int(meta.seq_lens[row]) - (int(meta.query_start_loc[row + 1]) - first)
    device = meta.seq_lens.device
    j = torch.arange(positions.start, positions.stop, device=device)
    i = torch.arange(tokens.start, tokens.stop, device=device) - first + context
    distance = j - i[:, None]
    causal = distance <= 0
    if meta.masks is None:
        return causal, distance
    kind, size = MaskKind(int(meta.masks.kind[row])), int(meta.masks.size[row])
    if kind is MaskKind.WINDOW:
        return causal & (distance > -size), distance
    if kind is MaskKind.PREFIX:
        return causal | (j < size), distance
    if kind is MaskKind.TREE:
        own = (meta.masks.branch[tokens, None] >> (j - context).clamp(min=0)) & 1
        return (j < context) | (own == 1), distance
    return causal, distance

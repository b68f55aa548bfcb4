"""What a weight format costs in exactness: the same text through both models, token by token."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from engine.model.llama import KVCache, LlamaModel
from kernels.layout import CacheLayout
from kernels.metadata import one_sequence

# A fixed text: long enough for 200 tokens, plain enough that its next words are often clear.
TEXT = (
    "A cache keeps what was computed once, so that it need not be computed again. When a language model writes a text, "
    "each new word looks back at all words before it, and what those words have to say, their keys and values, does "
    "not change any more. An inference engine therefore keeps them in memory, in blocks of equal size, and hands the "
    "blocks to requests as they grow. When memory runs out, somebody has to give way: the engine stops a request, "
    "takes its blocks, and computes them again later. How well that works depends on the order in which requests are "
    "served, on how much of their prompts they share, and on how many tokens one step may hold. The water in the sea "
    "is salt because rivers carry small amounts of minerals from the land, and only the water evaporates again."
)
_CHUNK = 8  # rows of a small decode batch: the path on which the formats differ


@dataclass(frozen=True, slots=True)
class FormatError:
    """Against float32: largest |Δlogit|, share of positions with the same greedy token, positions compared."""

    max_abs: float
    same_greedy: float
    positions: int


def format_error(exact: LlamaModel, other: LlamaModel, token_ids: Sequence[int]) -> FormatError:
    """Both models over the same tokens [T], eight at a time, each reading its own KV."""
    truth, got = _logits(exact, token_ids), _logits(other, token_ids)
    return FormatError(
        max_abs=float((truth - got).abs().max()),
        same_greedy=float((truth.argmax(-1) == got.argmax(-1)).float().mean()),
        positions=len(token_ids),
    )


def _logits(model: LlamaModel, token_ids: Sequence[int]) -> Tensor:
    """Float32 [T, vocab] over one sequence in blocks 0, 1, 2 …"""
    spec, block_size = model.spec, 16
    blocks = -(-len(token_ids) // block_size)
    layout = CacheLayout(spec.num_layers, blocks, block_size, spec.num_kv_heads, spec.head_dim, model.dtype)
    cache = KVCache(layout, model.device)
    rows = []
    for start in range(0, len(token_ids), _CHUNK):
        chunk = torch.tensor(list(token_ids[start : start + _CHUNK]), device=model.device)
        positions = torch.arange(start, start + len(chunk), device=model.device)
        meta = one_sequence(start, len(chunk), block_size, blocks, model.device)
        rows.append(model.forward(chunk, positions, cache, meta, torch.arange(len(chunk), device=model.device)))
    return torch.cat(rows)

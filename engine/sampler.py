"""Logits become a token: greedy, or seeded temperature and top-p."""

from __future__ import annotations

import zlib

import torch

from engine.request import SamplingParams


def sample(logits: torch.Tensor, params: SamplingParams, engine_seed: int, position: int) -> int:
    """Draws the next token from `logits` [vocab] fp32.

    The draw depends on (seed, position) alone, so a request gets the same tokens alone, in a batch, and when it is
    computed again after a preemption or a jump back.
    """
    if params.temperature == 0.0:
        return int(torch.argmax(logits))
    probabilities = torch.softmax(logits.double() / params.temperature, dim=-1)
    ordered, ids = torch.sort(probabilities, descending=True, stable=True)
    before = torch.cumsum(ordered, dim=-1) - ordered
    kept = torch.where(before < params.top_p, ordered, 0.0)  # the token that crosses top_p stays in
    seed = engine_seed if params.seed is None else params.seed
    generator = torch.Generator().manual_seed(zlib.crc32(f"{seed}/{position}".encode()))
    threshold = torch.rand(1, generator=generator, dtype=torch.float64) * kept.sum()
    index = int(torch.searchsorted(torch.cumsum(kept, dim=-1), threshold, right=True))
    return int(ids[min(index, int((kept > 0).sum()) - 1)])


def top_candidates(logits: torch.Tensor, count: int) -> list[tuple[int, float]]:
    """The `count` likeliest next tokens with their softmax probabilities at temperature 1."""
    values, ids = torch.topk(logits.float(), min(count, logits.shape[-1]))
    shares = torch.exp(values - torch.logsumexp(logits.float(), dim=-1))
    return [(int(token), float(share)) for token, share in zip(ids, shares, strict=True)]

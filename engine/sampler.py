"""Logits become a token: greedy, or seeded temperature and top-p."""

from __future__ import annotations

import zlib

import torch

from engine.request import SamplingParams


def likeliest(logits: torch.Tensor) -> torch.Tensor:
    """The greedy token of each row [R, vocab]: int64 [R], on its device."""
    return torch.argmax(logits, dim=-1)


def sample(logits: torch.Tensor, params: SamplingParams, engine_seed: int, position: int) -> int:
    """Draws the next token from `logits` [vocab] fp32, on the host, at a temperature above 0.

    The draw depends on (seed, position) alone, so a request gets the same tokens alone, in a batch, and when it is
    computed again after a preemption or a jump back.
    """
    probabilities = torch.softmax(logits.double() / params.temperature, dim=-1)
    ordered, ids = torch.sort(probabilities, descending=True, stable=True)
    before = torch.cumsum(ordered, dim=-1) - ordered
    kept = torch.where(before < params.top_p, ordered, 0.0)  # the token that crosses top_p stays in
    seed = engine_seed if params.seed is None else params.seed
    generator = torch.Generator().manual_seed(zlib.crc32(f"{seed}/{position}".encode()))
    threshold = torch.rand(1, generator=generator, dtype=torch.float64) * kept.sum()
    index = int(torch.searchsorted(torch.cumsum(kept, dim=-1), threshold, right=True))
    return int(ids[min(index, int((kept > 0).sum()) - 1)])


def top_candidates(logits: torch.Tensor, count: int) -> tuple[torch.Tensor, torch.Tensor]:
    """The `count` likeliest next tokens of each row [R, vocab]: ids int64 and shares float32 [R, count], on its device.

    A share is the softmax probability at temperature 1.
    """
    values, ids = torch.topk(logits.float(), min(count, logits.shape[-1]))
    return ids, torch.exp(values - torch.logsumexp(logits.float(), dim=-1, keepdim=True))

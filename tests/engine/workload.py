"""The seeded workload on which the real vLLM 0.33 scheduler was timed; its totals are known facts about vLLM."""

from __future__ import annotations

import random

from engine.config import EngineConfig
from engine.request import RequestSpec

BLOCK_SIZE = 16
NUM_BLOCKS = 4096
CONFIG = EngineConfig(
    block_size=BLOCK_SIZE,
    num_blocks=NUM_BLOCKS,
    max_num_batched_tokens=2048,
    max_num_seqs=256,
    max_model_len=(NUM_BLOCKS - 1) * BLOCK_SIZE,
)
# What vLLM did with 1000 requests, seed 7: steps, scheduled tokens, preemptions.
VLLM_STEPS, VLLM_TOKENS, VLLM_PREEMPTIONS = 876, 370_947, 144
_VOCABULARY = 32_000
_PREFIXES = 20


def make(requests: int = 1000, seed: int = 7, gap: float = 0.5) -> list[RequestSpec]:
    """Half of the requests start with one of 20 shared prefixes (64-512 tokens); own part lognormal, median 150.

    Outputs of 16-256 tokens; exponential times between arrivals, mean `gap` steps. The order of the draws is part of
    the workload.
    """
    draw = random.Random(seed)

    def tokens(count: int) -> list[int]:
        return [draw.randrange(_VOCABULARY) for _ in range(count)]

    prefixes = [tokens(draw.randrange(64, 513)) for _ in range(_PREFIXES)]
    specs = []
    now = 0.0
    for number in range(requests):
        now += draw.expovariate(1.0 / gap)
        prompt = list(draw.choice(prefixes)) if draw.random() < 0.5 else []
        prompt += tokens(min(2000, max(16, int(draw.lognormvariate(5.0, 0.8)))))
        output = tokens(draw.randint(16, 256))
        specs.append(
            RequestSpec(
                f"r{number:04d}", tuple(prompt), len(output), output=tuple(output), arrival_step=int(now)
            )
        )  # fmt: skip
    return specs

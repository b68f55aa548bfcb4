"""Engine time of a decode step with four requests, beside transformers' forward pass over the same batch."""

from __future__ import annotations

import time

import torch
from transformers import DynamicCache

from engine.config import EngineConfig
from engine.engine import Engine
from engine.model.weights import find_smollm2
from engine.model_runner import ModelRunner
from engine.request import RequestSpec
from tests.benchmarks.report import median, p95, report
from tests.engine.test_numerics import hugging_face, loaded

REQUESTS = 4
PROMPT_TOKENS = 40
STEPS = 40
TARGET_MS = {"smollm2": 200.0, "toy": 10.0}


def main() -> None:
    names = ["toy", *(["smollm2"] if find_smollm2() is not None else [])]
    rows: list[tuple[str, str, str, bool | None]] = []
    for name in names:
        ours = _engine_steps(name)
        rival = _transformers_steps(name)
        target = TARGET_MS[name]
        rows.append(
            (
                f"{name}: decode step, {REQUESTS} requests (p50 / p95)",
                f"{median(ours):.1f} / {p95(ours):.1f} ms",
                f"≤ {target:.0f} ms",
                median(ours) <= target,
            )
        )
        rows.append(
            (
                f"{name}: transformers, same batch",
                f"{median(rival):.1f} ms, ratio ours/theirs {median(ours) / median(rival):.2f}",
                "",
                None,
            )
        )
    report(f"Engine, {torch.get_num_threads()} torch threads", rows)


def _prompts(name: str) -> list[tuple[int, ...]]:
    vocab = loaded(name).spec.vocab_size
    return [tuple((7 + 31 * row + 3 * i) % (vocab - 10) + 5 for i in range(PROMPT_TOKENS)) for row in range(REQUESTS)]


def _engine_steps(name: str) -> list[float]:
    config = EngineConfig(block_size=16, num_blocks=64, max_num_batched_tokens=256, max_num_seqs=REQUESTS)
    engine = Engine(config, ModelRunner(loaded(name), config))
    for row, prompt in enumerate(_prompts(name)):
        engine.add(RequestSpec(f"r{row}", prompt, STEPS + 2))
    steps = []
    while not engine.is_done:
        steps.append(engine.step())
    decodes = [step.timings.total_ms for step in steps if set(step.scheduled_tokens.values()) == {1}]
    return decodes[2:]


def _transformers_steps(name: str) -> list[float]:
    model = hugging_face(name)
    times = []
    with torch.inference_mode():
        cache = DynamicCache()
        out = model(torch.tensor(_prompts(name)), past_key_values=cache, use_cache=True)
        for _ in range(STEPS):
            token = out.logits[:, -1:].argmax(-1)
            began = time.perf_counter()
            out = model(token, past_key_values=cache, use_cache=True)
            times.append((time.perf_counter() - began) * 1e3)
    return times[2:]

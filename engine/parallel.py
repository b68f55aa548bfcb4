"""Parallel sampling: several seeded answers to one prompt, by fork or as separate requests over the prefix cache.

Source: PagedAttention paper (Kwon et al., SOSP 2023) §4.4 "parallel sampling"; vLLM V1 instead runs `n` answers as
separate requests and leaves the sharing to its prefix cache (`vllm/v1/engine/parallel_sampling.py`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from engine.config import EngineConfig
from engine.engine import Engine
from engine.errors import UserError
from engine.events import Admitted, BlockCopied, Scheduled
from engine.request import RequestSpec, SamplingParams
from engine.runner import Runner
from engine.timeline import Step

DEFAULT_SAMPLING = SamplingParams(temperature=0.8, top_p=0.95)
DEFAULT_MAX_TOKENS = 16


@dataclass(frozen=True, slots=True)
class ParallelRun:
    """One way to get the answers. Blocks are those with an owner while a step runs, counted once however shared.

    `computed_tokens` are positions the kernels computed, `hit_tokens` positions the prefix cache gave instead.
    """

    answers: tuple[tuple[int, ...], ...]
    blocks_by_step: tuple[int, ...]
    copies: int
    computed_tokens: int
    hit_tokens: int
    preemptions: int

    @property
    def steps(self) -> int:
        return len(self.blocks_by_step)

    @property
    def peak_blocks(self) -> int:
        return max(self.blocks_by_step, default=0)


@dataclass(frozen=True, slots=True)
class ParallelComparison:
    """The same seeds both ways: `forked` after one prefill, `separate` over the prefix cache."""

    prompt_tokens: int
    seeds: tuple[int, ...]
    forked: ParallelRun
    separate: ParallelRun

    @property
    def same_answers(self) -> bool:
        return self.forked.answers == self.separate.answers


def parallel(engine: Engine, spec: RequestSpec, n: int, seeds: Sequence[int]) -> list[str]:
    """Adds `spec` so that it gives `n` answers, one for each seed, after one prefill; returns their ids.

    The first answer is `spec.id` itself, the others part from it at the first token, drawn from the same logits.
    Refused as a whole when the answers do not fit the sequence limit.
    """
    check_count(n, seeds, engine.config)
    first = replace(spec, sampling=replace(spec.sampling, seed=seeds[0]))
    engine.add(first)
    if n == 1:
        return [spec.id]
    others = [replace(spec.sampling, seed=seed) for seed in seeds[1:]]
    return [spec.id, *engine.fork_at_next_token(spec.id, n - 1, samplings=others)]


def check_count(n: int, seeds: Sequence[int], config: EngineConfig) -> None:
    """All answers run at the same time, each with a seed of its own."""
    if not 1 <= n <= config.max_num_seqs:
        raise UserError("config.range", field="n", value=n, low=1, high=config.max_num_seqs)
    if len(seeds) != n:
        raise UserError("parallel.seeds", have=len(seeds), need=n)


def compare_parallel(
    config: EngineConfig,
    make_runner: Callable[[], Runner],
    prompt: Sequence[int],
    n: int,
    *,
    seeds: Sequence[int] | None = None,
    max_tokens: int = DEFAULT_MAX_TOKENS,
    sampling: SamplingParams = DEFAULT_SAMPLING,
) -> ParallelComparison:
    """Runs both ways to the end, each on an engine and a runner of its own; prefix caching is on for both."""
    seeds = tuple(range(n)) if seeds is None else tuple(seeds)
    check_count(n, seeds, config)
    config = replace(config, enable_prefix_caching=True)
    spec = RequestSpec("A", tuple(prompt), max_tokens, sampling=sampling)
    forking = Engine(config, make_runner())
    ids = parallel(forking, spec, n, seeds)
    apart = Engine(config, make_runner())
    names = [f"A{number}" for number in range(1, n + 1)]
    for name, seed in zip(names, seeds, strict=True):
        apart.add(replace(spec, id=name, sampling=replace(sampling, seed=seed)))
    return ParallelComparison(len(prompt), seeds, _run(forking, ids), _run(apart, names))


def _run(engine: Engine, ids: Sequence[str]) -> ParallelRun:
    steps: list[Step] = []
    while not engine.is_done:
        steps.append(engine.step())
    events = [event for step in steps for event in step.events]
    requests = [engine.requests[name] for name in ids]
    return ParallelRun(
        answers=tuple(tuple(request.output_token_ids) for request in requests),
        blocks_by_step=tuple(step.scheduled.pool.owned for step in steps),
        copies=sum(isinstance(event, BlockCopied) for event in events),
        computed_tokens=sum(event.tokens for event in events if isinstance(event, Scheduled)),
        hit_tokens=sum(event.hit_tokens for event in events if isinstance(event, Admitted)),
        preemptions=sum(request.num_preemptions for request in requests),
    )

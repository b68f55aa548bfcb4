"""What a run cost and gave: latencies per request and totals per run, from the recorded steps. Empty data is None."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from engine.events import Admitted, Preempted, RequestAborted, RequestArrived, RequestFinished, Scheduled, TokenSampled
from engine.timeline import Step


@dataclass(frozen=True, slots=True)
class RequestMetrics:
    """One request. Times in milliseconds of measured engine time, steps by index; None where it has not happened.

    `ttft_ms` arrival → first token; `tpot_ms` mean time per output token after the first; `e2e_ms` arrival → finish.
    """

    request: str
    arrived_step: int
    first_token_step: int | None
    finished_step: int | None
    ttft_ms: float | None
    tpot_ms: float | None
    e2e_ms: float | None
    output_tokens: int


@dataclass(frozen=True, slots=True)
class RunMetrics:
    """The run so far. `computed_tokens` = `useful_tokens` + `recomputed_tokens`.

    Hits are split into first lookups and finds of a resumed request, which are mostly its own blocks.
    """

    requests: tuple[RequestMetrics, ...]
    steps: int
    computed_tokens: int
    recomputed_tokens: int
    output_tokens: int
    first_hit_tokens: int
    first_lookup_tokens: int
    resumed_hit_tokens: int
    preemptions: int
    peak_owned_blocks: int

    @property
    def useful_tokens(self) -> int:
        return self.computed_tokens - self.recomputed_tokens

    @property
    def hit_rate(self) -> float | None:
        """Share of prompt tokens found in the cache at first admission, or None before any admission."""
        return self.first_hit_tokens / self.first_lookup_tokens if self.first_lookup_tokens else None


@dataclass(slots=True)
class _Life:
    arrived_step: int
    arrived_ms: float
    known: int
    high_water: int = 0
    first_step: int | None = None
    first_ms: float | None = None
    last_ms: float | None = None
    finished_step: int | None = None
    finished_ms: float | None = None
    outputs: int = 0


def measure(steps: Sequence[Step]) -> RunMetrics:
    """Adds up `steps`, which must start with the first of the run."""
    lives: dict[str, _Life] = {}
    computed = recomputed = first_hits = first_lookups = resumed_hits = preemptions = 0
    clock = 0.0
    for step in steps:
        began, clock = clock, clock + step.timings.total_ms
        for event in step.events:
            match event:
                case RequestArrived():
                    lives[event.request] = _Life(step.index, began, event.prompt_tokens)
                case Admitted(resumed=True):
                    resumed_hits += event.hit_tokens
                case Admitted():
                    first_hits += event.hit_tokens
                    first_lookups += lives[event.request].known
                case Scheduled():
                    life = lives[event.request]
                    computed += event.tokens
                    end = event.start + event.tokens
                    recomputed += max(0, min(end, life.high_water) - event.start)
                    life.high_water = max(life.high_water, end)
                case TokenSampled():
                    _note_token(lives[event.request], step.index, clock)
                case Preempted():
                    preemptions += 1
                case RequestFinished() | RequestAborted() if event.request in lives:
                    lives[event.request].finished_step, lives[event.request].finished_ms = step.index, clock
    return RunMetrics(
        requests=tuple(_request(name, life) for name, life in lives.items()),
        steps=len(steps),
        computed_tokens=computed,
        recomputed_tokens=recomputed,
        output_tokens=sum(life.outputs for life in lives.values()),
        first_hit_tokens=first_hits,
        first_lookup_tokens=first_lookups,
        resumed_hit_tokens=resumed_hits,
        preemptions=preemptions,
        peak_owned_blocks=max((step.scheduled.pool.owned for step in steps), default=0),
    )


def _note_token(life: _Life, step: int, clock: float) -> None:
    life.outputs += 1
    life.last_ms = clock
    if life.first_ms is None:
        life.first_step, life.first_ms = step, clock


def _request(name: str, life: _Life) -> RequestMetrics:
    first, last, finished = life.first_ms, life.last_ms, life.finished_ms
    return RequestMetrics(
        request=name,
        arrived_step=life.arrived_step,
        first_token_step=life.first_step,
        finished_step=life.finished_step,
        ttft_ms=None if first is None else first - life.arrived_ms,
        tpot_ms=None if first is None or last is None or life.outputs < 2 else (last - first) / (life.outputs - 1),
        e2e_ms=None if finished is None else finished - life.arrived_ms,
        output_tokens=life.outputs,
    )

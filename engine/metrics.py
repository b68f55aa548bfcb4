"""What a run cost and gave, from the recorded steps, on one clock. What has not happened is None, never zero.

Latencies as in `vllm bench serve`; goodput as in DistServe (Zhong et al., OSDI 2024, §2).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from itertools import pairwise
from math import inf

from engine.clock import Clock, ClockKind, Measured
from engine.errors import UserError
from engine.events import (
    Admitted,
    Forked,
    Preempted,
    RequestAborted,
    RequestArrived,
    RequestFinished,
    Scheduled,
    TokenSampled,
)
from engine.fairness import Fairness, FairnessMeter, ServiceWeights
from engine.spread import Spread, spread
from engine.timeline import Step
from engine.usage import Usage, UsageMeter


@dataclass(frozen=True, slots=True)
class Targets:
    """Latency targets of a request in milliseconds; None does not ask for any. A single token has no TPOT to miss."""

    ttft_ms: float | None = None
    tpot_ms: float | None = None

    def __post_init__(self) -> None:
        for each in fields(self):
            value = getattr(self, each.name)
            if value is not None and not 0 < value < inf:
                raise UserError("metrics.target", field=each.name, value=value)

    def missed(self, request: RequestMetrics) -> bool:
        """An unfinished or aborted request misses them too."""
        pairs = ((request.ttft_ms, self.ttft_ms), (request.tpot_ms, self.tpot_ms))
        late = any(value is not None and target is not None and value > target for value, target in pairs)
        return late or request.finished_step is None


@dataclass(frozen=True, slots=True)
class Goodput:
    """Requests that met all `targets`, as a share of those that arrived and per second of the run."""

    targets: Targets
    met: int
    share: float | None
    per_second: float | None


@dataclass(frozen=True, slots=True)
class RequestMetrics:
    """One request: steps by index, times in ms of the run's clock, tokens; None where it has not happened.

    `queue_ms` arrival → first compute; `ttft_ms` arrival → first token; `tpot_ms` mean time per output token after the
    first; `itl_ms` each gap between two tokens; `e2e_ms` arrival → finish; `suspended_ms` preempted → admitted again.
    `computed_tokens` = `useful_tokens` (positions valid for the first time) + `recomputed_tokens`.
    """

    request: str
    prompt_tokens: int
    arrived_step: int
    first_compute_step: int | None
    first_token_step: int | None
    finished_step: int | None
    aborted: bool
    queue_ms: float | None
    ttft_ms: float | None
    tpot_ms: float | None
    itl_ms: tuple[float, ...]
    max_itl_ms: float | None
    e2e_ms: float | None
    suspended_ms: float
    computed_tokens: int
    useful_tokens: int
    recomputed_tokens: int
    output_tokens: int
    first_hit_tokens: int | None
    resumed_hit_tokens: int
    preemptions: int


@dataclass(frozen=True, slots=True)
class RunMetrics:
    """The run so far, on the clock it names.

    Hits are split into first lookups (`hit_rate`: share of the prompt tokens of admitted requests) and finds of resumed
    requests, which are mostly their own blocks. `suspended` is over the requests that were preempted.
    """

    clock: ClockKind
    clock_name: str
    steps: int
    duration_ms: float | None
    requests: tuple[RequestMetrics, ...]
    queue: Spread | None
    ttft: Spread | None
    tpot: Spread | None
    itl: Spread | None
    e2e: Spread | None
    suspended: Spread | None
    computed_tokens: int
    useful_tokens: int
    recomputed_tokens: int
    output_tokens: int
    output_tokens_per_second: float | None
    first_lookup_tokens: int
    first_hit_tokens: int
    hit_rate: float | None
    resumed_hit_tokens: int
    preemptions: int
    goodput: Goodput | None
    usage: Usage
    fairness: Fairness


def measure(
    steps: Sequence[Step],
    clock: Clock | None = None,
    *,
    targets: Targets | None = None,
    clients: Mapping[str, str] | None = None,
    weights: ServiceWeights | None = None,
) -> RunMetrics:
    """Adds up `steps`, which must start with the first of the run. Goodput needs `targets`.

    `clock` is by default the measured one. `clients`: request id → client; one not in it is a client of its own.
    """
    clock = clock or Measured()
    lives: dict[str, _Life] = {}
    usage = UsageMeter(clock)
    fairness = FairnessMeter(weights or ServiceWeights(), clients or {})
    now = 0.0
    for step in steps:
        began, now = now, now + clock.step_ms(step)
        _note(lives, step, began, now)
        usage.see(step)
        fairness.see(step, began, now)
    requests = tuple(life.result(now) for life in lives.values())
    outputs = sum(each.output_tokens for each in requests)
    first_lookups = sum(each.prompt_tokens for each in requests if each.first_hit_tokens is not None)
    first_hits = sum(each.first_hit_tokens or 0 for each in requests)
    return RunMetrics(
        clock=clock.kind,
        clock_name=clock.name,
        steps=len(steps),
        duration_ms=now if steps else None,
        requests=requests,
        queue=_spread_of(requests, "queue_ms"),
        ttft=_spread_of(requests, "ttft_ms"),
        tpot=_spread_of(requests, "tpot_ms"),
        itl=spread([gap for each in requests for gap in each.itl_ms]),
        e2e=_spread_of(requests, "e2e_ms"),
        suspended=spread([each.suspended_ms for each in requests if each.preemptions]),
        computed_tokens=sum(each.computed_tokens for each in requests),
        useful_tokens=sum(each.useful_tokens for each in requests),
        recomputed_tokens=sum(each.recomputed_tokens for each in requests),
        output_tokens=outputs,
        output_tokens_per_second=outputs / now * 1e3 if now else None,
        first_lookup_tokens=first_lookups,
        first_hit_tokens=first_hits,
        hit_rate=first_hits / first_lookups if first_lookups else None,
        resumed_hit_tokens=sum(each.resumed_hit_tokens for each in requests),
        preemptions=sum(each.preemptions for each in requests),
        goodput=None if targets is None else _goodput(targets, requests, now),
        usage=usage.result(),
        fairness=fairness.result(),
    )


def _spread_of(requests: Sequence[RequestMetrics], name: str) -> Spread | None:
    return spread([value for each in requests if (value := getattr(each, name)) is not None])


def _goodput(targets: Targets, requests: Sequence[RequestMetrics], duration_ms: float) -> Goodput:
    met = sum(not targets.missed(each) for each in requests)
    return Goodput(
        targets=targets,
        met=met,
        share=met / len(requests) if requests else None,
        per_second=met / duration_ms * 1e3 if duration_ms else None,
    )


@dataclass(slots=True)
class _Life:
    request: str
    prompt_tokens: int
    arrived_step: int
    arrived_ms: float
    first_compute_step: int | None = None
    first_compute_ms: float | None = None
    first_token_step: int | None = None
    token_ms: list[float] = field(default_factory=list)
    finished_step: int | None = None
    finished_ms: float | None = None
    aborted: bool = False
    suspended_from: float | None = None
    suspended_ms: float = 0.0
    high_water: int = 0  # positions computed at least once
    computed: int = 0
    recomputed: int = 0
    first_hit: int | None = None
    resumed_hit: int = 0
    preemptions: int = 0

    def resume(self, now: float) -> None:
        if self.suspended_from is not None:
            self.suspended_ms += now - self.suspended_from
            self.suspended_from = None

    def compute(self, event: Scheduled, step: int, began: float) -> None:
        if self.first_compute_step is None:
            self.first_compute_step, self.first_compute_ms = step, began
        end = event.start + event.tokens
        self.computed += event.tokens
        self.recomputed += max(0, min(end, self.high_water) - event.start)
        self.high_water = max(self.high_water, end)

    def result(self, now: float) -> RequestMetrics:
        self.resume(now)  # suspended up to the end of what was recorded
        tokens, arrived = self.token_ms, self.arrived_ms
        gaps = tuple(later - earlier for earlier, later in pairwise(tokens))
        return RequestMetrics(
            request=self.request,
            prompt_tokens=self.prompt_tokens,
            arrived_step=self.arrived_step,
            first_compute_step=self.first_compute_step,
            first_token_step=self.first_token_step,
            finished_step=self.finished_step,
            aborted=self.aborted,
            queue_ms=None if self.first_compute_ms is None else self.first_compute_ms - arrived,
            ttft_ms=tokens[0] - arrived if tokens else None,
            tpot_ms=(tokens[-1] - tokens[0]) / len(gaps) if gaps else None,
            itl_ms=gaps,
            max_itl_ms=max(gaps, default=None),
            e2e_ms=None if self.finished_ms is None else self.finished_ms - arrived,
            suspended_ms=self.suspended_ms,
            computed_tokens=self.computed,
            useful_tokens=self.computed - self.recomputed,
            recomputed_tokens=self.recomputed,
            output_tokens=len(tokens),
            first_hit_tokens=self.first_hit,
            resumed_hit_tokens=self.resumed_hit,
            preemptions=self.preemptions,
        )


def _note(lives: dict[str, _Life], step: Step, began: float, ended: float) -> None:
    """What a step did to each request. A preempted one stood still from the step's beginning on."""
    for event in step.events:
        match event:
            case RequestArrived():
                lives[event.request] = _Life(event.request, event.prompt_tokens, step.index, began)
            case Forked():
                lives[event.request].high_water = event.tokens
            case Admitted(resumed=True):
                lives[event.request].resume(began)
                lives[event.request].resumed_hit += event.hit_tokens
            case Admitted():
                lives[event.request].first_hit = event.hit_tokens
            case Scheduled():
                lives[event.request].compute(event, step.index, began)
            case TokenSampled():
                life = lives[event.request]
                life.token_ms.append(ended)
                life.first_token_step = step.index if life.first_token_step is None else life.first_token_step
            case Preempted():
                lives[event.request].preemptions += 1
                lives[event.request].suspended_from = began
            case RequestFinished():
                lives[event.request].finished_step, lives[event.request].finished_ms = step.index, ended
            case RequestAborted() if event.request in lives:
                lives[event.request].aborted = True
                lives[event.request].resume(began)

"""Runs a scenario or a trace to its end without a browser, and shows it as a table or as JSON."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import yaml
from rich.table import Table

from engine.clock import Clock, Measured
from engine.config import EngineConfig
from engine.engine import Engine
from engine.events import Admitted, Preempted, RequestAborted, RequestFinished, WaitReason
from engine.kv_dtype import bytes_per_token, cache_layout
from engine.metrics import RunMetrics, Targets, measure
from engine.model.load import LoadedModel, load_model
from engine.model_runner import ModelRunner, fit_to_model
from engine.request import RequestSpec
from engine.timeline import Step
from scenarios import claims, load
from scenarios.errors import Notice, ScenarioError, notice
from scenarios.schema import Scenario
from scenarios.traces.fit import DEFAULT_FIRST, fit, suggest_step_seconds
from scenarios.traces.read import read_path

MAX_STEPS = 10_000
DEFAULT_MODEL = "smollm2"
_SCENARIO_FILES = (".yaml", ".yml")


@dataclass(frozen=True, slots=True)
class Options:
    """What the command line may change. `first`, `scale` and `step_seconds` are about traces."""

    settings: Mapping[str, object]
    model: str | None = None
    weights: str | None = None
    first: int = DEFAULT_FIRST
    scale: int = 1
    step_seconds: float | None = None


@dataclass(frozen=True, slots=True)
class Job:
    """Requests, a configuration and a model, ready to run. `scenario` is set if its claims apply."""

    name: str
    loaded: LoadedModel
    config: EngineConfig
    requests: tuple[RequestSpec, ...]
    notices: tuple[Notice, ...] = ()
    scenario: Scenario | None = None


def prepare(name: str, options: Options) -> Job:
    """A scenario of the library, a scenario file (.yaml) or a trace file (anything else)."""
    path = Path(name)
    if name in load.library() or path.suffix in _SCENARIO_FILES:
        return _scenario_job(load.load(name), path.stem, options)
    if not path.is_file():
        raise ScenarioError("run.no_file", name=name, known=", ".join(load.library()))
    trace = read_path(path)
    loaded = load_model(options.model or DEFAULT_MODEL, weights=options.weights)
    config = fit_to_model(EngineConfig().with_changes(dict(options.settings)), loaded.spec)
    seconds = suggest_step_seconds(trace, options.first) if options.step_seconds is None else options.step_seconds
    fitted = fit(trace, config, loaded.tokenizer, first=options.first, scale=options.scale, step_seconds=seconds)
    return Job(trace.name, loaded, config, fitted.requests, (*trace.notices, *fitted.notices))


def _scenario_job(scenario: Scenario, name: str, options: Options) -> Job:
    loaded = load_model(options.model or scenario.model, weights=options.weights)
    config = fit_to_model(load.config(scenario).with_changes(dict(options.settings)), loaded.spec)
    as_written = not options.settings and loaded.name == scenario.model and loaded.model.weights == "fp32"
    requests = load.requests(scenario, loaded.tokenizer)
    return Job(name, loaded, config, requests, scenario=scenario if as_written else None)


def steps(job: Job) -> Iterator[Step]:
    """Steps until every request is over. Raises ScenarioError if that takes too long."""
    engine = Engine(job.config, ModelRunner(job.loaded, job.config))
    for spec in job.requests:
        engine.add(spec)
    while not engine.is_done:
        if engine.next_step >= MAX_STEPS:
            raise ScenarioError("run.too_long", limit=MAX_STEPS)
        yield engine.step()


def metrics(job: Job, ran: Sequence[Step], clock: Clock, targets: Targets | None) -> RunMetrics:
    """What the run cost and gave. A client is a salt (a tenant); measured bytes are those of the job's own model."""
    if isinstance(clock, Measured):
        clock = Measured(bytes_per_token(cache_layout(job.loaded.spec, job.config, job.loaded.model.dtype)))
    clients = {spec.id: spec.salt for spec in job.requests if spec.salt is not None}
    return measure(ran, clock, targets=targets, clients=clients)


def complaint(job: Job, ran: Sequence[Step]) -> ScenarioError | None:
    """The first broken law or false claim of a run, as the error it is."""
    for step in ran:
        for law in step.laws:
            if not law.holds:
                return ScenarioError("run.law", law=law.law, step=step.index, culprit=law.broken_by)
    for note in job.scenario.notes if job.scenario else ():
        if note.step >= len(ran):
            return ScenarioError("run.note_late", step=note.step, last=len(ran) - 1)
        for claim in note.claims:
            if not claims.check(claim, ran[: note.step + 1]):
                return ScenarioError("run.claim", claim=claim, step=note.step)
    return None


def setting(text: str) -> tuple[str, object]:
    """`name=value` of --set, the value read as YAML reads it: numbers, true, false, null, words."""
    name, equals, value = text.partition("=")
    if not equals or not name.strip():
        raise ScenarioError("run.bad_set", text=text)
    try:
        return name.strip(), yaml.safe_load(value)
    except yaml.YAMLError as error:
        raise ScenarioError("run.bad_set", text=text) from error


def table(ran: Sequence[Step]) -> Table:
    """One row a step, for a terminal."""
    result = Table(title=None, show_lines=False, pad_edge=False)
    for column in ("step", "scheduled", "hits", "running", "waiting", "free", "preempted", "finished", "laws"):
        result.add_column(column, justify="right" if column in ("step", "free") else "left")
    for step in ran:
        broken = [str(law.law) for law in step.laws if not law.holds]
        result.add_row(
            str(step.index),
            _pairs(step.scheduled_tokens),
            _pairs(_hits(step)),
            " ".join(step.snapshot.running),
            ", ".join(f"{request} ({_reason(reason)})" for request, reason in _waiting(step).items()),
            str(len(step.snapshot.pool.free_queue)),
            " ".join(_preempted(step)),
            ", ".join(f"{request} ({reason})" for request, reason in _finished(step).items()),
            "✗ " + " ".join(broken) if broken else "✓",
        )
    return result


def document(job: Job, ran: Sequence[Step], measured: RunMetrics) -> dict[str, Any]:
    """The whole run as JSON."""
    return {
        "workload": job.name,
        "model": job.loaded.name,
        "config": asdict(job.config),
        "notices": [str(each) for each in job.notices],
        "requests": [
            {
                "id": spec.id,
                "arrival_step": spec.arrival_step,
                "prompt_tokens": len(spec.prompt),
                "max_tokens": spec.max_tokens,
                "scripted": spec.output is not None,
            }
            for spec in job.requests
        ],
        "steps": [_step(step) for step in ran],
        "text": dict(ran[-1].text) if ran else {},
        "summary": {
            "steps": len(ran),
            "scheduled_tokens": sum(sum(step.scheduled_tokens.values()) for step in ran),
            "sampled_tokens": sum(len(step.sampled) for step in ran),
            "hit_tokens": sum(sum(_hits(step).values()) for step in ran),
            "preemptions": sum(len(_preempted(step)) for step in ran),
            "laws_hold": all(law.holds for step in ran for law in step.laws),
        },
        "metrics": asdict(measured),
    }


def _step(step: Step) -> dict[str, Any]:
    waiting = _waiting(step)
    return {
        "step": step.index,
        "scheduled": dict(step.scheduled_tokens),
        "hits": _hits(step),
        "preempted": _preempted(step),
        "finished": _finished(step),
        "running": list(step.snapshot.running),
        "waiting": [
            {"id": request, "reason": asdict(waiting[request]) if request in waiting else None}
            for request in step.snapshot.waiting
        ],
        "free_blocks": len(step.snapshot.pool.free_queue),
        "free_cached_blocks": step.snapshot.pool.free_cached,
        "broken_laws": [{"law": law.law, "by": law.broken_by} for law in step.laws if not law.holds],
    }


def _pairs(values: Mapping[str, int]) -> str:
    return " ".join(f"{name}:{value}" for name, value in values.items())


def _hits(step: Step) -> dict[str, int]:
    return {event.request: event.hit_tokens for event in step.events if isinstance(event, Admitted)}


def _preempted(step: Step) -> list[str]:
    return [event.request for event in step.events if isinstance(event, Preempted)]


def _finished(step: Step) -> dict[str, str]:
    over = {event.request: str(event.reason) for event in step.events if isinstance(event, RequestFinished)}
    return over | {event.request: "abort" for event in step.events if isinstance(event, RequestAborted)}


def _waiting(step: Step) -> dict[str, WaitReason]:
    return {view.id: view.wait_reason for view in step.snapshot.requests if view.wait_reason is not None}


def _reason(reason: WaitReason) -> str:
    return str(notice(f"wait.{reason.limit}", need=reason.need, have=reason.have, behind=reason.behind))

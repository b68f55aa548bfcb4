"""One workload under two configurations, run or replayed: where they part, and what each costs and gives."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields, replace
from typing import Any

from rich.table import Table

from engine.clock import Clock
from engine.config import EngineConfig
from engine.errors import UserError
from engine.metrics import RunMetrics, Targets, measure
from engine.timeline import Step
from scenarios import load, report, run
from scenarios.difference import Difference, Side, first_difference
from scenarios.errors import Notice, ScenarioError, notice
from scenarios.recording import replay
from scenarios.traces.fit import tokens_per_request

Changes = tuple[tuple[str, object], ...]


@dataclass(frozen=True, slots=True)
class Contender:
    """One side: its configuration, its steps and its metrics."""

    config: EngineConfig
    steps: tuple[Step, ...]
    metrics: RunMetrics

    @property
    def outputs(self) -> dict[str, list[int]]:
        """Request → the tokens it got, in order."""
        tokens: dict[str, list[int]] = {}
        for step in self.steps:
            for request, token in step.sampled.items():
                tokens.setdefault(request, []).append(token)
        return tokens


@dataclass(frozen=True, slots=True)
class Comparison:
    """Two runs of the same requests on one clock; `difference` is None if they decide the same to the end."""

    a: Contender
    b: Contender
    difference: Difference | None

    @property
    def settings(self) -> dict[str, tuple[object, object]]:
        """Fields of the configuration that differ: name → (a's, b's)."""
        a, b = self.a.config, self.b.config
        pairs = ((each.name, (getattr(a, each.name), getattr(b, each.name))) for each in fields(EngineConfig))
        return {name: pair for name, pair in pairs if pair[0] != pair[1]}

    @property
    def outputs_differ(self) -> list[str]:
        """Requests that did not get the same tokens: the configurations then differ in more than cost."""
        a, b = self.a.outputs, self.b.outputs
        return [name for name in dict.fromkeys((*a, *b)) if a.get(name) != b.get(name)]


@dataclass(frozen=True, slots=True)
class RunComparison(Comparison):
    """A comparison of two runs on a model, with the jobs that they were."""

    jobs: tuple[run.Job, run.Job]


def compare(name: str, a: run.Options, b: run.Options, clock: Clock, targets: Targets | None) -> RunComparison:
    """Runs both. A trace is clipped to what the smaller of the two can hold, so that both get the same requests."""
    jobs = run.prepare(name, a), run.prepare(name, b)
    smaller = min(jobs, key=lambda job: tokens_per_request(job.config))
    first, second = (replace(job, requests=smaller.requests, notices=smaller.notices) for job in jobs)
    left, right = _run("a", first, clock, targets), _run("b", second, clock, targets)
    return RunComparison(left, right, _parting(left, right), (first, second))


def compare_recorded(name: str, a: Changes, b: Changes, clock: Clock, targets: Targets | None = None) -> Comparison:
    """A library scenario's recorded tokens under its configuration with the changes `a`, and with `b`; no model runs.

    Raises ScenarioError naming the side whose configuration cannot take the scenario's requests.
    """
    left, right = _replay("a", name, a, clock, targets), _replay("b", name, b, clock, targets)
    return Comparison(left, right, _parting(left, right))


def _parting(a: Contender, b: Contender) -> Difference | None:
    return first_difference(a.steps, b.steps, a.config, b.config)


def _run(side: str, job: run.Job, clock: Clock, targets: Targets | None) -> Contender:
    try:
        next(run.steps(job))  # the first launches of a process are slow, which is not side a's fault
        steps = tuple(run.steps(job))
    except UserError as error:
        raise ScenarioError("compare.refused", side=side.upper(), reason=error) from error
    return Contender(job.config, steps, run.metrics(job, steps, clock, targets))


def _replay(side: str, name: str, changes: Changes, clock: Clock, targets: Targets | None) -> Contender:
    scenario = load.load(name)
    try:
        steps = replay(name, changes)
    except UserError as error:
        raise ScenarioError("compare.refused", side=side.upper(), reason=error) from error
    clients = {entry.id: entry.salt for entry in scenario.requests if entry.salt is not None}
    metrics = measure(steps, clock, targets=targets, clients=clients)
    return Contender(scenario.config.with_changes(dict(changes)), steps, metrics)


def document(found: RunComparison) -> dict[str, Any]:
    """The comparison as JSON."""
    return {
        "workload": found.jobs[0].name,
        "model": found.jobs[0].loaded.name,
        "clock": found.a.metrics.clock,
        "clock_name": found.a.metrics.clock_name,
        "notices": [str(each) for each in found.jobs[0].notices],
        "settings": {name: list(pair) for name, pair in found.settings.items()},
        "identical": found.difference is None,
        "first_difference": None if found.difference is None else _difference(found.difference),
        "outputs_differ": found.outputs_differ,
        "a": _contender(found.a),
        "b": _contender(found.b),
        "difference": {
            row.path: _minus(*(report.value(side.metrics, row.path) for side in (found.b, found.a)))
            for row in report.compared_rows()
        },
    }


def _contender(side: Contender) -> dict[str, Any]:
    return {"config": asdict(side.config), "steps": len(side.steps), "metrics": asdict(side.metrics)}


def _difference(found: Difference) -> dict[str, Any]:
    return {
        "step": found.step,
        "kind": found.kind,
        "request": found.request,
        "a": _side(found.a),
        "b": _side(found.b),
        "why": str(found.why),
    }


def _side(side: Side) -> dict[str, Any]:
    account = side.account
    return {
        "did": str(side.did),
        "because": None if side.because is None else str(side.because),
        "limit": None if side.limit is None else asdict(side.limit),
        "admitted": account.admitted is not None,
        "hit_tokens": None if account.admitted is None else account.admitted.hit_tokens,
        "start": None if account.scheduled is None else account.scheduled.start,
        "tokens": 0 if account.scheduled is None else account.scheduled.tokens,
        "blocks": list(account.blocks),
        "preempted_for": None if account.preempted is None else account.preempted.beneficiary,
        "swapped_out": account.swapped,
        "waits": None if account.waited is None else asdict(account.waited),
        "finished": None if account.finished is None else account.finished.reason,
    }


def _minus(b: report.Number, a: report.Number) -> report.Number:
    return None if a is None or b is None else b - a


def sentences(found: Comparison) -> list[Notice]:
    """What differs in the settings, where decisions part and why, and whether answers do."""
    said = [
        notice("compare.setting", name=name, a=a, b=b) for name, (a, b) in found.settings.items()
    ]  # fmt: skip
    if found.difference is None:
        said.append(notice("compare.same", steps=len(found.a.steps)))
    else:
        said.append(found.difference.why)
    differ = found.outputs_differ
    said.append(notice("compare.outputs_differ", requests=", ".join(differ)) if differ else notice("compare.outputs"))
    return said


def table(found: Comparison) -> Table:
    """Every metric of both sides that has data on one of them, and b − a."""
    result = Table(pad_edge=False)
    for column in ("", "a", "b", "b − a"):
        result.add_column(column, justify="right" if column else "left")
    for row in report.compared_rows():
        a, b = (report.value(side.metrics, row.path) for side in (found.a, found.b))
        if a is not None or b is not None:
            result.add_row(report.name(row), *(report.shown(each, row.unit) for each in (a, b, _minus(b, a))))
    return result


def sides(settings: Sequence[str], a: Sequence[str], b: Sequence[str]) -> tuple[Mapping[str, object], ...]:
    """The settings of both sides from the command line: those for both, then each one's own."""
    common = dict(run.setting(text) for text in settings)
    return tuple({**common, **dict(run.setting(text) for text in own)} for own in (a, b))

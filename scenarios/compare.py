"""Runs one workload under two configurations, and puts side by side where they part and what each costs and gives."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields, replace
from typing import Any

from rich.table import Table

from engine.clock import Clock
from engine.config import EngineConfig
from engine.metrics import RunMetrics, Targets
from engine.timeline import Step
from scenarios import report, run
from scenarios.difference import Difference, Side, first_difference
from scenarios.errors import Notice, notice
from scenarios.traces.fit import tokens_per_request


@dataclass(frozen=True, slots=True)
class Contender:
    """One side: its job, its steps and its metrics."""

    job: run.Job
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
        a, b = self.a.job.config, self.b.job.config
        pairs = ((each.name, (getattr(a, each.name), getattr(b, each.name))) for each in fields(EngineConfig))
        return {name: pair for name, pair in pairs if pair[0] != pair[1]}

    @property
    def outputs_differ(self) -> list[str]:
        """Requests that did not get the same tokens: the configurations then differ in more than cost."""
        a, b = self.a.outputs, self.b.outputs
        return [name for name in dict.fromkeys((*a, *b)) if a.get(name) != b.get(name)]


def compare(name: str, a: run.Options, b: run.Options, clock: Clock, targets: Targets | None) -> Comparison:
    """Runs both. A trace is clipped to what the smaller of the two can hold, so that both get the same requests."""
    jobs = run.prepare(name, a), run.prepare(name, b)
    smaller = min(jobs, key=lambda job: tokens_per_request(job.config))
    left, right = (
        _run(replace(job, requests=smaller.requests, notices=smaller.notices), clock, targets) for job in jobs
    )
    parting = first_difference(left.steps, right.steps, left.job.config, right.job.config)
    return Comparison(left, right, parting)


def _run(job: run.Job, clock: Clock, targets: Targets | None) -> Contender:
    steps = tuple(run.steps(job))
    return Contender(job, steps, run.metrics(job, steps, clock, targets))


def document(found: Comparison) -> dict[str, Any]:
    """The comparison as JSON."""
    return {
        "workload": found.a.job.name,
        "model": found.a.job.loaded.name,
        "clock": found.a.metrics.clock,
        "clock_name": found.a.metrics.clock_name,
        "notices": [str(each) for each in found.a.job.notices],
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
    return {"config": asdict(side.job.config), "steps": len(side.steps), "metrics": asdict(side.metrics)}


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

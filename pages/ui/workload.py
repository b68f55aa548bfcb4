"""What a visitor steps through: a scenario or a trace, made ready for an engine."""

from __future__ import annotations

from dataclasses import dataclass

from engine.config import EngineConfig
from engine.engine import Engine
from engine.model.load import LoadedModel
from engine.model_runner import ModelRunner, fit_to_model
from engine.request import RequestSpec
from scenarios import load
from scenarios.traces.fit import FittedTrace, fit
from scenarios.traces.record import Trace

# Room for sixteen long requests on SmolLM2 in about 100 MB of KV.
TRACE_CONFIG = EngineConfig(block_size=16, num_blocks=128, max_num_batched_tokens=256, max_num_seqs=16)


@dataclass(frozen=True)
class Workload:
    """Requests and configuration under a `key` that tells two workloads apart; `scenario` names its source, if any."""

    key: str
    config: EngineConfig
    requests: tuple[RequestSpec, ...]
    scenario: str | None = None

    @property
    def scripted(self) -> tuple[str, ...]:
        """Requests whose output is given rather than sampled, which the page has to say."""
        return tuple(spec.id for spec in self.requests if spec.output is not None)


@dataclass(frozen=True)
class TraceChoice:
    """A visitor's trace and how it becomes a workload: how many requests, lengths divided by what, seconds a step.

    Fitted to a model only when one is known, since each has its own tokenizer and length limit.
    """

    key: str
    trace: Trace
    first: int
    scale: int
    step_seconds: float

    def fitted(self, loaded: LoadedModel) -> FittedTrace:
        config = fit_to_model(TRACE_CONFIG, loaded.spec)
        return fit(
            self.trace,
            config,
            loaded.tokenizer,
            first=self.first,
            scale=self.scale,
            step_seconds=self.step_seconds,
        )

    def workload(self, choice: str, loaded: LoadedModel) -> Workload:
        config = fit_to_model(TRACE_CONFIG, loaded.spec)
        return Workload(f"{self.key}@{choice}", config, self.fitted(loaded).requests)


def scenario_workload(name: str, choice: str, loaded: LoadedModel) -> Workload:
    """A library scenario, its texts tokenised for the model at hand."""
    scenario = load.load(name)
    return Workload(f"{name}@{choice}", load.config(scenario), load.requests(scenario, loaded.tokenizer), name)


def start(workload: Workload, loaded: LoadedModel) -> Engine:
    """A fresh engine with all of the workload's requests given to it; raises UserError naming one it cannot take."""
    config = fit_to_model(workload.config, loaded.spec)
    engine = Engine(config, ModelRunner(loaded, config))
    for spec in workload.requests:
        engine.add(spec)
    return engine

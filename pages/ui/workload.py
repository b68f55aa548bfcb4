"""What a visitor steps through: a scenario or a trace, made ready for an engine."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from functools import cached_property

from engine.config import EngineConfig
from engine.engine import Engine
from engine.model.load import LoadedModel
from engine.model_runner import ModelRunner, fit_to_model
from engine.request import RequestSpec
from scenarios import load
from scenarios.schema import RequestEntry
from scenarios.traces.fit import FittedTrace, fit
from scenarios.traces.record import Trace

# Room for sixteen long requests on SmolLM2 in about 100 MB of KV.
TRACE_CONFIG = EngineConfig(block_size=16, num_blocks=128, max_num_batched_tokens=256, max_num_seqs=16)


@dataclass(frozen=True)
class TraceChoice:
    """A visitor's trace and how it becomes a workload: how many requests, lengths divided by what, seconds a step.

    `key` is a checksum of the file and these settings. Fitted to a model only when one is known, since each has its
    own tokenizer and length limit.
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
        return Workload(f"{self.key}@{choice}", config, self.fitted(loaded).requests, loaded, trace=self)


@dataclass(frozen=True)
class Workload:
    """Requests, configuration and model under a `key` that tells two workloads apart.

    `scenario` or `trace` names where they come from.
    """

    key: str
    config: EngineConfig
    requests: tuple[RequestSpec, ...]
    loaded: LoadedModel
    scenario: str | None = None
    trace: TraceChoice | None = None

    @property
    def scripted(self) -> tuple[str, ...]:
        """Requests whose output is given rather than sampled, which the page has to say."""
        return tuple(spec.id for spec in self.requests if spec.output is not None)

    @cached_property
    def checksum(self) -> str:
        """Changes with anything that decides how the run goes."""
        decides = [asdict(self.config), [asdict(spec) for spec in self.requests]]
        return hashlib.sha256(json.dumps(decides, default=sorted).encode()).hexdigest()[:16]

    def request(self, entry: RequestEntry) -> RequestSpec:
        """A request written as in a scenario file, in the tokens of this workload's model."""
        return load.request(entry, self.loaded.tokenizer)

    def prompts(self, added: Mapping[str, tuple[int, ...]]) -> dict[str, str]:
        """Request id → prompt as text, for the workload's requests and those `added` by hand."""
        tokens = {spec.id: spec.prompt for spec in self.requests} | dict(added)
        return {name: self.loaded.tokenizer.decode(prompt) for name, prompt in tokens.items()}

    def engine(self, config: EngineConfig) -> Engine:
        """A fresh engine with all of the requests given to it; raises UserError naming one it cannot take."""
        fitting = fit_to_model(config, self.loaded.spec)
        engine = Engine(fitting, ModelRunner(self.loaded, fitting))
        for spec in self.requests:
            engine.add(spec)
        return engine


def scenario_workload(name: str, choice: str, loaded: LoadedModel) -> Workload:
    """A library scenario, its texts tokenised for the model at hand."""
    scenario = load.load(name)
    requests = load.requests(scenario, loaded.tokenizer)
    return Workload(f"{name}@{choice}", load.config(scenario), requests, loaded, scenario=name)

"""What a visitor steps through: a scenario or a trace, made ready for an engine."""

from __future__ import annotations

from dataclasses import dataclass

from engine.config import EngineConfig
from engine.engine import Engine
from engine.model.load import LoadedModel
from engine.model_runner import ModelRunner, fit_to_model
from engine.request import RequestSpec


@dataclass(frozen=True)
class Workload:
    """Requests and configuration under a `key` that tells two workloads apart."""

    key: str
    config: EngineConfig
    requests: tuple[RequestSpec, ...]

    @property
    def scripted(self) -> tuple[str, ...]:
        """Requests whose output is given rather than sampled, which the page has to say."""
        return tuple(spec.id for spec in self.requests if spec.output is not None)


def start(workload: Workload, loaded: LoadedModel) -> Engine:
    """A fresh engine with all of the workload's requests given to it; raises UserError naming one it cannot take."""
    config = fit_to_model(workload.config, loaded.spec)
    engine = Engine(config, ModelRunner(loaded, config))
    for spec in workload.requests:
        engine.add(spec)
    return engine

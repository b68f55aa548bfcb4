"""Launches to look inside: an engine run up to a step and kept there, with the step's launches captured."""

from __future__ import annotations

import json
import threading
from collections import OrderedDict
from dataclasses import dataclass, field

from engine.capture import Capture, DenseKV, capture, dense_kv
from engine.engine import Engine
from engine.kv_error import LayerError, kv_errors
from engine.model_runner import ModelRunner
from engine.timeline import Step
from pages.ui.edits import Edit, replay
from pages.ui.text import PageError
from pages.ui.workload import Workload

KEPT = 6  # engines, with their KV pools of a few MB each; a class looks at different steps


@dataclass(frozen=True)
class Source:
    """A run by what decides it: the workload and what was changed by hand."""

    workload: Workload
    edits: tuple[Edit, ...] = ()

    @property
    def key(self) -> str:
        return json.dumps(
            [self.workload.key, self.workload.checksum, [edit.model_dump(mode="json") for edit in self.edits]]
        )


@dataclass
class Looked:
    """One captured step; what takes a forward pass of its own is added when asked for."""

    source: str
    engine: Engine
    step: Step
    last: bool  # the run has no further step
    kept: Capture
    dense: dict[int, DenseKV] = field(default_factory=dict)
    errors: dict[int, tuple[LayerError, ...]] = field(default_factory=dict)

    @property
    def runner(self) -> ModelRunner:
        assert isinstance(self.engine.runner, ModelRunner)
        return self.engine.runner

    def dense_of(self, row: int) -> DenseKV:
        if row not in self.dense:
            self.dense[row] = dense_kv(self.runner.loaded.model, self.kept.tokens[row])
        return self.dense[row]

    def errors_of(self, row: int) -> tuple[LayerError, ...]:
        """What every KV dtype would cost each layer, with this launch's query tokens of the request."""
        if row not in self.errors:
            rows = self.kept.rows(row)
            self.errors[row] = kv_errors(self.runner.loaded, self.kept.tokens[row], queries=rows.stop - rows.start)
        return self.errors[row]


class Launches:
    """The engines kept, the one asked for last at the end. What is returned reads the engine's pool: use it at once."""

    def __init__(self, kept: int = KEPT) -> None:
        self._kept = kept
        self._looked: OrderedDict[str, Looked] = OrderedDict()
        self.lock = threading.RLock()  # guards the engines: two tabs may look at one

    def at(self, source: Source, wanted: int) -> Looked:
        """The launches of step `wanted`, or of the run's last step if it ends before.

        Raises UserError where that step launched nothing, or an edit cannot be made.
        """
        with self.lock:
            known = self._looked.pop(source.key, None)
            if known is not None and (known.step.index == wanted or (known.last and known.step.index < wanted)):
                self._looked[source.key] = known
                return known
            engine, step = self._run(source, known, wanted)
            assert isinstance(engine.runner, ModelRunner)
            found = Looked(source.key, engine, step, engine.is_done, capture(engine.runner, engine.requests, step))
            self._looked[source.key] = found
            while len(self._looked) > self._kept:
                self._looked.popitem(last=False)
            return found

    def _run(self, source: Source, known: Looked | None, wanted: int) -> tuple[Engine, Step]:
        """Goes on from where the engine stands if it can, else starts again."""
        if known is not None and not source.edits and known.step.index < wanted:
            engine, step = known.engine, known.step
            while engine.next_step <= wanted and not engine.is_done:
                step = engine.step()
            return engine, step
        engine, steps = replay(source.workload, source.edits, wanted + 1)
        if not steps:
            raise PageError("kernel.no_step")
        return engine, steps[-1]


LAUNCHES = Launches()

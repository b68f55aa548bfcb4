"""What a visitor changes by hand between two steps, as data: it can be replayed, saved, and taken back.

A run is its workload and its edits, since decisions are deterministic: a branch of the timeline is a list of edits.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, StrictInt, StrictStr

from engine.config import EngineConfig
from engine.engine import Engine
from engine.errors import UserError
from engine.timeline import Step
from pages.ui.text import PageError
from pages.ui.workload import Workload
from scenarios.schema import RequestEntry


class _Edit(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Add(_Edit):
    """A request, written as in a scenario file, that arrives at the beginning of `step`."""

    kind: Literal["add"] = "add"
    step: StrictInt = Field(ge=0)
    request: RequestEntry


class Abort(_Edit):
    """A request aborted at the beginning of `step`."""

    kind: Literal["abort"] = "abort"
    step: StrictInt = Field(ge=0)
    request: StrictStr


class Fork(_Edit):
    """A running request that becomes `n` more just before `step`."""

    kind: Literal["fork"] = "fork"
    step: StrictInt = Field(ge=0)
    request: StrictStr
    n: StrictInt = Field(default=1, ge=1, le=64)


class Configure(_Edit):
    """Another configuration. It holds for the whole run: a pool cannot change its block size half-way."""

    kind: Literal["config"] = "config"
    step: Literal[0] = 0
    changes: dict[StrictStr, Any]


Edit = Annotated[Add | Abort | Fork | Configure, Field(discriminator="kind")]


def branched(edits: Sequence[Edit], edit: Edit) -> tuple[Edit, ...]:
    """The edits once `edit` is made: those of later steps are gone with their steps.

    A new configuration replaces the one before and starts the same requests again, those added by hand included.
    """
    if isinstance(edit, Configure):
        return (edit, *(kept for kept in edits if not isinstance(kept, Configure)))
    return (*(kept for kept in edits if kept.step <= edit.step), edit)


def configured(workload: Workload, edits: Iterable[Edit]) -> EngineConfig:
    """The workload's configuration with the changes made by hand; raises UserError naming field and range."""
    changes = {name: value for edit in edits if isinstance(edit, Configure) for name, value in edit.changes.items()}
    return workload.config.with_changes(changes)


def added(workload: Workload, edits: Iterable[Edit]) -> dict[str, tuple[int, ...]]:
    """Request id → prompt tokens of the requests added by hand."""
    return {edit.request.id: workload.request(edit.request).prompt for edit in edits if isinstance(edit, Add)}


def replay(workload: Workload, edits: Sequence[Edit], steps: int) -> tuple[Engine, list[Step]]:
    """A fresh engine run for `steps` steps, each edit made where it was made; raises UserError if one is impossible.

    Edits made before step number `steps` itself are in the engine returned, ready for that step.
    """
    engine = workload.engine(configured(workload, edits))
    due = sorted((edit for edit in edits if not isinstance(edit, Configure)), key=lambda edit: edit.step, reverse=True)
    done: list[Step] = []
    while True:
        while due and due[-1].step <= engine.next_step:
            _make(due.pop(), engine, workload)
        if len(done) >= steps or (engine.is_done and not due):
            return engine, done
        done.append(engine.step())


def _make(edit: Edit, engine: Engine, workload: Workload) -> None:
    if isinstance(edit, Add):
        engine.add(replace(workload.request(edit.request), arrival_step=engine.next_step))
    elif isinstance(edit, Fork):
        engine.fork(edit.request, edit.n)
    elif isinstance(edit, Abort):
        request = engine.requests.get(edit.request)
        if request is None:
            raise UserError("request.unknown", id=edit.request)
        if request.status.is_over:
            raise PageError("edit.over", id=edit.request)
        engine.abort_at(edit.request, engine.next_step)

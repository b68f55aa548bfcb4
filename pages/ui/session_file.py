"""`.kvscope.json`: a visit as a file, which opens exactly that view again on another machine."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, StrictInt, StrictStr, ValidationError

from engine.errors import UserError
from engine.model.load import LoadedModel
from pages.figures.marks import Selection
from pages.ui.edits import Abort, Add, Configure, Fork
from pages.ui.session import Session
from pages.ui.text import Lang, PageError
from pages.ui.workload import TraceChoice, Workload, scenario_workload
from scenarios import load

VERSION = 1
SUFFIX = ".kvscope.json"
MAX_KB = 512


class _Part(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class TraceRef(_Part):
    """A trace is not in the file: what to upload, and how it was cut. `key` is a checksum of the file and the cut."""

    name: StrictStr
    key: StrictStr
    first: StrictInt
    scale: StrictInt
    step_seconds: float


class SelectionRef(_Part):
    kind: Literal["request", "block", "node"]
    id: StrictInt | StrictStr


class SessionFile(_Part):
    """`checksum` is that of the workload (`Workload.checksum`) on `model`; `config` holds what was changed in it."""

    kvscope: Literal[1] = 1
    scenario: StrictStr | None = None
    trace: TraceRef | None = None
    model: StrictStr
    checksum: StrictStr
    config: dict[StrictStr, Any] = {}
    edits: tuple[Annotated[Add | Abort | Fork, Field(discriminator="kind")], ...] = ()
    cursor: StrictInt = Field(default=-1, ge=-1)
    selection: SelectionRef | None = None
    lang: Lang = "en"


def save(session: Session, lang: Lang) -> str:
    """The visit as the text of a session file."""
    workload, chosen, trace = session.workload, session.selection, session.workload.trace
    content = SessionFile(
        scenario=workload.scenario,
        trace=TraceRef(
            name=trace.trace.name, key=trace.key, first=trace.first, scale=trace.scale, step_seconds=trace.step_seconds
        )
        if trace is not None
        else None,
        model=workload.loaded.name,
        checksum=workload.checksum,
        config={
            name: value for edit in session.edits if isinstance(edit, Configure) for name, value in edit.changes.items()
        },
        edits=tuple(edit for edit in session.edits if not isinstance(edit, Configure)),
        cursor=session.cursor,
        selection=None if chosen is None else SelectionRef(**asdict(chosen)),
        lang=lang,
    )
    return content.model_dump_json(indent=2, exclude_none=True)


def parse(data: bytes, name: str) -> SessionFile:
    """A session file's content, or PageError: one sentence that names the file and what is wrong with it."""
    if len(data) > MAX_KB * 1000:
        raise PageError("session.too_big", file=name, limit=MAX_KB)
    try:
        content = json.loads(data.decode("utf-8-sig"))
    except UnicodeDecodeError as error:
        raise PageError("session.not_text", file=name) from error
    except json.JSONDecodeError as error:
        raise PageError("session.not_json", file=name, line=error.lineno) from error
    except (RecursionError, ValueError) as error:  # nested too deep, numbers too long
        raise PageError("session.not_json", file=name, line=1) from error
    if not isinstance(content, dict) or "kvscope" not in content:
        raise PageError("session.other_file", file=name)
    if content["kvscope"] != VERSION:
        raise PageError("session.version", file=name, version=content["kvscope"], known=VERSION)
    try:
        return SessionFile.model_validate(content)
    except ValidationError as error:
        raise _sentence(error, name) from error


def workload_of(saved: SessionFile, choice: str, loaded: LoadedModel, trace: TraceChoice | None) -> Workload:
    """The workload that was saved; `trace` is the one this visitor has uploaded, if any.

    Raises PageError if it is not to be had, or has changed since, so that its steps would be others.
    """
    if loaded.name != saved.model:
        raise PageError("session.model", model=saved.model, loaded=loaded.name)
    if saved.trace is not None:
        if trace is None or trace.key != saved.trace.key:
            raise PageError("session.trace", **saved.trace.model_dump(exclude={"key"}))
        workload = trace.workload(choice, loaded)
    elif saved.scenario in load.library():
        workload = scenario_workload(saved.scenario, choice, loaded)
    else:
        raise PageError("session.scenario", scenario=saved.scenario or "–", known=", ".join(load.library()))
    if workload.checksum != saved.checksum:
        raise PageError("session.changed", name=saved.scenario or workload.key)
    return workload


def restore(saved: SessionFile, workload: Workload) -> Session:
    """The visit as it was, its cursor on the way to where it stood; raises UserError if an edit cannot be made."""
    config = (Configure(changes=saved.config),) if saved.config else ()
    session = Session(workload, (*config, *saved.edits))
    session.want(saved.cursor)
    session.seek(saved.cursor)
    if saved.selection is not None:
        session.select(Selection(saved.selection.kind, saved.selection.id))
    return session


def _sentence(error: ValidationError, name: str) -> UserError:
    """The first fault with the place of its field, such as `edits.2.request`."""
    fault = error.errors()[0]
    place = ".".join(str(part) for part in fault["loc"] if part not in ("add", "abort", "fork")) or "kvscope"
    key = {"missing": "session.missing_field", "extra_forbidden": "session.unknown_field"}.get(fault["type"])
    if key is not None:
        return PageError(key, file=name, field=place)
    cause = fault.get("ctx", {}).get("error")
    reason = str(cause) if isinstance(cause, UserError) else fault["msg"].removeprefix("Value error, ")
    return PageError("session.bad_field", file=name, field=place, reason=reason.rstrip("."))

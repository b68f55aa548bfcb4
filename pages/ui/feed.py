"""What the stage is fed: with the page the step in view, then over HTTP the frames it asks for ahead of need.

Streamlit's own way to the browser runs the script for each answer; stepping is too quick for that.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, StrictBool, StrictInt, StrictStr, ValidationError

from pages.figures.marks import Selection
from pages.ui import theme
from pages.ui.frame import cards, first_open, pack
from pages.ui.scene import Scene
from pages.ui.session import REGISTRY, Session
from pages.ui.text import Lang, listing, t
from pages.ui.theme import Look, Palette, ThemeName
from scenarios import load
from scenarios.schema import Note

Json = dict[str, Any]

WAIT_SECONDS = 0.3  # how long an answer may wait for a step that is being computed
MAX_ASKED = 16

_CSS_COLORS = (
    "page", "card", "line", "text", "muted", "accent", "used", "shared", "cached", "free", "new", "evicted", "hit",
    "preempted", "decode", "on_used", "free_line",
)  # fmt: skip
_CONTROLS = (
    "reset", "back", "step", "play", "end", "stop", "scrub", "clear", "loading", "no_plotly", "toolbar", "offline",
    "scrub_value", "scrub_start", "speed", "speed_slow", "speed_normal", "speed_fast",
)  # fmt: skip


_TOUR = ("controls", "blocks", "why", "change")  # the stops of stage_tour.js


class Chosen(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")
    kind: Literal["request", "block", "node"]
    id: StrictInt | Annotated[StrictStr, Field(max_length=200)]


class Ask(BaseModel):
    """What the browser asks for.

    `steps` in order of need; `newest`: if the first is not there yet, the newest instead. `panels`: those open.
    `have`: part hashes it need not be sent again. `cursor` tells where the visitor is, `select` what is selected.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")
    run: Annotated[StrictStr, Field(max_length=40)]
    cursor: StrictInt
    steps: Annotated[list[StrictInt], Field(max_length=MAX_ASKED)] = []
    newest: StrictBool = False
    panels: Annotated[list[StrictStr], Field(max_length=64)] = []
    have: Annotated[list[StrictStr], Field(max_length=1000)] = []
    lang: Lang
    theme: ThemeName
    look: Look = "desk"
    select: Chosen | None = None


def first(
    visitor: str, session: Session, name: ThemeName, lang: Lang, link: dict[str, str], look: Look = "desk"
) -> Json:
    """The data of `stage.mount`: words, colours, cards, and the step in view if it is computed.

    `link` holds the query parameters that the stage writes with step and selection; empty ones it takes out.
    """
    chosen = session.selection
    cache = session.engine.config.cache
    palette = theme.palette(name, look)
    return {
        "visitor": visitor,
        "lang": lang,
        "theme": palette.name,
        "look": look,
        "scale": palette.scale,
        "colors": {name: getattr(palette, name) for name in _CSS_COLORS} | {"mono": palette.mono},
        "words": {name: t(f"control.{name}", lang) for name in _CONTROLS},
        "tour": _tour(lang),
        "cards": cards(cache, lang, look),
        "link": link,
        "cursor": session.cursor,
        "reached": session.reached,
        "select": None if chosen is None else {"kind": chosen.kind, "id": chosen.id},
        **_reply(session, [min(session.cursor, session.last)], palette, lang, first_open(cache, look)),
    }


def _tour(lang: Lang) -> Json:
    stops = [{"title": t(f"tour.{name}", lang), "text": t(f"tour.{name}_text", lang)} for name in _TOUR]
    return {"stops": stops} | {name: t(f"tour.{name}", lang) for name in ("skip", "back", "next", "done", "of")}


def answer(visitor: str, body: bytes) -> Json:
    """Frames for the `Ask` in `body`, waiting a moment for steps under way; {"gone": True} if this visit is over.

    Raises ValueError if `body` is not an `Ask`.
    """
    try:
        ask = Ask.model_validate_json(body)
    except ValidationError as error:
        raise ValueError(str(error)) from error
    session = REGISTRY.find(visitor)
    if session is None or session.run != ask.run:
        return {"gone": True}
    session.select(Selection(ask.select.kind, ask.select.id) if ask.select is not None else None)
    session.want(max([ask.cursor, *ask.steps]))
    if ask.steps:
        session.wait_for(ask.steps[0], WAIT_SECONDS)
    session.seek(ask.cursor)
    last = session.last
    steps = [step for step in ask.steps if -1 <= step <= last]
    if ask.newest and not steps:
        steps = [last]
    return _reply(session, steps, theme.palette(ask.theme, ask.look), ask.lang, ask.panels, ask.have)


def _reply(
    session: Session,
    steps: Sequence[int],
    palette: Palette,
    lang: Lang,
    names: Collection[str],
    known: Collection[str] = (),
) -> Json:
    over = session.is_over
    return {
        "run": session.run,
        "last": session.last,
        "end": session.last if over else None,
        "notice": _notice(session, lang),
        **pack([_scene(session, step, palette, lang) for step in steps], names, known),
    }


def _scene(session: Session, step: int, palette: Palette, lang: Lang) -> Scene:
    return Scene(
        session.steps,
        step,
        session.engine.initial,
        session.engine.config,
        palette,
        lang,
        session.selection,
        session.prompts,
        _caption(session, step, lang),
        session.workload.loaded.tokenizer.decode,
        _focus(session, step),
    )


def _note(session: Session, step: int) -> Note | None:
    """The scenario's note on this step. Notes are true for its own run only."""
    workload = session.workload
    if workload.scenario is None or session.edits:
        return None
    scenario = load.load(workload.scenario)
    notes = scenario.notes if scenario.model == workload.loaded.name else ()
    return next((note for note in notes if note.step == step), None)


def _caption(session: Session, step: int, lang: Lang) -> str:
    """What the note says, else what the scenario is about."""
    note, scenario = _note(session, step), session.workload.scenario
    if note is not None:
        return note.say.get(lang)
    return load.load(scenario).summary.get(lang) if scenario is not None else ""


def _focus(session: Session, step: int) -> str:
    """The panel that the note is about, if it is about one."""
    note = _note(session, step)
    return str(note.focus.id) if note is not None and note.focus is not None and note.focus.kind == "panel" else ""


def _notice(session: Session, lang: Lang) -> str:
    if session.failure is not None:
        return t("page.step_failed", lang, step=len(session.steps), reason=session.failure)
    scripted = list(session.workload.scripted)
    return t("page.scripted", lang, requests=listing(scripted, lang)) if scripted else ""

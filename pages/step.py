"""The stepper: one iteration of the engine a click, and everything it did."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import streamlit as st

if __name__ == "__main__":  # opened by its own address, Streamlit knows only this file's folder
    sys.path.insert(0, str(Path(__file__).parents[1]))

from engine.errors import UserError
from engine.model.load import LoadedModel
from pages.figures.marks import Selection
from pages.ui import theme
from pages.ui.frame import frame
from pages.ui.model_choice import model_choice, offer_real_model, use_model
from pages.ui.session import REGISTRY, Session
from pages.ui.shell import language_switch, menu, shell, visitor
from pages.ui.stage import event, mount
from pages.ui.text import Lang, listing, t
from pages.ui.workload import TraceChoice, scenario_workload, start
from scenarios import load

STAGE = "stage"
DEFAULT_SCENARIO = "three_requests"


def main() -> None:
    lang = shell("step")
    with st.container(horizontal=True, vertical_alignment="center", gap="small"):
        menu("step", lang)
        scenario = _scenario_choice(lang)
        choice = model_choice(lang)
        st.space("stretch")
        language_switch(lang)
    offer_real_model(choice, lang)
    loaded = use_model(choice, lang)
    session = _session(scenario, choice, loaded, lang)
    if session is not None:
        _stage(session, loaded, lang)


def _scenario_choice(lang: Lang) -> str:
    """The scenario named in the link at first, later the one picked; a trace of one's own is one more entry."""
    names = load.library()
    trace: TraceChoice | None = st.session_state.get("trace")
    options = [*names, *([trace.key] if trace is not None else [])]
    state = st.session_state
    if "scenario" not in state:
        asked = st.query_params.get("scenario", DEFAULT_SCENARIO)
        state["start_step"] = _whole_number(st.query_params.get("step", ""))
        if asked not in options:
            st.toast(t("page.no_scenario", lang, name=asked))
            asked = DEFAULT_SCENARIO
        state["scenario"] = asked
    titles = {name: load.load(name).title.get(lang) for name in names}
    if trace is not None:
        titles[trace.key] = t("page.your_trace", lang, name=trace.trace.name)
    picked: str = st.selectbox(
        t("page.scenario", lang),
        options,
        index=options.index(state["scenario"]) if state["scenario"] in options else 0,
        format_func=lambda name: titles[name],
        label_visibility="collapsed",
        width=330,
    )
    state["scenario"] = picked
    return picked


def _whole_number(text: str) -> int | None:
    return int(text) if text.isascii() and text.isdigit() and len(text) < 7 else None


def _session(scenario: str, choice: str, loaded: LoadedModel, lang: Lang) -> Session | None:
    """This visitor's session over the chosen workload; a workload that cannot run is said in a sentence."""
    try:
        trace: TraceChoice | None = st.session_state.get("trace")
        if trace is not None and scenario == trace.key:
            workload = trace.workload(choice, loaded)
        else:
            workload = scenario_workload(scenario, choice, loaded)
        session = REGISTRY.get(visitor(), workload.key, lambda: Session(workload, start(workload, loaded)))
    except UserError as error:
        st.error(t(error.key, lang, **error.params))
        return None
    first = st.session_state.pop("start_step", None)
    if first:
        session.seek(first - 1)
    return session


@st.fragment
def _stage(session: Session, loaded: LoadedModel, lang: Lang) -> None:
    REGISTRY.seen(visitor())
    mount(
        _frame(session, loaded, lang),
        key=STAGE,
        on_seek=lambda: _on_seek(session),
        on_run=lambda: _on_run(session),
        on_stop=session.stop,
        on_tick=lambda: _on_tick(session),
        on_select=lambda: _on_select(session),
    )
    _write_link(session, lang)


def _frame(session: Session, loaded: LoadedModel, lang: Lang) -> dict[str, Any]:
    workload = session.workload
    return frame(
        session.steps,
        session.cursor,
        session.selection,
        theme.palette(st.context.theme.type or "light"),
        lang,
        session.engine.config,
        initial=session.engine.initial,
        prompts={spec.id: loaded.tokenizer.decode(spec.prompt) for spec in workload.requests},
        running=session.is_running,
        done=session.is_over,
        ack=st.session_state.get("seek_nonce", 0),
        notice=_notice(session, lang),
        caption=_caption(session, loaded, lang),
    )


def _caption(session: Session, loaded: LoadedModel, lang: Lang) -> str:
    """The scenario's note on this step, else what the scenario is about. Notes are true for its own model only."""
    if session.workload.scenario is None:
        return ""
    scenario = load.load(session.workload.scenario)
    notes = scenario.notes if scenario.model == loaded.name else ()
    said = next((note.say.get(lang) for note in notes if note.step == session.cursor), None)
    return said or scenario.summary.get(lang)


def _notice(session: Session, lang: Lang) -> str:
    if session.failure is not None:
        return t("page.step_failed", lang, step=len(session.steps), reason=session.failure)
    scripted = list(session.workload.scripted)
    return t("page.scripted", lang, requests=listing(scripted, lang)) if scripted else ""


def _on_seek(session: Session) -> None:
    if sent := event(STAGE, "seek"):
        st.session_state["seek_nonce"] = sent["nonce"]
        session.seek(int(sent["target"]))


def _on_run(session: Session) -> None:
    sent = event(STAGE, "run") or {}
    if sent.get("pace_ms"):
        session.play()
    else:
        session.run_to_end()


def _on_tick(session: Session) -> None:
    if sent := event(STAGE, "tick"):
        session.tick(int(sent["step"]))


def _on_select(session: Session) -> None:
    sent = event(STAGE, "select") or {}
    kind = sent.get("kind")
    session.select(Selection(kind, sent["id"]) if kind in ("request", "block") else None)


def _write_link(session: Session, lang: Lang) -> None:
    """The address always opens this view: decisions are deterministic."""
    state = st.session_state
    link = {"scenario": state["scenario"], "step": str(session.cursor + 1), "model": state["model"], "lang": lang}
    if dict(st.query_params) != link:
        st.query_params.from_dict(link)


if __name__ == "__main__":
    main()

"""The stepper: one iteration of the engine a click, and everything it did."""

from __future__ import annotations

import sys
from pathlib import Path
from urllib.parse import urlencode

import streamlit as st

if __name__ == "__main__":  # opened by its own address, Streamlit knows only this file's folder
    sys.path.insert(0, str(Path(__file__).parents[1]))

from engine.errors import UserError
from engine.model.load import LoadedModel
from pages.figures.marks import Selection
from pages.ui import theme
from pages.ui.by_hand import configure, drawer
from pages.ui.feed import first
from pages.ui.model_choice import model_choice, offer_real_model, use_model
from pages.ui.models import SMOLLM2, TOY
from pages.ui.session import REGISTRY, Session
from pages.ui.session_file import SessionFile, restore, workload_of
from pages.ui.settings import changes_between, from_link, to_link
from pages.ui.shell import look, look_in_link, menu, shell, switches, visitor
from pages.ui.stage import event, mount
from pages.ui.text import Lang, t
from pages.ui.workload import TraceChoice, scenario_workload
from scenarios import load

STAGE = "stage"
DEFAULT_SCENARIO = "three_requests"
FIRST_WAIT_SECONDS = 1.0  # for the step that a link asks for; past that the page opens and goes on computing


def main() -> None:
    lang = shell("step")
    with st.container(horizontal=True, vertical_alignment="center", gap="small"):
        menu("step", lang)
        scenario = _scenario_choice(lang)
        choice = model_choice(lang)
        change = st.container(width="content")
        switches(lang)
    offer_real_model(choice, lang)
    loaded = use_model(choice, lang)
    session = _session(scenario, choice, loaded, lang)
    if session is None:
        return
    with change:
        opened = drawer(session, _address(session, lang), lang)
    if opened is not None:
        _open(opened)
    _stage(session, lang)


def _scenario_choice(lang: Lang) -> str:
    """The scenario named in the link at first, later the one picked; a trace of one's own is one more entry."""
    names = load.library()
    trace: TraceChoice | None = st.session_state.get("trace")
    options = [*names, *([trace.key] if trace is not None else [])]
    state = st.session_state
    if "scenario" not in state:
        asked = st.query_params.get("scenario", DEFAULT_SCENARIO)
        state["start_step"] = _whole_number(st.query_params.get("step", ""))
        state["start_select"] = st.query_params.get("select", "")
        state["start_cfg"] = st.query_params.get("cfg", "")
        if "step" in st.query_params:  # a link shows what it says, not where this visitor was
            REGISTRY.close(visitor())
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
        width="stretch",
    )
    state["scenario"] = picked
    return picked


def _whole_number(text: str) -> int | None:
    return int(text) if text.isascii() and text.isdigit() and len(text) < 7 else None


def _session(scenario: str, choice: str, loaded: LoadedModel, lang: Lang) -> Session | None:
    """This visitor's session over the chosen workload; a workload that cannot run is said in a sentence."""
    state = st.session_state
    try:
        trace: TraceChoice | None = state.get("trace")
        if saved := state.pop("restore", None):
            restored = restore(saved, workload_of(saved, choice, loaded, trace))
            REGISTRY.put(visitor(), restored)
            return restored
        if trace is not None and scenario == trace.key:
            workload = trace.workload(choice, loaded)
        else:
            workload = scenario_workload(scenario, choice, loaded)
        session = REGISTRY.get(visitor(), workload.key, lambda: Session(workload))
    except UserError as error:
        st.error(t(error.key, lang, **error.params))
        return None
    if asked := state.pop("start_cfg", ""):
        _configure(session, asked, lang)
    first_step = state.pop("start_step", None)
    if first_step:
        session.want(first_step - 1)
        session.wait_for(first_step - 1, FIRST_WAIT_SECONDS)
        session.seek(first_step - 1)
    if asked := state.pop("start_select", ""):
        session.select(_selection(asked, session))
    return session


def _configure(session: Session, asked: str, lang: Lang) -> None:
    """The settings of a link; what cannot be is said, and the scenario's own stay."""
    try:
        configure(session, from_link(asked, session.workload.config, session.workload.loaded.spec))
    except UserError as error:
        st.toast(t("settings.bad_link", lang, reason=t(error.key, lang, **error.params)))


def _open(saved: SessionFile) -> None:
    """Turns the page to a session file's scenario and model; `_session` then restores the rest."""
    state = st.session_state
    state["restore"] = saved
    trace: TraceChoice | None = state.get("trace")
    if saved.scenario in load.library():
        state["scenario"] = saved.scenario
    elif trace is not None and saved.trace is not None:
        state["scenario"] = trace.key
    if saved.model in (SMOLLM2, TOY):
        state["model"] = saved.model
    st.rerun()


def _link(session: Session, lang: Lang) -> dict[str, str]:
    """What the address holds besides step and selection, which the stage knows best; what is empty is left out."""
    state = st.session_state
    changes = changes_between(session.workload.config, session.config)
    return {
        "scenario": state["scenario"],
        "model": state["model"],
        "lang": lang,
        "look": look_in_link(),
        "cfg": to_link(changes),
    }


def _address(session: Session, lang: Lang) -> str:
    query = {name: value for name, value in _link(session, lang).items() if value} | {"step": str(session.cursor + 1)}
    if session.selection is not None:
        query["select"] = f"{session.selection.kind}:{session.selection.id}"
    return f"{(st.context.url or '').split('?')[0]}?{urlencode(query)}"


def _selection(asked: str, session: Session) -> Selection | None:
    """`request:A` or `block:7` of the link, if there is such a thing."""
    kind, _, name = asked.partition(":")
    if kind == "request" and any(spec.id == name for spec in session.workload.requests):
        return Selection("request", name)
    number = _whole_number(name)
    if kind == "block" and number is not None and number < session.engine.config.num_blocks:
        return Selection("block", number)
    if kind == "node" and number is not None:
        return Selection("node", number)
    return None


@st.fragment
def _stage(session: Session, lang: Lang) -> None:
    if REGISTRY.find(visitor()) is not session:  # idle for too long: the whole page starts anew
        st.rerun()
    st.session_state.pop("start_step", None)  # it is not gone after all
    name = theme.theme_name(st.context.theme.type)
    mount(first(visitor(), session, name, lang, _link(session, lang), look()), key=STAGE, on_lost=_on_lost)


def _on_lost() -> None:
    sent = event(STAGE) or {}
    st.session_state["start_step"] = _whole_number(str(int(sent.get("step", -1)) + 1))


if __name__ == "__main__":
    main()

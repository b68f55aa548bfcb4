"""The stepper: one iteration of the engine a click, and everything it did."""

from __future__ import annotations

import sys
import time
from pathlib import Path

import streamlit as st

if __name__ == "__main__":  # opened by its own address, Streamlit knows only this file's folder
    sys.path.insert(0, str(Path(__file__).parents[1]))

from engine.errors import UserError
from engine.model.load import LoadedModel
from pages.ui import theme
from pages.ui.frame import frame
from pages.ui.model_choice import model_choice, use_model
from pages.ui.session import REGISTRY, Selection, Session
from pages.ui.shell import language_switch, menu, shell, visitor
from pages.ui.stage import mount
from pages.ui.text import Lang, t
from pages.ui.workload import Workload, start
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
    loaded = use_model(choice, lang)
    if loaded is None:
        return
    session = _session(scenario, choice, loaded, lang)
    if session is not None:
        _stage(session, loaded, lang)


def _scenario_choice(lang: Lang) -> str:
    """The scenario named in the link at first, later the one picked; a trace of one's own is one more entry."""
    names = load.library()
    trace = st.session_state.get("trace_workload")
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
        titles[trace.key] = t("page.your_trace", lang, name=trace.name)
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


def _workload(scenario: str, choice: str, loaded: LoadedModel) -> Workload:
    trace: Workload | None = st.session_state.get("trace_workload")
    if trace is not None and scenario == trace.key:
        return trace
    loaded_scenario = load.load(scenario)
    requests = load.requests(loaded_scenario, loaded.tokenizer)
    return Workload(f"{scenario}@{choice}", load.config(loaded_scenario), requests)


def _session(scenario: str, choice: str, loaded: LoadedModel, lang: Lang) -> Session | None:
    """This visitor's session over the chosen workload; a workload that cannot run is said in a sentence."""
    try:
        workload = _workload(scenario, choice, loaded)
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
    palette = theme.palette(st.context.theme.type)
    began = time.perf_counter()
    data = frame(session=session, loaded=loaded, palette=palette, lang=lang)
    mount(
        data,
        key=STAGE,
        on_seek=lambda: _on_seek(session),
        on_run=session.run_to_end,
        on_stop=session.stop,
        on_tick=session.tick,
        on_select=lambda: _on_select(session),
    )
    _write_link(session, lang)
    _ = began


def _on_seek(session: Session) -> None:
    session.seek(int(st.session_state[STAGE].seek["target"]))


def _on_select(session: Session) -> None:
    picked = st.session_state[STAGE].select
    session.select(Selection(picked["kind"], str(picked["id"])))


def _write_link(session: Session, lang: Lang) -> None:
    """The address always opens this view: decisions are deterministic."""
    st.query_params.from_dict(
        {"scenario": st.session_state["scenario"], "step": str(session.cursor + 1), "lang": lang}
    )


if __name__ == "__main__":
    main()

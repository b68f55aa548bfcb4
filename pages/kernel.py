"""Kernel: one attention launch of a real step, looked at from inside."""

from __future__ import annotations

import sys
from pathlib import Path

import streamlit as st
from streamlit.delta_generator import DeltaGenerator

if __name__ == "__main__":  # opened by its own address, Streamlit knows only this file's folder
    sys.path.insert(0, str(Path(__file__).parents[1]))

from engine.errors import UserError
from engine.model.load import LoadedModel
from pages.ui import link_state, shell
from pages.ui.edits import Configure, configured
from pages.ui.kernel_panels import TABS, grid_card, walk_card
from pages.ui.launch_view import LaunchView, launch_view
from pages.ui.launches import LAUNCHES, Looked, Source
from pages.ui.model_choice import model_choice, use_model
from pages.ui.session import MAX_STEPS, REGISTRY
from pages.ui.settings import changes_between, from_link, to_link
from pages.ui.shell import ActivePage, header, visitor
from pages.ui.text import Lang, plural, t
from pages.ui.theme import Palette
from pages.ui.workload import scenario_workload
from scenarios import load

PAGE: ActivePage = "kernel"
NAMES = ("scenario", "model", "cfg", "step", "request", "layer", "program")
DEFAULT, DEFAULT_STEP = "three_requests", 2
MINE = ""  # in place of a scenario's name: the run of the step page, with what was changed by hand
SCENARIO, STEP, REQUEST, LAYER = "kernel-scenario", "kernel-step", "kernel-request", "kernel-layer"


def main() -> None:
    lang = header(PAGE)
    view, fresh = link_state.view(PAGE, NAMES)
    row = st.container(horizontal=True, vertical_alignment="bottom", gap="small")
    with row:
        scenario = _scenario(view, fresh, lang)
        choice = model_choice(lang)
    loaded = use_model(choice, lang)
    try:
        cfg = view.get("cfg", "") if scenario == view.get("scenario") else ""
        source = _source(scenario, choice, loaded, cfg, lang)
    except UserError as error:
        st.error(t(error.key, lang, **error.params))
        return
    _body(row, source, {**view, "scenario": scenario, "model": choice}, fresh, lang)


def _scenario(view: dict[str, str], fresh: bool, lang: Lang) -> str:
    """The link's scenario at first, else the visitor's own run if there is one; later the one picked."""
    session = REGISTRY.find(visitor())
    options = [*([MINE] if session is not None else []), *load.library()]
    state = st.session_state
    if fresh or state.get(SCENARIO) not in options:
        # Who comes back from the step page wants what is there now.
        usual = options[0] if session is not None and not fresh else view.get("scenario", DEFAULT)
        asked = view.get("scenario", usual) if fresh else usual
        if asked not in options:
            st.toast(t("page.no_scenario", lang, name=asked))
            asked = DEFAULT
        state[SCENARIO] = asked
        if session is not None and asked == MINE and not fresh:
            state[STEP] = max(0, session.cursor)
            chosen = session.selection
            state[REQUEST] = chosen.id if chosen is not None and chosen.kind == "request" else None
    titles = {name: load.load(name).title.get(lang) for name in load.library()} | {MINE: t("kernel.mine", lang)}
    picked: str = st.selectbox(
        t("page.scenario", lang), options, key=SCENARIO, format_func=lambda name: titles[name],
        width=250,
    )  # fmt: skip
    return picked


def _source(scenario: str, choice: str, loaded: LoadedModel, cfg: str, lang: Lang) -> Source:
    """The visitor's run, or a scenario with the settings of the link that brought it; raises UserError."""
    session = REGISTRY.find(visitor())
    if scenario == MINE and session is not None:
        return Source(session.workload, session.edits)
    workload = scenario_workload(scenario or DEFAULT, choice, loaded)
    changes: dict[str, object] = {}
    try:
        changes = changes_between(workload.config, from_link(cfg, workload.config, loaded.spec))
    except UserError as error:
        st.toast(t("settings.bad_link", lang, reason=t(error.key, lang, **error.params)))
    return Source(workload, (Configure(changes=changes),) if changes else ())


def _body(row: DeltaGenerator, source: Source, view: dict[str, str], fresh: bool, lang: Lang) -> None:
    state = st.session_state
    palette = shell.palette()
    with row:
        looked = _step(source, view, fresh, lang)
        if looked is None:
            return
        with LAUNCHES.lock:
            request = _request(looked, view, fresh, lang)
            layers = len(looked.kept.queries)
            if fresh or LAYER not in state:
                asked = link_state.whole_number(view.get("layer", ""))
                valid = asked is not None and asked < layers
                state[LAYER] = asked if valid else layers // 2
                _unless(valid, "layer", view, state[LAYER], lang)
            state[LAYER] = min(state[LAYER], layers - 1)
            layer = st.slider(t("kernel.layer", lang), 0, layers - 1, key=LAYER, width=160)
            shown = launch_view(looked, looked.kept.requests.index(request), layer)
            place = _program(shown, view, fresh, lang)
            shown = shown.with_program(place)
    link_state.show(PAGE, {
        "scenario": view["scenario"] or source.workload.scenario or "", "model": view["model"], "cfg": _cfg(source),
        "step": str(looked.step.index + 1), "request": request, "layer": str(layer),
        "program": ".".join(map(str, place)),
    })  # fmt: skip
    with LAUNCHES.lock:
        st.caption(_headline(shown, lang))
        _cards(shown, lang, palette)


def _cfg(source: Source) -> str:
    base = source.workload.config
    return to_link(changes_between(base, configured(source.workload, source.edits)))


def _cards(shown: LaunchView, lang: Lang, palette: Palette) -> None:
    left, right = st.columns([0.42, 0.58], gap="medium")
    with left:
        grid_card(shown, palette, lang)
    with right:
        walk_card(shown, palette, lang)
    for tab, (name, draw) in zip(st.tabs([t(f"kernel.tab_{name}", lang) for name in TABS]), TABS.items(), strict=True):
        with tab, st.container(key=f"kernel-{name}"):
            draw(shown, palette, lang)


def _step(source: Source, view: dict[str, str], fresh: bool, lang: Lang) -> Looked | None:
    """The step asked for (a link counts from 1, as the step page's). None, and said, if there is nothing to see."""
    state = st.session_state
    if fresh or STEP not in state:
        asked = link_state.whole_number(view.get("step", ""))
        state[STEP] = asked - 1 if asked else state.get(STEP, DEFAULT_STEP)
        _unless(bool(asked), "step", view, state[STEP] + 1, lang)
    state[STEP] = min(max(0, int(state[STEP])), MAX_STEPS - 1)
    wanted = int(st.number_input(t("kernel.step", lang), 0, MAX_STEPS - 1, key=STEP, width=125))
    try:
        with st.spinner(t("kernel.running", lang)):
            looked = LAUNCHES.at(source, wanted)
    except UserError as error:
        st.warning(t(error.key, lang, **error.params))
        return None
    if looked.step.index < wanted:
        st.caption(t("kernel.over", lang, step=looked.step.index), width="content")
    return looked


def _request(looked: Looked, view: dict[str, str], fresh: bool, lang: Lang) -> str:
    state, options = st.session_state, list(looked.kept.requests)
    if fresh:
        state[REQUEST] = view.get("request")
    if state.get(REQUEST) not in options:
        state[REQUEST] = options[0]
        _unless(not fresh, "request", view, options[0], lang)
    picked: str = st.selectbox(t("kernel.request", lang), options, key=REQUEST, width=110)
    return picked


def _program(shown: LaunchView, view: dict[str, str], fresh: bool, lang: Lang) -> tuple[int, int, int]:
    """The program looked at: one of the request's, at first its last tile (the newest tokens) at KV head 0."""
    places = [program.place for program in shown.programs]
    labels = {place: shown.program_name(place, lang) for place in places}
    key = "kernel-program"
    state = st.session_state
    if fresh:
        parts = [link_state.whole_number(part) for part in view.get("program", "").split(".")]
        state[key] = tuple(parts)
    if state.get(key) not in places:
        state[key] = shown.newest
        _unless(not fresh, "program", view, ".".join(map(str, shown.newest)), lang)
    picked: tuple[int, int, int] = st.selectbox(
        t("kernel.program", lang), places, key=key, format_func=lambda place: labels[place], width=285
    )
    return picked


def _unless(valid: bool, name: str, view: dict[str, str], shown: object, lang: Lang) -> None:
    """What a link asks for and is not there gives way, with a sentence."""
    if not valid and view.get(name):
        st.toast(t("kernel.bad_link", lang, name=name, value=view[name], shown=shown))


def _headline(shown: LaunchView, lang: Lang) -> str:
    meta = shown.meta
    length = int(meta.seq_lens[0])
    query = meta.max_query_len
    return plural(
        "kernel.headline", query, lang, step=shown.step, id=shown.request, what=t(f"kernel.{shown.semantics}", lang),
        first=length - query, last=length - 1, context=length, blocks=-(-length // meta.block_size),
        size=meta.block_size, layer=shown.layer_index, layers=shown.num_layers - 1, by=shown.implementation,
    )  # fmt: skip


if __name__ == "__main__":
    main()

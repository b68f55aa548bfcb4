"""Which model runs: the picker, the progress bar while it loads, and what to do when the real one is missing."""

from __future__ import annotations

import time
from typing import cast

import streamlit as st

from engine.errors import UserError
from engine.model.fetch import fetch_smollm2
from engine.model.load import LoadedModel
from engine.model.weights import find_smollm2
from pages.ui.models import SHELF, SMOLLM2, TOY
from pages.ui.options import asked_model, default_model
from pages.ui.text import Lang, t

POLL_SECONDS = 0.1


def model_choice(lang: Lang) -> str:
    """The picker: SmolLM2, the toy, the model named at start, or a local file of a visitor on this very machine."""
    state = st.session_state
    if "model" not in state:
        asked = st.query_params.get("model")
        state["model"] = asked if asked in (SMOLLM2, TOY) else default_model()
    named = asked_model()
    options = [SMOLLM2, TOY, *([named] if named and named not in (SMOLLM2, TOY) else [])]
    if state["model"] not in options:
        options.append(state["model"])
    with st.popover(t("page.model_label", lang, name=_title(state["model"], lang)), width="content"):
        picked = st.radio(
            t("page.model", lang),
            options,
            index=options.index(state["model"]),
            format_func=lambda choice: _title(choice, lang),
        )
        # A path of the server's disk is nobody's business but its owner's.
        typed = st.text_input(t("page.model_path", lang)) if st.context.ip_address is None else ""
    if picked != state["model"]:
        state["model"] = picked
    elif typed and typed != state.get("typed_model"):
        state["typed_model"] = state["model"] = typed
    return cast(str, state["model"])


def _title(choice: str, lang: Lang) -> str:
    return t(f"page.model_{choice}", lang) if choice in (SMOLLM2, TOY) else choice.replace("\\", "/").split("/")[-1]


def use_model(choice: str, lang: Lang) -> LoadedModel:
    """The model asked for, or the toy with a banner that says why and, for SmolLM2, a button that fetches it."""
    try:
        return _wait(choice, lang)
    except (UserError, OSError, RuntimeError) as error:
        reason = t(error.key, lang, **error.params) if isinstance(error, UserError) else str(error)
        _banner(choice, reason, lang)
        return _wait(TOY, lang)


def offer_real_model(choice: str, lang: Lang) -> None:
    """On the toy because SmolLM2 is missing: say so. On the toy by choice: nothing to say."""
    if choice == TOY and find_smollm2() is None:
        _banner(SMOLLM2, t("page.toy_reason", lang), lang)


def _banner(choice: str, reason: str, lang: Lang) -> None:
    with st.container(horizontal=True, vertical_alignment="center"):
        st.warning(t("page.toy_banner", lang, reason=reason))
        if choice == SMOLLM2 and find_smollm2() is None and st.button(t("page.fetch", lang), type="primary"):
            _fetch(lang)


def _fetch(lang: Lang) -> None:
    bar = st.progress(0.0)

    def report(done: float, what: str) -> None:
        bar.progress(min(done, 1.0), t(what, lang))

    try:
        fetch_smollm2(report)
    except UserError as error:
        bar.empty()
        st.error(t(error.key, lang, **error.params))
        return
    st.session_state["model"] = SMOLLM2
    st.rerun()


def _wait(choice: str, lang: Lang) -> LoadedModel:
    """Joins the load; a progress bar appears only if it is not there already."""
    loading = SHELF.request(choice)
    slot = st.empty()
    name = _title(choice, lang)
    while not loading.future.done():
        doing = t(loading.what, lang) if loading.what else ""
        slot.progress(min(loading.done, 1.0), t("page.loading_model", lang, name=name, doing=doing))
        time.sleep(POLL_SECONDS)
    slot.empty()
    return loading.future.result()

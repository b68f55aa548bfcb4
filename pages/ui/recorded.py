"""The picker of the scenarios that are recorded, for pages that replay decisions without a model."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import streamlit as st

from pages.ui.text import Lang, t
from scenarios import load
from scenarios.recording import recordings


def pick_scenario(
    key: str,
    view: Mapping[str, str],
    fresh: bool,
    lang: Lang,
    on_change: Callable[[], None] | None = None,
    *,
    offered: Sequence[str] = (),
    refusal: str = "compare.no_scenario",
) -> str:
    """The scenario of the link at first, later the one picked; one that is not `offered` gives way, with a sentence.

    All that are recorded are offered unless told otherwise.
    """
    names = list(offered) or [name for name in load.library() if name in recordings()]
    state = st.session_state
    if fresh or state.get(key) not in names:
        asked = view.get("scenario", names[0])
        if asked not in names:
            shown = load.load(names[0]).title.get(lang)
            st.warning(t(refusal, lang, name=asked, shown=shown))
            asked = names[0]
        state[key] = asked
    picked: str = st.selectbox(
        t("page.scenario", lang), names, key=key, format_func=lambda name: load.load(name).title.get(lang),
        label_visibility="collapsed", width=330, on_change=on_change,
    )  # fmt: skip
    return picked

"""What all pages share: page settings, menu, language, and who the visitor is."""

from __future__ import annotations

import uuid
from typing import Literal, cast

import streamlit as st

from pages.ui import theme
from pages.ui.text import LANGS, Lang, t
from pages.ui.theme import LOOKS, Look

ActivePage = Literal["step", "compare", "memory", "prefix", "kernel", "library", "traces", "help"]
_PAGES: dict[ActivePage, str] = {
    "step": "pages/step.py",
    "compare": "pages/compare.py",
    "memory": "pages/memory.py",
    "prefix": "pages/prefix.py",
    "kernel": "pages/kernel.py",
    "library": "pages/library.py",
    "traces": "pages/traces.py",
    "help": "pages/help.py",
}

# Streamlit has no setting for the side padding and the gap between rows; a class needs the pixels for the diagrams.
_CSS = """<style>
.stMainBlockContainer{padding-inline:1.1rem!important}
.stMain .stVerticalBlock{gap:.45rem}
.kv-letter{font-size:15px;font-weight:700}
.kv-note{font-size:13px;margin:0;opacity:.85}
.kv-said{font-size:1rem;line-height:1.35;min-height:4.05em}
.kv-said p{margin:0}
.kv-op{font:600 1.2rem/1.3 ui-monospace,Menlo,Consolas,monospace;margin:0 0 .2rem}
.kv-signs{display:flex;flex-wrap:wrap;gap:.1rem 1rem;font-size:.93rem;line-height:1.4}
.kv-signs b{font-size:1.15rem;line-height:1}
.kv-brand{font-size:17px;font-weight:700;letter-spacing:-.01em;white-space:nowrap}
[data-testid="stCaptionContainer"]{opacity:1!important;color:$muted!important}
[data-testid="stCaptionContainer"] p{color:inherit!important;opacity:1!important}
[data-testid="stCaptionContainer"] code{font-size:.95em}
[data-testid="stButtonGroup"] button[data-selected="true"] p{color:$text}
[data-testid="stSliderThumbValue"] p{color:$text!important}
[class*="st-key-links-"] a{padding:.1rem 0;background:none!important}
[class*="st-key-links-"] a p{color:$accent!important}
[class*="st-key-links-"] a:is(:hover,:focus-visible) p{text-decoration:underline}
</style>"""


# All of Streamlit's sizes follow the root's.
_PROJECTOR_CSS = "<style>html{font-size:18px!important}.kv-note,.kv-words,.kv-teaches{font-size:1rem!important}</style>"


def shell(active: ActivePage) -> Lang:
    """Page settings, styles and the language of this visitor. Call first on every page."""
    st.set_page_config(page_title="kvscope", page_icon="🟦", layout="wide", initial_sidebar_state="collapsed")
    st.html(theme.filled(_CSS, palette()))
    if look() == "projector" and active != "step":  # the step page gives its room to the stage, which has its own type
        st.html(_PROJECTOR_CSS)
    return language()


def language() -> Lang:
    """From the link, else what the visitor chose, else the browser's."""
    state = st.session_state
    if "lang" not in state:
        asked = st.query_params.get("lang")
        browser = "zh" if (st.context.locale or "").lower().startswith("zh") else "en"
        state["lang"] = asked if asked in LANGS else browser
    return cast(Lang, state["lang"])


def look() -> Look:
    """For a desk or a projector: from the link, else what the visitor chose."""
    state = st.session_state
    if "look" not in state:
        asked = st.query_params.get("look")
        state["look"] = asked if asked in LOOKS else LOOKS[0]
    return cast(Look, state["look"])


def palette() -> theme.Palette:
    """The colours and sizes of this visit: light or dark as the browser has it, for a desk or a projector."""
    return theme.palette(theme.theme_name(st.context.theme.type), look())


def look_in_link() -> str:
    """The look as a link tells it: the usual one goes without saying."""
    return "" if look() == LOOKS[0] else look()


def menu(active: ActivePage, lang: Lang) -> None:
    """Brand and links to the pages; the language travels with them, and to the step page the scenario last seen."""
    st.html('<span class="kv-brand">kvscope</span>', width="content")
    for name, path in _PAGES.items():
        label = t(f"page.{name}", lang)
        query = {"lang": lang} | ({"look": look_in_link()} if look_in_link() else {})
        seen = st.session_state.get("scenario", st.session_state.get("last_scenario"))
        if name == "step" and seen is not None:
            query["scenario"] = seen
        st.page_link(path, label=f"**{label}**" if name == active else label, query_params=query)


def header(active: ActivePage) -> Lang:
    """The head of a page that has nothing of its own in it: settings, menu and language."""
    lang = shell(active)
    with st.container(horizontal=True, vertical_alignment="center", gap="small"):
        menu(active, lang)
        st.space("stretch")
        switches(lang)
    return lang


def step_link(label: str, query: dict[str, str], help_text: str | None = None) -> None:
    """A link to a view of the step page; one inside a container whose key begins with "links-" looks like one.

    What that page shows already would win over what a link says, so it is put aside for the menu's way back.
    """
    state = st.session_state
    if "scenario" in state:
        state["last_scenario"] = state.pop("scenario")
    st.page_link(_PAGES["step"], label=label, query_params=query, help=help_text)


def switches(lang: Lang) -> None:
    """How a visitor wants to see the page."""
    _look_switch(lang)
    language_switch(lang)


def _look_switch(lang: Lang) -> None:
    """Larger type for the back row, on or off; remembered for the visit and written to the link.

    A button, since arrow keys pressed afterwards would turn a switch instead of a step.
    """
    is_on = bool(look_in_link())

    def chosen() -> None:
        st.session_state["look"] = LOOKS[0] if is_on else LOOKS[1]
        if is_on:
            st.query_params.pop("look", None)
        else:
            st.query_params["look"] = LOOKS[1]

    label = t("page.projector", lang)
    st.button(f"✓ {label}" if is_on else label, key="look_switch", help=t("page.projector_help", lang), on_click=chosen)


def language_switch(lang: Lang) -> None:
    """EN | 中文; remembered for the visit and written to the link."""

    def chosen() -> None:
        picked = st.session_state["lang_switch"]
        st.session_state["lang"] = picked or st.session_state["lang"]
        st.query_params["lang"] = st.session_state["lang"]

    st.segmented_control(
        t("page.language", lang),
        LANGS,
        default=lang,
        format_func=lambda code: {"en": "EN", "zh": "中文"}[code],
        key="lang_switch",
        on_change=chosen,
        label_visibility="collapsed",
        width="content",
    )


def visitor() -> str:
    """An id for this browser tab, the key of its session."""
    if "visitor" not in st.session_state:
        st.session_state["visitor"] = uuid.uuid4().hex
    return cast(str, st.session_state["visitor"])

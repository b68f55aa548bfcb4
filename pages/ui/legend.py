"""A legend as a line of HTML, for diagrams outside the stage: a sign in its colour, then its meaning."""

from __future__ import annotations

from collections.abc import Iterable

import streamlit as st

from pages.ui.text import Lang, t
from pages.ui.theme import Palette

Entry = tuple[str, str, str]  # sign, colour, message key


def legend(entries: Iterable[Entry], lang: Lang) -> None:
    """Signs differ as well as colours."""
    items = (f'<span><b style="color:{color}">{sign}</b> {t(key, lang)}</span>' for sign, color, key in entries)
    st.html(f'<div class="kv-legend">{"".join(items)}</div>')


def tree_entries(palette: Palette) -> tuple[Entry, ...]:
    """What the marks of a radix tree mean."""
    return (
        ("❶", palette.used, "legend.locked"),
        ("❷", palette.shared, "legend.locked_twice"),
        ("●", palette.cached, "legend.unlocked"),
        ("━", palette.new, "legend.matched"),
        ("◎", palette.new, "legend.new"),
        ("◇", palette.evicted, "legend.cut"),
    )

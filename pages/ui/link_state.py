"""What a page shows, as the text of its link: read from a new link, kept for the visit, written back."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import streamlit as st


def view(page: str, names: Sequence[str]) -> tuple[dict[str, str], bool]:
    """The values of `names` that the page is to show, and whether a link has just brought them.

    The menu's link says nothing of them: then the page shows what it showed last.
    """
    state = st.session_state
    asked = {name: st.query_params[name] for name in names if name in st.query_params}
    if asked and asked != state.get(f"{page}-written"):
        state[f"{page}-view"] = asked
        return asked, True
    return dict(state.get(f"{page}-view", {})), False


def show(page: str, values: Mapping[str, str]) -> None:
    """Keeps `values` and writes those that say something to the link."""
    written = {name: value for name, value in values.items() if value}
    st.session_state[f"{page}-view"] = st.session_state[f"{page}-written"] = written
    for name in values:
        if name in written:
            if st.query_params.get(name) != written[name]:
                st.query_params[name] = written[name]
        elif name in st.query_params:
            del st.query_params[name]


def whole_number(text: str) -> int | None:
    """A number of a link, or None if it is none."""
    return int(text) if text.isascii() and text.isdigit() and len(text) < 7 else None

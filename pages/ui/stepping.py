"""Back and forth over steps that are all there: buttons and a slider that say absolute steps."""

from __future__ import annotations

from collections.abc import Mapping

import streamlit as st

from pages.ui.text import Lang, t

_NO_JUMPS: Mapping[str, int | None] = {}


def stepper(name: str, last: int, start: int | None, lang: Lang, jumps: Mapping[str, int | None] = _NO_JUMPS) -> int:
    """The step shown, 0 to `last`. `start`: where to begin, for what has just been opened; None stays where it is.

    jumps: further buttons (a message "compare.NAME") and the step each goes to, None where there is none.
    """
    state, key = st.session_state, f"{name}-cursor"
    wanted = start if start is not None else int(state.get(key, 0))
    cursor = state[key] = min(max(0, wanted), last)

    def go(step: int) -> None:
        state[key] = step

    with st.container(horizontal=True, vertical_alignment="center", gap="small"):
        for button, target in (("first", 0), ("back", cursor - 1), ("step", cursor + 1), *jumps.items()):
            st.button(
                t(f"compare.{button}", lang), key=f"{name}-{button}", on_click=go, args=(target,),
                type="primary" if button == "step" else "secondary",
                disabled=target is None or not 0 <= target <= last or target == cursor,
                shortcut={"back": "Left", "step": "Right"}.get(button),
            )  # fmt: skip
        if last:
            st.slider(t("compare.cursor", lang), 0, last, key=key, label_visibility="collapsed")
    return cursor

"""The stage: the one component that draws frames, keeps its diagrams alive between steps, and knows the controls.

    stage.mount(feed.first(...), key="stage", on_lost=lost)

It fetches frames from `/stage/VISITOR/frames` (`feed.answer`), draws them from memory, and tells the cursor there.
Streamlit hears of it only when the visit it belongs to is gone or the browser's colours change: `on_lost` then runs
before the script does, and `stage.event(key)` is {"step": int}, the step that was shown.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import streamlit as st

from pages.ui.vendor import stage_version

_LOADER = (Path(__file__).parent / "stage_loader.js").read_text(encoding="utf-8")


def mount(data: dict[str, Any], *, key: str, on_lost: Callable[[], None]) -> Any:
    """Draws the step in `data` in place. The key must stay the same for as long as the diagrams should live."""
    # Registered on each run, as Streamlit wants it of inline components; an equal definition costs nothing.
    component = st.components.v2.component(
        "kvscope_stage",
        html='<div class="kv-stage"></div>',
        js=_LOADER.replace("__VERSION__", stage_version()),
        isolate_styles=False,
    )
    return component(key=key, data=data, on_lost_change=on_lost)


def event(key: str) -> dict[str, Any] | None:
    """What the component mounted under `key` sent in this rerun; for use inside the callback."""
    state = st.session_state.get(key)
    value = state.get("lost") if state is not None else None
    return value if isinstance(value, dict) else None

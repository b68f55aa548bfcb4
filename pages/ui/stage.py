"""The stage: the one component that draws a frame, keeps its diagrams alive between steps, and reports what is done.

    data = frame(...)
    stage.mount(data, key="stage", on_seek=seek, on_run=run, on_stop=stop, on_tick=tick, on_select=select)

Callbacks take no argument (Streamlit's rule); they run before the script does. Inside one, `stage.event(key, name)`
is what the component sent, or None:

    seek    {"target": int, "nonce": int}        show step `target` (absolute, -1 = nothing run), running up to it
    run     {"until_end": True, "pace_ms": int}  start to run; the frames must then say `running=True`
    tick    {"step": int}                        step `step` is drawn: go one further, if it is still the one shown
    stop    {}                                   stop running
    select  {"kind": "request"|"block", "id": str|int} or {"kind": None}

A nonce that comes back as `ack` tells the component that its seek was served, so that fast key presses add up.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal

import streamlit as st

from pages.ui.vendor import stage_version

EventName = Literal["seek", "run", "stop", "tick", "select"]
Callback = Callable[[], None]

_LOADER = (Path(__file__).parent / "stage_loader.js").read_text(encoding="utf-8")


def mount(
    data: dict[str, Any],
    *,
    key: str,
    on_seek: Callback,
    on_run: Callback,
    on_stop: Callback,
    on_tick: Callback,
    on_select: Callback,
) -> Any:
    """Draws `data` (a frame) in place. The key must stay the same for as long as the diagrams should live."""
    # Registered on each run, as Streamlit wants it of inline components; an equal definition costs nothing.
    component = st.components.v2.component(
        "kvscope_stage",
        html='<div class="kv-stage"></div>',
        js=_LOADER.replace("__VERSION__", stage_version()),
        isolate_styles=False,
    )
    return component(
        key=key,
        data=data,
        on_seek_change=on_seek,
        on_run_change=on_run,
        on_stop_change=on_stop,
        on_tick_change=on_tick,
        on_select_change=on_select,
    )


def event(key: str, name: EventName) -> dict[str, Any] | None:
    """What the component mounted under `key` sent with `name` in this rerun; for use inside the callbacks."""
    state = st.session_state.get(key)
    value = state.get(name) if state is not None else None
    return value if isinstance(value, dict) else None

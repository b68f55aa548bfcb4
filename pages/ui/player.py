"""A row of pictures that is played, stepped and scrubbed in the browser, from memory."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from pathlib import Path

import streamlit as st

from pages.figures.primitives import Figure, Trace
from pages.ui.text import Lang, t
from pages.ui.theme import Palette, filled

_SCRIPT = (Path(__file__).parent / "player.js").read_text(encoding="utf-8")
_CSS = """
.kv-player-bar{display:flex;gap:.35rem;align-items:center;font:14px $sans;color:$text;margin-bottom:.2rem}
.kv-player-bar button{min-width:2.2rem;padding:.2rem .55rem;border:1px solid $line;border-radius:6px;background:$card;
color:$text;font:inherit;cursor:pointer}
.kv-player-bar button:focus-visible,.kv-player-bar input:focus-visible{outline:2px solid $accent;outline-offset:1px}
.kv-player-bar input{flex:1;max-width:16rem;accent-color:$accent}
.kv-player-said{font-variant-numeric:tabular-nums}
"""


def player(
    figures: Sequence[Figure],
    captions: Sequence[str],
    alts: Sequence[str],
    height: int,
    palette: Palette,
    lang: Lang,
    *,
    key: str,
) -> None:
    """Shows the first picture; buttons, a slider and their keys do the rest without the server.

    A caption and a screen reader's text for each figure; the figures share one layout. At least one.
    """
    frames, traces = shared_traces(figures)
    data = {
        "frames": frames,
        "traces": traces,
        "layout": figures[0]["layout"],
        "captions": list(captions),
        "alts": list(alts),
        "height": height,
        "start": 0,
        "words": {
            name: t(f"player.{name}", lang)
            for name in (
                "first", "first_label", "back", "back_label", "play", "play_label", "pause", "pause_label", "next",
                "next_label", "slider_label",
            )
        },
    }  # fmt: skip
    text = json.dumps([frames, traces, data["captions"]], default=str)
    data["name"] = hashlib.blake2b(text.encode(), digest_size=6).hexdigest()
    component = st.components.v2.component(
        "kvscope_player",
        html='<div class="kv-player"></div>',
        css=filled(_CSS, palette),
        js=_SCRIPT,
        isolate_styles=False,
    )
    component(key=key, data=data)


def shared_traces(figures: Sequence[Figure]) -> tuple[list[list[int]], list[Trace]]:
    """(per figure the numbers of its traces, the traces), equal traces once."""
    known: dict[str, int] = {}
    traces: list[Trace] = []
    frames = []
    for figure in figures:
        frame = []
        for trace in figure["data"]:
            text = repr(trace)
            if text not in known:
                known[text] = len(traces)
                traces.append(trace)
            frame.append(known[text])
        frames.append(frame)
    return frames, traces

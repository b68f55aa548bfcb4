"""A figure on a page that does not step by the second: st.plotly_chart, without its validation of every mark."""

from __future__ import annotations

from typing import Any

import plotly.graph_objects as go
import streamlit as st

from pages.figures.primitives import Figure
from pages.ui.shell import palette

_CONFIG = {"displayModeBar": False, "responsive": True}


class _Ready(go.Figure):  # type: ignore[misc]
    """Checking what tests have checked takes 14-70 ms a figure; Streamlit asks a figure only for its dict."""

    def __init__(self, figure: Figure) -> None:
        super().__init__()
        self.__dict__["ready"] = figure

    def to_dict(self) -> dict[str, Any]:
        return self.__dict__["ready"]  # type: ignore[no-any-return]


def chart(figure: Figure, height: int, key: str, alt: str) -> None:
    """Draws `figure`; `alt` says it in words. `key` stays the same from step to step. A projector's is higher."""
    height = round(height * palette().scale)
    st.plotly_chart(_Ready(figure), height=height, key=key, alt=alt, theme=None, config=_CONFIG)

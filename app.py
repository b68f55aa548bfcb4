"""The front door: Streamlit's server with plotly.js and a health check beside it, and the stepper as its first page.

Started by `streamlit run app.py [-- --model PATH]`. Without a visitor this file describes the server; with one it
draws the step page.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import streamlit as st
from streamlit.runtime.scriptrunner import get_script_run_ctx

from pages import step
from pages.ui.models import SHELF
from pages.ui.options import default_model
from pages.ui.session import REGISTRY
from pages.ui.vendor import routes


@asynccontextmanager
async def lifespan(_: Any) -> AsyncIterator[None]:
    """Loads the model while the first visitor's browser is still opening; closes all engines at the end."""
    SHELF.request(default_model())
    yield
    REGISTRY.close_all()


if get_script_run_ctx(suppress_warning=True) is None:
    app = st.App(__file__, lifespan=lifespan, routes=routes())
else:
    step.main()

"""The front door: Streamlit's server with plotly.js and a health check beside it, and the stepper as its first page.

Started by `streamlit run app.py [-- --model PATH]`. Without a visitor this file describes the server; with one it
draws the step page. Importing torch takes seconds, so that the server answers, and the browser loads its part, while
a thread does it: whatever leads to torch is imported inside the functions here.
"""

from __future__ import annotations

import asyncio
import gc
import logging
import threading
from collections.abc import AsyncIterator
from concurrent.futures import wait
from contextlib import asynccontextmanager
from typing import Any

import streamlit as st
from starlette.middleware import Middleware
from streamlit.runtime.scriptrunner import get_script_run_ctx

from pages.ui.vendor import EarlyPlotly, routes

REAP_SECONDS = 60


@asynccontextmanager
async def lifespan(_: Any) -> AsyncIterator[None]:
    """Warms up while the first visitor's browser is still opening; closes all engines at the end."""
    threading.Thread(target=warm_up, name="warm-up", daemon=True).start()
    reaper = asyncio.create_task(_reap())
    yield
    reaper.cancel()
    from pages.ui.session import REGISTRY

    REGISTRY.close_all()


def warm_up() -> None:
    """Imports everything a page needs and loads the model that a visitor starts with.

    What is there then stays: the garbage collector need not look at it again, which takes it 400 ms each time.
    """
    from pages import step  # noqa: F401
    from pages.ui.models import SHELF
    from pages.ui.options import default_model, use_threads

    use_threads()
    wait([SHELF.request(default_model()).future])
    gc.collect()
    gc.freeze()


async def _reap() -> None:
    """Gives idle visitors' KV memory back even when nobody new comes, and collects what Streamlit no longer does."""
    while True:
        await asyncio.sleep(REAP_SECONDS)
        from pages.ui.session import REGISTRY

        REGISTRY.drop_stale()
        await asyncio.to_thread(gc.collect)


def sorry(error: Exception) -> bool:
    """An error no page caught: the log gets it all, the visitor a sentence instead of a traceback."""
    from engine.errors import UserError
    from pages.ui.shell import language
    from pages.ui.text import t

    logging.getLogger("kvscope").error("a page failed", exc_info=error)
    if isinstance(error, UserError):
        st.error(t(error.key, language(), **error.params))
    else:
        st.error(t("page.unexpected", language(), reason=type(error).__name__))
    return True


if get_script_run_ctx(suppress_warning=True) is None:
    app = st.App(
        __file__, lifespan=lifespan, routes=routes(), middleware=[Middleware(EarlyPlotly)], on_script_error=sorry
    )
else:
    from pages import step

    step.main()

"""The server around the pages: what it does once everything is loaded, and each minute."""

from __future__ import annotations

import asyncio
import gc
import threading
from unittest.mock import patch

import app
from pages.ui import options
from pages.ui.models import SHELF, TOY


def test_once_loaded_the_collector_leaves_what_stays_alone() -> None:
    with patch.object(options, "default_model", lambda: TOY):
        app.warm_up()
    try:
        assert SHELF.request(TOY).future.done()
        assert gc.get_freeze_count() > 100_000
    finally:
        gc.unfreeze()


def test_garbage_is_collected_each_minute_off_the_event_loop() -> None:
    collected: list[bool] = []

    async def one_round() -> None:
        done = asyncio.Event()
        loop = asyncio.get_running_loop()

        def collect() -> None:
            collected.append(threading.current_thread() is threading.main_thread())
            loop.call_soon_threadsafe(done.set)

        with patch.object(app, "REAP_SECONDS", 0), patch.object(gc, "collect", collect):
            reaper = asyncio.create_task(app._reap())
            await asyncio.wait_for(done.wait(), 20)
            reaper.cancel()

    asyncio.run(one_round())
    assert collected and not collected[0]

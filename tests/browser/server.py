"""A real kvscope server and a real Chromium, for end-to-end tests, screenshots and benchmarks."""

from __future__ import annotations

import os
import re
import shutil
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from playwright.sync_api import Browser, BrowserContext, ConsoleMessage, Page, sync_playwright

ROOT = Path(__file__).parents[2]
START_SECONDS = 90
# On a cold link to a page Streamlit's own client asks below that page first, to find out where the app's root is.
PROBE = re.compile(r"/(step|compare|memory|kernel|prefix|library|traces|help)/_stcore/(health|host-config)$")
BROWSERS = ("chromium", "chromium-browser", "google-chrome", "chrome")
CHROMIUM_FLAGS = (
    "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
    "--disable-component-update", "--disable-sync",
)  # fmt: skip


def find_chromium() -> str | None:
    return next((path for name in BROWSERS if (path := shutil.which(name))), None)


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


class Server(NamedTuple):
    address: str
    pid: int


@contextmanager
def launched(script: str = "app.py", *arguments: str, **environment: str) -> Iterator[Server]:
    """Runs a script as `make run` runs the app; goes on once the health check answers."""
    port = _free_port()
    command = [sys.executable, "-m", "streamlit", "run", script, "--server.port", str(port)]
    command += ["--server.address", "127.0.0.1", "--server.headless", "true", "--", *arguments]
    process = subprocess.Popen(
        command, cwd=ROOT, env={**os.environ, **environment}, stdout=subprocess.DEVNULL, stderr=subprocess.STDOUT
    )
    try:
        address = f"http://127.0.0.1:{port}"
        _wait_until_healthy(address, process)
        yield Server(address, process.pid)
    finally:
        process.terminate()
        try:
            process.wait(10)
        except subprocess.TimeoutExpired:
            process.kill()


@contextmanager
def serving(*arguments: str, **environment: str) -> Iterator[str]:
    """The app's address while it runs."""
    with launched("app.py", *arguments, **environment) as server:
        yield server.address


def _wait_until_healthy(address: str, process: subprocess.Popen[bytes]) -> None:
    deadline = time.monotonic() + START_SECONDS
    while time.monotonic() < deadline:
        if process.poll() is not None:
            raise RuntimeError(f"the server ended with status {process.returncode}")
        try:
            urllib.request.urlopen(f"{address}/healthz", timeout=1)
            return
        except (urllib.error.URLError, OSError):
            time.sleep(0.1)
    raise RuntimeError("the server did not answer")


@contextmanager
def chromium() -> Iterator[Browser]:
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=find_chromium(), args=list(CHROMIUM_FLAGS))
        try:
            yield browser
        finally:
            browser.close()


def returning(browser: Browser, **options: Any) -> BrowserContext:
    """A visitor who has seen the tour of a first visit."""
    context = browser.new_context(**options)
    context.add_init_script("try { localStorage.setItem('kvscope-tour', '1'); } catch {}")
    return context


def listen(page: Page) -> list[str]:
    """Collects what the page writes to the console as an error, and what it throws."""
    complaints: list[str] = []

    def note(message: ConsoleMessage) -> None:
        if message.type == "error" and not PROBE.search(message.location.get("url", "")):
            complaints.append(f"{message.text} {message.location.get('url', '')}")

    page.on("console", note)
    page.on("pageerror", lambda error: complaints.append(str(error)))
    return complaints


def wait_for_step(page: Page, step: int, timeout_ms: float = 30_000) -> None:
    """Until every visible diagram shows `step` (-1: nothing run yet)."""
    page.wait_for_selector(f'.kv-stage[data-step="{step}"][data-drawn="{step}"]', timeout=timeout_ms)

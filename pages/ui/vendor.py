"""Routes that the app adds to Streamlit's server: plotly.js, the stage's script, style and frames, a health check.

Streamlit sends a component's inline script and style again with every frame; served from here they are sent once.
"""

from __future__ import annotations

import hashlib
from functools import cache
from importlib.resources import files
from pathlib import Path

import streamlit as st
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import FileResponse, JSONResponse, Response
from starlette.routing import BaseRoute, Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

_HERE = Path(__file__).parent
_SCRIPTS = ("stage_dom.js", "stage_panels.js", "stage_store.js", "stage_controls.js", "stage_tour.js", "stage.js")
_MAX_ASK = 64_000  # bytes
_CACHED = {"Cache-Control": "public, max-age=86400"}


def plotly_js() -> Path:
    return Path(str(files("plotly") / "package_data" / "plotly.min.js"))


@cache
def stage_source() -> tuple[str, str]:
    """The stage's script, one module out of its files, and its style sheet."""
    script = "\n".join((_HERE / name).read_text(encoding="utf-8") for name in _SCRIPTS)
    return script, (_HERE / "stage.css").read_text(encoding="utf-8")


@cache
def stage_version() -> str:
    """Changes with the source, so that a browser never runs yesterday's script against today's frames."""
    return hashlib.sha256("".join(stage_source()).encode()).hexdigest()[:12]


async def _plotly(_: Request) -> Response:
    return FileResponse(plotly_js(), media_type="text/javascript", headers=_CACHED)


async def _script(_: Request) -> Response:
    return Response(stage_source()[0], media_type="text/javascript", headers=_CACHED)


async def _style(_: Request) -> Response:
    return Response(stage_source()[1], media_type="text/css", headers=_CACHED)


async def _frames(request: Request) -> Response:
    """Answers the stage of one visitor, whose id nobody else knows."""
    from pages.ui.feed import answer  # leads to torch

    if int(request.headers.get("content-length") or _MAX_ASK + 1) > _MAX_ASK:
        return Response(status_code=413)
    body = await request.body()
    try:
        reply = await run_in_threadpool(answer, request.path_params["visitor"], body)
    except ValueError:
        return Response(status_code=400)
    return JSONResponse(reply, headers={"Cache-Control": "no-store"})


async def _health(_: Request) -> Response:
    return JSONResponse({"status": "ok"})


class EarlyPlotly:
    """ASGI middleware: the page's HTML already asks for plotly.js, which the browser then parses while torch loads."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or b"text/html" not in dict(scope["headers"]).get(b"accept", b""):
            await self._app(scope, receive, send)
            return
        # Compressed HTML could not be added to.
        headers = [pair for pair in scope["headers"] if pair[0] != b"accept-encoding"]
        script = b'<script async src="%s"></script></head>' % _address()
        held: list[Message] = []

        async def add(message: Message) -> None:
            if message["type"] == "http.response.start":
                held.append(message)  # its length is known with the body
                return
            if message["type"] == "http.response.body":
                message = {**message, "body": message.get("body", b"").replace(b"</head>", script, 1)}
            if held:
                await send(_with_length(held.pop(), message))
            await send(message)

        await self._app({**scope, "headers": headers}, receive, add)


def _with_length(start: Message, body: Message) -> Message:
    """The response's start, its length true for `body`, or without one if more is to come."""
    headers = [pair for pair in start["headers"] if pair[0] != b"content-length"]
    if not body.get("more_body"):
        headers.append((b"content-length", str(len(body.get("body", b""))).encode()))
    return {**start, "headers": headers}


def _address() -> bytes:
    base = str(st.get_option("server.baseUrlPath") or "").strip("/")
    return f"{'/' + base if base else ''}/vendor/plotly.min.js".encode()


def routes() -> list[BaseRoute]:
    """For `st.App(script, routes=routes())`."""
    return [
        Route("/vendor/plotly.min.js", _plotly),
        Route("/vendor/stage.js", _script),
        Route("/vendor/stage.css", _style),
        Route("/stage/{visitor}/frames", _frames, methods=["POST"]),
        Route("/healthz", _health),
    ]

"""Routes that the app adds to Streamlit's server: plotly.js, the stage's own script and style, a health check.

Streamlit sends a component's inline script and style again with every frame; served from here they are sent once.
"""

from __future__ import annotations

import hashlib
from functools import cache
from importlib.resources import files
from pathlib import Path

from starlette.requests import Request
from starlette.responses import FileResponse, JSONResponse, Response
from starlette.routing import BaseRoute, Route

_HERE = Path(__file__).parent
_SCRIPTS = ("stage_dom.js", "stage_controls.js", "stage.js")
_CACHED = {"Cache-Control": "public, max-age=86400"}


def plotly_js() -> Path:
    return Path(str(files("plotly") / "package_data" / "plotly.min.js"))


@cache
def stage_source() -> tuple[str, str]:
    """The stage's script, one module out of three files, and its style sheet."""
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


async def _health(_: Request) -> Response:
    return JSONResponse({"status": "ok"})


def routes() -> list[BaseRoute]:
    """For `st.App(script, routes=routes())`."""
    return [
        Route("/vendor/plotly.min.js", _plotly),
        Route("/vendor/stage.js", _script),
        Route("/vendor/stage.css", _style),
        Route("/healthz", _health),
    ]

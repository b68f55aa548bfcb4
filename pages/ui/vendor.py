"""Routes that the app adds to Streamlit's server: plotly.js from the installed plotly package, and a health check."""

from __future__ import annotations

from importlib.resources import files
from pathlib import Path

from starlette.requests import Request
from starlette.responses import FileResponse, JSONResponse, Response
from starlette.routing import BaseRoute, Route

PLOTLY_URL = "/vendor/plotly.min.js"


def plotly_js() -> Path:
    return Path(str(files("plotly") / "package_data" / "plotly.min.js"))


async def _plotly(_: Request) -> Response:
    # A day: the file changes only with the pinned plotly package, and etag answers the rest.
    return FileResponse(plotly_js(), media_type="text/javascript", headers={"Cache-Control": "public, max-age=86400"})


async def _health(_: Request) -> Response:
    return JSONResponse({"status": "ok"})


def routes() -> list[BaseRoute]:
    """For `st.App(script, routes=routes())`."""
    return [Route(PLOTLY_URL, _plotly), Route("/healthz", _health)]

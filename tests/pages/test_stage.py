"""The component's source: loads its own parts, writes no markup from data, and the routes serve plotly."""

from __future__ import annotations

import re
from pathlib import Path

from starlette.applications import Starlette
from starlette.testclient import TestClient

from pages.ui.vendor import routes, stage_source, stage_version


def test_script_is_one_module_that_never_writes_markup() -> None:
    script, style = stage_source()
    assert script.count("export default") == 1
    for word in ("innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval("):
        assert word not in script
    assert "prefers-reduced-motion" in style


def test_nothing_is_fetched_from_elsewhere() -> None:
    for text in stage_source():
        assert not re.search(r"https?://(?!www\.w3\.org/2000/svg)", text)
        assert not re.search(r"url\(|@import|\bimport\(", text)


def test_routes_serve_plotly_the_stage_and_health() -> None:
    client = TestClient(Starlette(routes=routes()))
    reply = client.get("/vendor/plotly.min.js")
    assert reply.status_code == 200
    assert reply.headers["content-type"].startswith("text/javascript")
    assert b"plotly.js" in reply.content[:2000]
    for url, kind in (("/vendor/stage.js", "text/javascript"), ("/vendor/stage.css", "text/css")):
        reply = client.get(f"{url}?v={stage_version()}")
        assert reply.status_code == 200
        assert reply.headers["content-type"].startswith(kind)
    assert client.get("/healthz").json() == {"status": "ok"}


def test_parts_stay_readable() -> None:
    folder = Path(__file__).parents[2] / "pages" / "ui"
    for path in folder.glob("stage*"):
        assert len(path.read_text(encoding="utf-8").splitlines()) <= 400, path.name

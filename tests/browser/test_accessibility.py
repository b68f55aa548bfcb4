"""axe-core finds nothing serious on any page, in light and dark, in both languages and for a projector.

axe-core (MPL-2.0) comes with axe-playwright-python, which only the tests need.
"""

from __future__ import annotations

from importlib.resources import files
from typing import Any

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.browser.server import find_chromium, returning, wait_for_step

pytest.importorskip("axe_playwright_python", reason="axe-core is missing (pip install -r requirements-dev.txt)")
pytestmark = [
    pytest.mark.browser,
    pytest.mark.skipif(find_chromium() is None, reason="no Chromium on this machine (Debian: apt install chromium)"),
]
AXE = files("axe_playwright_python").joinpath("axe.min.js")
THEMES = ("light", "dark")
SETTLE_MS = 1200  # Streamlit fades its elements in, and axe measures the contrast of what it sees


def findings(page: Page) -> list[str]:
    """Serious and critical findings that last: while Streamlit still draws, a chart may stick out of its place."""
    found = _found(page)
    for _ in range(3):
        if not found:
            break
        page.wait_for_timeout(2 * SETTLE_MS)
        found = _found(page)
    return found


def _found(page: Page) -> list[str]:
    """What axe finds now, with the elements it is about."""
    page.evaluate(AXE.read_text(encoding="utf-8"))
    result: dict[str, Any] = page.evaluate("() => axe.run(document, { resultTypes: ['violations'] })")
    return [
        f"{found['id']}: {node['target']} {node['html'][:160]} {node['failureSummary']}"
        for found in result["violations"]
        if found["impact"] in ("serious", "critical")
        for node in found["nodes"]
    ]


def opened(browser: Browser, theme: str, link: str) -> Page:
    page = returning(browser, viewport={"width": 1280, "height": 720}, color_scheme=theme).new_page()
    page.goto(link)
    expect(page.get_by_text("kvscope", exact=True)).to_be_visible(timeout=30_000)
    return page


@pytest.mark.parametrize(
    ("scenario", "theme", "query"),
    [
        ("memory_pressure", "light", "lang=en&step=10"),  # a budget binds
        ("memory_pressure", "dark", "lang=zh&step=17"),
        ("radix_fork", "light", "lang=zh&look=projector&step=6"),
        ("radix_fork", "dark", "lang=en&look=projector&step=6"),
    ],
)
def test_step_page(browser: Browser, address: str, scenario: str, theme: str, query: str) -> None:
    page = opened(browser, theme, f"{address}/?scenario={scenario}&model=toy&select=request:A&{query}")
    page.wait_for_selector(".kv-stage[data-drawn]", timeout=60_000)
    page.wait_for_timeout(SETTLE_MS)
    assert findings(page) == []
    for tab in page.locator('[role="tab"][aria-selected="false"]').all():
        tab.click()
    page.wait_for_timeout(SETTLE_MS)
    assert findings(page) == [], "with the other tabs open"
    page.context.close()


def test_tour_and_drawer(browser: Browser, address: str) -> None:
    page = opened(browser, "light", f"{address}/?scenario=three_requests&model=toy&step=3&lang=en&tour=1")
    wait_for_step(page, 2)
    page.wait_for_timeout(SETTLE_MS)
    assert findings(page) == []
    page.keyboard.press("Escape")
    page.get_by_role("button", name="Change").click()
    expect(page.get_by_role("tab", name="Settings")).to_be_visible()
    page.wait_for_timeout(SETTLE_MS)
    assert findings(page) == []
    page.context.close()


@pytest.mark.parametrize("theme", THEMES)
@pytest.mark.parametrize("path", ["compare", "memory", "prefix", "kernel", "library", "traces", "help"])
def test_other_pages(browser: Browser, address: str, theme: str, path: str) -> None:
    page = opened(browser, theme, f"{address}/{path}?model=toy&lang=en")
    page.wait_for_load_state("networkidle")
    page.wait_for_timeout(SETTLE_MS)
    assert findings(page) == []
    page.context.close()

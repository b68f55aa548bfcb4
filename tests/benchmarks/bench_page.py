"""Start to first paint, and click to fully drawn, in a real Chromium."""

from __future__ import annotations

import time

from playwright.sync_api import Page

from engine.model.weights import find_smollm2
from tests.benchmarks.report import median, p95, report
from tests.browser.server import chromium, find_chromium, serving, wait_for_step

CLICKS = 25
TARGET_START_S = 10.0
TARGET_CLICK_MS = 500.0


def main() -> None:
    if find_chromium() is None:
        report("Page", [("no Chromium on this machine", "not measured", "", None)])
        return
    model = "smollm2" if find_smollm2() is not None else "toy"
    rows: list[tuple[str, str, str, bool | None]] = []
    with chromium() as browser:
        began = time.perf_counter()
        with serving() as address:
            page = browser.new_page(viewport={"width": 1440, "height": 900})
            page.goto(f"{address}/?model={model}&lang=en")
            wait_for_step(page, -1, timeout_ms=120_000)
            start = time.perf_counter() - began
            rows.append(
                (f"start of the server to first paint, {model}", f"{start:.1f} s", f"≤ {TARGET_START_S:.0f} s",
                 start <= TARGET_START_S)
            )  # fmt: skip
            page.goto(f"{address}/?model=toy&scenario=memory_pressure&lang=en")
            wait_for_step(page, -1)
            times = _clicks(page)
            rows.append(
                ("click to fully drawn, toy, 5 panels (p50 / p95)", f"{median(times):.0f} / {p95(times):.0f} ms",
                 f"≤ {TARGET_CLICK_MS:.0f} ms", median(times) <= TARGET_CLICK_MS)
            )  # fmt: skip
    report("Page", rows)


def _clicks(page: Page) -> list[float]:
    """Milliseconds from the click to the last diagram drawn, by the page's own clock: the driver's is not counted."""
    page.evaluate(_STOPWATCH)
    times: list[float] = []
    button = page.get_by_role("button", name="Step →").first
    for step in range(CLICKS):
        if page.locator(".kv-stage").get_attribute("data-done") == "true":
            break
        button.click()
        wait_for_step(page, step)
        times.append(float(page.evaluate("window.kvDrawn - window.kvClicked")))
    return times[1:]


_STOPWATCH = """() => {
  const stage = document.querySelector(".kv-stage");
  addEventListener("click", () => { window.kvClicked = performance.now(); }, true);
  new MutationObserver(() => {
    if (stage.dataset.drawn === stage.dataset.step) window.kvDrawn = performance.now();
  }).observe(stage, { attributes: true, attributeFilter: ["data-drawn", "data-step"] });
}"""

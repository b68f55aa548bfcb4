"""Takes the README's picture, or with --all every scenario's first, middle and last step in each look.

python -m tests.screenshots                  docs/step.png
python -m tests.screenshots --all FOLDER     scenarios × sizes × themes × languages, for a designer's eye
"""

from __future__ import annotations

import argparse
from itertools import product
from pathlib import Path

from playwright.sync_api import Browser, Page

from scenarios.load import library
from tests.browser.server import chromium, serving, wait_for_step

README_PICTURE = Path(__file__).parents[1] / "docs" / "step.png"
SIZES = ((1440, 900), (1280, 720))
THEMES = ("light", "dark")
LANGUAGES = ("en", "zh")
SETTLE_MS = 500
LAST_MS = 300_000


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.screenshots", description=__doc__)
    parser.add_argument("--all", type=Path, metavar="FOLDER")
    parser.add_argument("--model", default="smollm2")
    options = parser.parse_args()
    with serving() as address, chromium() as browser:
        if options.all is None:
            _picture(browser, f"{address}/?scenario=memory_pressure&step=17&model={options.model}&lang=en")
            return
        for name, size, theme, lang in product(library(), SIZES, THEMES, LANGUAGES):
            _walk(browser, address, options, name, size, theme, lang)


def _open(browser: Browser, link: str, size: tuple[int, int], theme: str) -> Page:
    page = browser.new_page(
        viewport={"width": size[0], "height": size[1]},
        color_scheme=theme,  # type: ignore[arg-type]
    )
    page.goto(link)
    return page


def _picture(browser: Browser, link: str) -> None:
    page = _open(browser, link, SIZES[0], "light")
    wait_for_step(page, 16, LAST_MS)
    page.wait_for_timeout(SETTLE_MS)
    README_PICTURE.parent.mkdir(exist_ok=True)
    page.screenshot(path=README_PICTURE)
    page.close()


def _walk(
    browser: Browser,
    address: str,
    options: argparse.Namespace,
    name: str,
    size: tuple[int, int],
    theme: str,
    lang: str,
) -> None:
    page = _open(browser, f"{address}/?scenario={name}&model={options.model}&lang={lang}", size, theme)
    wait_for_step(page, -1, LAST_MS)
    page.keyboard.press("End")
    page.wait_for_selector('.kv-stage[data-running="false"][data-done="true"]', timeout=LAST_MS)
    last = int(page.locator(".kv-stage").get_attribute("data-step") or "0")
    options.all.mkdir(parents=True, exist_ok=True)
    for step in range(-1, last + 1, max(1, last // 6)):
        page.goto(f"{address}/?scenario={name}&model={options.model}&lang={lang}&step={step + 1}")
        wait_for_step(page, step, LAST_MS)
        page.wait_for_timeout(SETTLE_MS)
        page.screenshot(path=options.all / f"{name}-{size[0]}-{theme}-{lang}-{step + 1:02}.png")
    page.close()


if __name__ == "__main__":
    main()

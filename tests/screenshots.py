"""Takes the README's picture, or with --all pictures of every scenario and page in each look.

python -m tests.screenshots                  docs/step.png
python -m tests.screenshots --all FOLDER     scenarios × first, middle, last step × sizes × looks × languages, and
                                             the other pages; --scenario, --size, --look, --lang and --step narrow it
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from itertools import product
from pathlib import Path

from playwright.sync_api import Browser, Page

from scenarios.load import library
from tests.browser.server import chromium, returning, serving, wait_for_step

README_PICTURE = Path(__file__).parents[1] / "docs" / "step.png"
SIZES = ("1440x900", "1280x720")
LOOKS = ("light", "dark", "projector")
LANGUAGES = ("en", "zh")
STEPS = ("first", "middle", "last")
PAGES = ("compare", "memory", "prefix", "kernel", "library", "traces", "help")
SETTLE_MS = 500
PAGE_MS = 4000
LAST_MS = 300_000


def main() -> None:
    options = _options()
    with serving() as address, chromium() as browser:
        if options.all is None:
            _picture(browser, f"{address}/?scenario=memory_pressure&step=17&model={options.model}&lang=en")
            return
        options.all.mkdir(parents=True, exist_ok=True)
        for size, look in product(options.size, options.look):
            page = _open(browser, size, look)
            for lang in options.lang:
                query = f"model={options.model}&lang={lang}" + ("&look=projector" if look == "projector" else "")
                for name in options.scenario:
                    _walk(page, address, name, query, options.step, options.all / f"{name}-{size}-{look}-{lang}")
                for name in options.page:
                    page.goto(f"{address}/{name}?{query}")
                    page.wait_for_timeout(PAGE_MS)
                    page.screenshot(path=options.all / f"{name}-{size}-{look}-{lang}.png")
            page.context.close()


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m tests.screenshots", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--all", type=Path, metavar="FOLDER")
    parser.add_argument("--model", default="smollm2")
    names = library()
    for name, choices in {"size": SIZES, "look": LOOKS, "lang": LANGUAGES, "step": STEPS}.items():
        parser.add_argument(f"--{name}", nargs="+", choices=choices, default=choices)
    parser.add_argument("--scenario", nargs="*", choices=names, default=names)
    parser.add_argument("--page", nargs="*", choices=PAGES, default=PAGES)
    return parser.parse_args()


def _open(browser: Browser, size: str, look: str) -> Page:
    width, height = (int(part) for part in size.split("x"))
    scheme = "dark" if look == "dark" else "light"
    return returning(browser, viewport={"width": width, "height": height}, color_scheme=scheme).new_page()


def _picture(browser: Browser, link: str) -> None:
    page = _open(browser, SIZES[0], "light")
    page.goto(link)
    wait_for_step(page, 16, LAST_MS)
    page.wait_for_timeout(SETTLE_MS)
    README_PICTURE.parent.mkdir(exist_ok=True)
    page.screenshot(path=README_PICTURE)
    page.context.close()


def _walk(page: Page, address: str, name: str, query: str, steps: list[str], path: Path) -> None:
    """The scenario run to its end, and a picture of each of `steps`; the last is there first."""
    page.goto(f"{address}/?scenario={name}&step=0&{query}")
    wait_for_step(page, -1, LAST_MS)
    page.keyboard.press("End")
    page.wait_for_selector('.kv-stage[data-running="false"][data-done="true"]', timeout=LAST_MS)
    last = int(page.locator(".kv-stage").get_attribute("data-step") or "0")
    for which, step in _places(last, steps):
        page.locator(".kv-scrub").fill(str(step))
        wait_for_step(page, step, LAST_MS)
        page.wait_for_timeout(SETTLE_MS)
        page.screenshot(path=f"{path}-{which}-{step + 1:03}.png")


def _places(last: int, steps: list[str]) -> Iterator[tuple[str, int]]:
    places = {"first": -1, "middle": last // 2, "last": last}
    return ((which, places[which]) for which in STEPS if which in steps)


if __name__ == "__main__":
    main()

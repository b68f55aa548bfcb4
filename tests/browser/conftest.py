"""One server and one Chromium for all browser tests; each test gets a page whose console must stay clean."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, Page

from tests.browser.server import chromium, listen, returning, serving


@pytest.fixture(scope="session")
def address() -> Iterator[str]:
    with serving() as running:
        yield running


# Not the whole session: while Playwright's loop runs in this thread, no test after these could run one of its own.
@pytest.fixture(scope="package")
def browser() -> Iterator[Browser]:
    with chromium() as running:
        yield running


@pytest.fixture
def page(browser: Browser) -> Iterator[Page]:
    opened = returning(browser, viewport={"width": 1440, "height": 900}).new_page()
    complaints = listen(opened)
    yield opened
    opened.context.close()
    assert complaints == []

"""The prefix page in a real Chromium: arrow keys step both structures, and a tree grows by hand."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import Page, expect

from tests.browser.server import find_chromium

pytestmark = [
    pytest.mark.browser,
    pytest.mark.skipif(find_chromium() is None, reason="no Chromium on this machine (Debian: apt install chromium)"),
]


def test_arrow_keys_step_and_the_link_follows(page: Page, address: str) -> None:
    page.goto(f"{address}/prefix?scenario=radix_fork&hash=4&step=2&model=toy&lang=en")
    expect(page.locator(".js-plotly-plot")).to_have_count(3, timeout=30_000)
    page.keyboard.press("ArrowRight")
    expect(page.get_by_text("Node 1 is split")).to_be_visible()
    expect(page).to_have_url(re.compile("step=3"))
    page.keyboard.press("ArrowLeft")
    expect(page.get_by_text("Node 1 is split")).to_have_count(0)


def test_a_tree_grows_by_hand_and_survives_a_bad_operation(page: Page, address: str) -> None:
    page.goto(f"{address}/prefix?mode=tree&ops=insert+1234&model=toy&lang=en")
    text, button = page.get_by_label("Text or number"), page.get_by_role("button", name="Do it")
    text.fill("129")
    button.click()
    expect(page.get_by_text("2/2: match 129")).to_be_visible(timeout=30_000)
    expect(page.get_by_text("Matched: 2.")).to_be_visible()
    area = page.get_by_label("Operations, one a line")
    area.fill("insert 1234\nunlock 1234")
    area.press("Control+Enter")
    expect(page.get_by_text("Operation 2: 1234 is not locked")).to_be_visible()
    expect(page.get_by_text("2/2: match 129")).to_be_visible()

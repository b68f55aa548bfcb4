"""The kernel page in a real browser: the walk is stepped, scrubbed and played from memory, by mouse and by keys."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import Page, expect

from tests.browser.server import find_chromium, wait_for_step

pytestmark = [
    pytest.mark.browser,
    pytest.mark.skipif(find_chromium() is None, reason="no Chromium on this machine (Debian: apt install chromium)"),
]
SLOW_MS = 60_000


def drawn(page: Page) -> str:
    """The marked logical block in the picture."""
    return page.locator(".kv-player-chart .textpoint").filter(has_text="▼").text_content() or ""


def test_walk_along_the_block_table(page: Page, address: str) -> None:
    page.goto(f"{address}/kernel?scenario=shared_prefix&model=toy&step=4&request=A&lang=en")
    said = page.locator(".kv-player-said")
    expect(said).to_have_text("block 1 of 5", timeout=SLOW_MS)
    expect(page.locator(".kv-player-chart .main-svg").first).to_be_visible(timeout=SLOW_MS)
    assert drawn(page) == "▼0"
    page.get_by_role("button", name="One block on").click()
    expect(said).to_have_text("block 2 of 5")
    assert drawn(page) == "▼1"
    page.get_by_role("slider", name="Block of the walk").focus()
    page.keyboard.press("End")
    expect(said).to_have_text("block 5 of 5")
    page.get_by_role("button", name="Play the walk").click()
    expect(said).to_have_text("block 2 of 5", timeout=5_000)
    page.get_by_role("button", name="Stop playing").click()
    page.get_by_role("button", name="First block").click()
    expect(said).to_have_text("block 1 of 5")
    assert "logical block 0 is physical block" in (page.locator(".kv-player-chart").get_attribute("aria-label") or "")


def test_another_layer_keeps_the_player_and_a_fault_is_seen(page: Page, address: str) -> None:
    page.goto(f"{address}/kernel?scenario=shared_prefix&model=toy&step=4&request=A&layer=0&lang=en")
    said = page.locator(".kv-player-said")
    expect(said).to_have_text("block 1 of 5", timeout=SLOW_MS)
    page.get_by_role("slider", name="Layer").focus()
    page.keyboard.press("ArrowRight")
    expect(page).to_have_url(re.compile("layer=1"), timeout=SLOW_MS)
    expect(said).to_have_text("block 1 of 5")
    page.get_by_role("tab", name="What if the table were wrong?").click()
    page.get_by_text("NaN in a slot that is read").click()
    expect(page.get_by_text("The output is NaN")).to_be_visible(timeout=SLOW_MS)


def test_from_the_step_page_into_its_launch(page: Page, address: str) -> None:
    page.goto(f"{address}/?scenario=shared_prefix&model=toy&step=4&select=request:B&lang=en")
    wait_for_step(page, 3)
    page.get_by_role("button", name="Look inside").click()
    expect(page.get_by_text("Step 3, prefill of B", exact=False)).to_be_visible(timeout=SLOW_MS)

"""How the stage may look: for a projector, at three speeds, in light and dark, and with the tour of a first visit."""

from __future__ import annotations

from typing import Any

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.browser.server import find_chromium, listen, returning, wait_for_step

pytestmark = [
    pytest.mark.browser,
    pytest.mark.skipif(find_chromium() is None, reason="no Chromium on this machine (Debian: apt install chromium)"),
]
SLOW_MS = 60_000
SCROLLS = """() => {
  const root = document.scrollingElement, main = document.querySelector("[data-testid=stMain]");
  const isCut = (node) => node.scrollHeight > node.clientHeight + 1 || node.scrollWidth > node.clientWidth + 1;
  return [root, main].some(isCut);
}"""
SMALLEST_TYPE = """() => {
  const seen = [...document.querySelectorAll(".kv-stage *")].filter((node) =>
    [...node.childNodes].some((child) => child.nodeType === 3 && child.data.trim()) && node.checkVisibility() &&
    !node.closest(".kv-hidden"));
  return Math.min(...seen.map((node) => parseFloat(getComputedStyle(node).fontSize)));
}"""


def open_step(page: Page, address: str, step: int = -1, scenario: str = "memory_pressure", **query: str) -> None:
    query = {"model": "toy", "lang": "en", "scenario": scenario, "step": str(step + 1)} | query
    page.goto(f"{address}/?" + "&".join(f"{name}={value}" for name, value in query.items()))
    wait_for_step(page, step, SLOW_MS)


def stage(page: Page, expression: str) -> Any:
    return page.evaluate(
        f"(() => {{ const stage = document.querySelector('.kv-stage').kvStage; return {expression}; }})()"
    )


@pytest.mark.parametrize(("width", "height"), [(1440, 900), (1280, 720)])
@pytest.mark.parametrize(("scenario", "step"), [("memory_pressure", 16), ("radix_fork", 6)])
def test_a_projectors_link_fits_the_screen_in_large_type(
    browser: Browser, address: str, width: int, height: int, scenario: str, step: int
) -> None:
    context = returning(browser, viewport={"width": width, "height": height}, color_scheme="dark")
    page = context.new_page()
    complaints = listen(page)
    open_step(page, address, step, scenario, look="projector", lang="zh")
    assert not page.evaluate(SCROLLS)
    assert page.evaluate(SMALLEST_TYPE) >= 14.8
    assert page.locator(".kv-card").count() == 4
    assert page.locator(".kv-stage").get_attribute("data-theme") == "dark"
    context.close()
    assert complaints == []


def test_the_projector_is_switched_on_and_off_and_kept_in_the_link(page: Page, address: str) -> None:
    open_step(page, address, 4)
    page.keyboard.press("ArrowRight")
    wait_for_step(page, 5, SLOW_MS)
    page.get_by_role("button", name="Projector").click()
    page.wait_for_selector('.kv-stage[data-look="projector"][data-drawn="5"]', timeout=SLOW_MS)
    page.wait_for_url("**look=projector**")
    page.keyboard.press("ArrowRight")
    wait_for_step(page, 6, SLOW_MS)
    page.get_by_role("tab", name="Free queue").click()
    expect(page.locator(".kv-pool .kv-panel").filter(visible=True)).to_contain_text("HEAD")
    page.get_by_role("button", name="Projector").click()
    page.wait_for_selector('.kv-stage[data-look="desk"][data-drawn="6"]', timeout=SLOW_MS)
    page.wait_for_url(lambda url: "look=" not in url)


def test_light_and_dark_follow_the_browser_and_keep_the_step(page: Page, address: str) -> None:
    open_step(page, address, 3)
    light = page.evaluate("getComputedStyle(document.querySelector('.kv-card')).backgroundColor")
    page.emulate_media(color_scheme="dark")
    page.wait_for_selector('.kv-stage[data-theme="dark"][data-drawn="3"]', timeout=SLOW_MS)
    assert page.evaluate("getComputedStyle(document.querySelector('.kv-card')).backgroundColor") != light


def test_play_at_three_speeds_by_button_and_key(page: Page, address: str) -> None:
    open_step(page, address, 1, "three_requests")
    speed = page.get_by_role("button", name="Speed")
    expect(speed).to_have_text("1×")
    speed.click()
    expect(speed).to_have_text("4×")
    page.keyboard.press("1")
    expect(speed).to_have_accessible_name("½× Speed: slow")
    assert any(pause > 700 for pause in _pauses(page, "1"))
    fast = _pauses(page, "3")
    assert all(pause <= 175 for pause in fast), fast


def _pauses(page: Page, key: str) -> list[float]:
    """What play waits for before each of a few steps, in milliseconds; drawing has taken its part of it already."""
    page.keyboard.press("Home")
    wait_for_step(page, -1, SLOW_MS)
    page.keyboard.press(key)
    page.evaluate(
        """() => {
          window.kvPauses = [];
          window.kvTimeout ??= window.setTimeout;
          window.setTimeout = (act, pause, ...rest) => {
            if (String(act).includes("goTo(stage")) window.kvPauses.push(pause);
            return window.kvTimeout(act, pause, ...rest);
          };
        }"""
    )
    page.get_by_role("button", name="Play Space").click()
    page.wait_for_function("window.kvPauses.length >= 3", timeout=SLOW_MS)
    page.get_by_role("button", name="Stop Space").click()
    pauses: list[float] = page.evaluate("window.kvPauses")
    return pauses


class TestTour:
    def test_a_first_visit_is_shown_around_once(self, browser: Browser, address: str) -> None:
        context = browser.new_context(viewport={"width": 1280, "height": 720}, reduced_motion="reduce")
        page = context.new_page()
        complaints = listen(page)
        open_step(page, address, 2)
        tour = page.get_by_role("dialog", name="One click, one iteration")
        expect(tour).to_be_visible()
        expect(page.get_by_role("button", name="Next")).to_be_focused()
        page.keyboard.press("Enter")
        expect(page.get_by_role("dialog", name="Where the tokens lie")).to_be_visible()
        page.keyboard.press("ArrowRight")
        page.keyboard.press("ArrowLeft")
        expect(page.get_by_role("dialog", name="Where the tokens lie")).to_be_visible()
        page.keyboard.press("Shift+Tab")
        page.keyboard.press("Shift+Tab")
        expect(page.get_by_role("button", name="Skip")).to_be_focused()
        page.keyboard.press("Shift+Tab")
        expect(page.get_by_role("button", name="Next")).to_be_focused()
        page.keyboard.press("Enter")
        page.keyboard.press("Enter")
        expect(page.get_by_role("dialog", name="Change anything")).to_be_visible()
        page.get_by_role("button", name="Done").click()
        expect(page.get_by_role("dialog")).to_have_count(0)
        page.keyboard.press("ArrowRight")
        wait_for_step(page, 3, SLOW_MS)
        open_step(page, address, 1)
        page.wait_for_timeout(300)
        expect(page.get_by_role("dialog")).to_have_count(0)
        context.close()
        assert complaints == []

    def test_escape_skips_it_and_help_shows_it_again(self, browser: Browser, address: str) -> None:
        context = browser.new_context(locale="zh-CN")
        page = context.new_page()
        open_step(page, address, -1, lang="zh", look="projector")
        expect(page.get_by_role("dialog", name="单击一次，迭代一步")).to_be_visible()
        page.keyboard.press("Escape")
        expect(page.get_by_role("dialog")).to_have_count(0)
        page.goto(f"{address}/help?lang=zh")
        page.get_by_role("link", name="再看一遍").click()
        expect(page.get_by_role("dialog", name="单击一次，迭代一步")).to_be_visible(timeout=SLOW_MS)
        page.wait_for_url(lambda url: "tour=" not in url)
        context.close()

    def test_a_link_can_do_without(self, browser: Browser, address: str) -> None:
        context = browser.new_context()
        page = context.new_page()
        open_step(page, address, -1, tour="0")
        page.wait_for_timeout(300)
        expect(page.get_by_role("dialog")).to_have_count(0)
        context.close()

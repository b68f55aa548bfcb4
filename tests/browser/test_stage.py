"""Stepping from memory in a real Chromium: many presses, play, scrub, selection, links, a lost visit, no flicker."""

from __future__ import annotations

import re
from typing import Any

import pytest
from playwright.sync_api import Browser, Page, Request, expect

from tests.browser.server import find_chromium, listen, returning, wait_for_step

pytestmark = [
    pytest.mark.browser,
    pytest.mark.skipif(find_chromium() is None, reason="no Chromium on this machine (Debian: apt install chromium)"),
]
SLOW_MS = 60_000


def open_step(page: Page, address: str, step: int = -1, scenario: str = "memory_pressure", **query: str) -> None:
    more = "".join(f"&{name}={value}" for name, value in query.items())
    page.goto(f"{address}/?scenario={scenario}&model=toy&lang={query.get('lang', 'en')}&step={step + 1}{more}")
    wait_for_step(page, step, SLOW_MS)


def shown(page: Page) -> int:
    return int(page.locator(".kv-stage").get_attribute("data-step") or "-2")


def stage(page: Page, expression: str) -> Any:
    return page.evaluate(
        f"(() => {{ const stage = document.querySelector('.kv-stage').kvStage; return {expression}; }})()"
    )


def wait_until(page: Page, expression: str) -> None:
    """Until the expression over `stage` is true."""
    page.wait_for_function(
        f"(() => {{ const stage = document.querySelector('.kv-stage').kvStage; return {expression}; }})()",
        timeout=SLOW_MS,
    )


def test_ten_presses_in_a_second_end_ten_steps_on(page: Page, address: str) -> None:
    open_step(page, address)
    for _ in range(10):
        page.keyboard.press("ArrowRight")
        page.wait_for_timeout(100)
    wait_for_step(page, 9, SLOW_MS)
    page.wait_for_timeout(500)
    assert shown(page) == 9


def test_presses_without_a_pause_add_up_both_ways(page: Page, address: str) -> None:
    open_step(page, address)
    for key in ["ArrowRight"] * 14 + ["ArrowLeft"] * 4:
        page.keyboard.press(key)
    wait_for_step(page, 9, SLOW_MS)


def test_frames_ahead_are_in_memory_and_back_asks_for_none(page: Page, address: str) -> None:
    open_step(page, address, 5)
    wait_until(page, "[6, 7, 8, 9].every((step) => stage.store.frames.has(step))")
    page.keyboard.press("ArrowRight")
    wait_for_step(page, 6, SLOW_MS)
    wait_until(page, "stage.told === 6 && !stage.asking")
    asked: list[list[int]] = []
    page.on("request", lambda request: asked.append(_steps(request)) if request.url.endswith("/frames") else None)
    page.keyboard.press("ArrowLeft")
    wait_for_step(page, 5, SLOW_MS)
    wait_until(page, "stage.told === 5 && !stage.asking")
    assert asked == [[]], "the cursor is told, and nothing asked for"


def _steps(request: Request) -> list[int]:
    body: dict[str, Any] = request.post_data_json
    steps: list[int] = body["steps"]
    return steps


def test_a_part_that_did_not_change_is_not_sent_again(page: Page, address: str) -> None:
    open_step(page, address, 3)
    sent: list[str] = []

    def note(response: Any) -> None:
        if response.url.endswith("/frames"):
            sent.extend(response.json()["parts"])

    page.on("response", note)
    for step in range(4, 12):
        page.keyboard.press("ArrowRight")
        wait_for_step(page, step, SLOW_MS)
    wait_until(page, "!stage.asking")
    assert sent
    assert len(sent) == len(set(sent))


def test_play_draws_every_step_and_stops_at_the_end(page: Page, address: str) -> None:
    open_step(page, address, scenario="three_requests")
    page.evaluate(
        """() => {
          const root = document.querySelector(".kv-stage");
          window.kvSeen = [];
          new MutationObserver(() => window.kvSeen.push(Number(root.dataset.drawn)))
            .observe(root, { attributes: true, attributeFilter: ["data-drawn"] });
        }"""
    )
    page.keyboard.press("Space")
    page.wait_for_selector('.kv-stage[data-running="false"][data-done="true"]', timeout=SLOW_MS)
    last = shown(page)
    wait_for_step(page, last, SLOW_MS)
    seen = list(dict.fromkeys(page.evaluate("window.kvSeen")))
    assert seen == list(range(last + 1))


def test_pause_stops_at_once(page: Page, address: str) -> None:
    open_step(page, address)
    page.keyboard.press("Space")
    wait_until(page, "stage.shown >= 1")
    page.keyboard.press("Space")
    here = shown(page)
    page.wait_for_timeout(1600)
    assert shown(page) == here
    expect(page.get_by_role("button", name="Play")).to_be_visible()


def test_scrubbing_draws_the_pool_first_and_the_rest_at_rest(page: Page, address: str) -> None:
    open_step(page, address, 20)
    page.evaluate(
        """() => {
          const scrub = document.querySelector(".kv-scrub");
          for (const place of [15, 9, 4]) {
            scrub.value = String(place);
            scrub.dispatchEvent(new Event("input", { bubbles: true }));
          }
        }"""
    )
    page.wait_for_selector('.kv-stage[data-pool="4"]', timeout=SLOW_MS)
    wait_for_step(page, 4, SLOW_MS)
    assert page.locator(".kv-scrub").input_value() == "4"
    page.wait_for_url(re.compile(r"step=5\b"))


def test_run_to_the_end_and_stop_on_the_way(page: Page, address: str) -> None:
    open_step(page, address)
    page.keyboard.press("End")
    page.wait_for_selector('.kv-stage[data-done="true"]', timeout=SLOW_MS)
    last = shown(page)
    wait_for_step(page, last, SLOW_MS)
    expect(page.get_by_role("button", name="Step →")).to_be_disabled()
    page.keyboard.press("Home")
    wait_for_step(page, -1, SLOW_MS)


def test_a_selection_survives_steps_and_travels_in_the_link(page: Page, address: str) -> None:
    open_step(page, address, 6)
    page.get_by_role("tab", name="Requests").click()
    page.locator('[data-ref="request:B"]').first.click()
    chip = page.locator(".kv-chip")
    expect(chip).to_contain_text("request B")
    page.wait_for_url("**select=request%3AB**")
    page.keyboard.press("ArrowRight")
    wait_for_step(page, 7, SLOW_MS)
    expect(chip).to_contain_text("request B")
    page.wait_for_url(re.compile(r"step=8\b"))
    link = page.url
    page.goto("about:blank")
    page.goto(link)
    wait_for_step(page, 7, SLOW_MS)
    expect(chip).to_contain_text("request B")
    page.keyboard.press("Escape")
    expect(chip).to_be_hidden()
    page.wait_for_url(lambda url: "select" not in url)


def test_reload_lands_on_the_same_step(page: Page, address: str) -> None:
    open_step(page, address, 2)
    page.keyboard.press("ArrowRight")
    wait_for_step(page, 3, SLOW_MS)
    page.wait_for_url(re.compile(r"step=4\b"))
    page.reload()
    wait_for_step(page, 3, SLOW_MS)


def test_another_language_keeps_step_and_selection(page: Page, address: str) -> None:
    open_step(page, address, 4, select="block:3")
    page.keyboard.press("ArrowRight")
    wait_for_step(page, 5, SLOW_MS)
    page.get_by_text("中文", exact=True).click()
    expect(page.get_by_role("button", name="单步")).to_be_visible(timeout=SLOW_MS)
    wait_for_step(page, 5, SLOW_MS)
    expect(page.locator(".kv-chip")).to_contain_text("3")


def test_a_visit_the_server_forgot_starts_again_at_the_same_step(page: Page, address: str) -> None:
    open_step(page, address, 3)
    wait_until(page, "!stage.asking")
    page.route("**/frames", lambda route: route.fulfill(json={"gone": True}), times=1)
    before = stage(page, "stage.data.run")
    page.keyboard.press("ArrowRight")
    wait_until(page, "!stage.asking && stage.lost")
    page.unroute("**/frames")
    page.keyboard.press("ArrowRight")
    wait_for_step(page, 5, SLOW_MS)
    assert stage(page, "stage.data.run") == before, "the visit was there after all"


def test_without_a_server_what_was_run_can_still_be_walked(browser: Browser, address: str) -> None:
    page = returning(browser).new_page()  # a request that fails is written to the console: not held against this page
    open_step(page, address, 5)
    wait_until(page, "stage.store.frames.has(9) && !stage.asking")
    page.route("**/frames", lambda route: route.abort())
    page.keyboard.press("ArrowRight")
    wait_for_step(page, 6, SLOW_MS)
    expect(page.locator(".kv-notice")).to_contain_text("does not answer", timeout=SLOW_MS)
    page.keyboard.press("ArrowLeft")
    wait_for_step(page, 5, SLOW_MS)
    page.unroute("**/frames")
    expect(page.locator(".kv-notice")).not_to_contain_text("does not answer", timeout=SLOW_MS)
    page.close()


def test_two_tabs_share_nothing(browser: Browser, address: str) -> None:
    context = returning(browser)
    one, two = context.new_page(), context.new_page()
    complaints = [*listen(one), *listen(two)]
    open_step(one, address, 4)
    open_step(two, address, 1)
    one.keyboard.press("ArrowRight")
    wait_for_step(one, 5, SLOW_MS)
    two.reload()
    wait_for_step(two, 1, SLOW_MS)
    context.close()
    assert complaints == []


def test_new_blocks_are_shown_moving_unless_motion_is_not_wanted(browser: Browser, address: str) -> None:
    for motion, moves in (("no-preference", True), ("reduce", False)):
        page = returning(browser, reduced_motion=motion).new_page()
        open_step(page, address, -1)
        page.evaluate(
            """() => {
              window.kvMoved = 0;
              const animate = Element.prototype.animate;
              Element.prototype.animate = function (...how) {
                if (this.closest(".kv-plot")) window.kvMoved += 1;
                return animate.apply(this, how);
              };
            }"""
        )
        page.keyboard.press("ArrowRight")
        wait_for_step(page, 0, SLOW_MS)
        assert (page.evaluate("window.kvMoved") > 0) == moves
        page.close()


def test_memory_in_the_browser_is_bounded(page: Page, address: str) -> None:
    open_step(page, address)
    page.keyboard.press("End")
    page.wait_for_selector('.kv-stage[data-done="true"]', timeout=SLOW_MS)
    for step in range(shown(page), -1, -1):
        page.keyboard.press("ArrowLeft")
        if step % 10 == 0:
            wait_until(page, f"stage.shown < {step}")
    wait_for_step(page, -1, SLOW_MS)
    assert stage(page, "stage.store.frames.size") <= 60
    used = "new Set([...stage.store.frames.values()].flatMap(Object.values)).size"
    assert stage(page, "stage.store.parts.size") <= 2 * stage(page, used)

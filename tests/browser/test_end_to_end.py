"""What a stranger does, in a real Chromium: step a scenario to its end, go back, reload, upload a trace and step it."""

from __future__ import annotations

from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, expect

from engine.model.weights import find_smollm2
from tests.browser.server import find_chromium, listen, returning, serving, wait_for_step

pytestmark = [
    pytest.mark.browser,
    pytest.mark.skipif(find_chromium() is None, reason="no Chromium on this machine (Debian: apt install chromium)"),
]
TRACES = Path(__file__).parents[1] / "traces"
PAGES = ("/", "/step", "/compare", "/memory", "/prefix", "/kernel", "/library", "/traces", "/help")


def press(page: Page, key: str, times: int = 1) -> None:
    for _ in range(times):
        page.keyboard.press(key)


def shown_step(page: Page) -> int:
    return int(page.locator(".kv-stage").get_attribute("data-step") or "-1")


def run_to_end(page: Page) -> int:
    page.keyboard.press("End")
    page.wait_for_selector('.kv-stage[data-running="false"][data-done="true"]', timeout=120_000)
    last = shown_step(page)
    wait_for_step(page, last)
    return last


@pytest.mark.parametrize("path", PAGES)
def test_cold_link_to_each_page(browser: Browser, path: str) -> None:
    """On a server that nobody has visited yet, which is where Streamlit's pages folder has its trap."""
    with serving() as fresh:
        opened = returning(browser).new_page()
        complaints = listen(opened)
        opened.goto(f"{fresh}{path}?model=toy&lang=en")
        expect(opened.get_by_text("kvscope", exact=True)).to_be_visible(timeout=30_000)
        expect(opened.get_by_text("Page not found")).to_have_count(0)
        if path in ("/", "/step"):
            wait_for_step(opened, -1)
        opened.close()
        assert complaints == []


def test_step_back_and_forth_and_to_the_end(page: Page, address: str) -> None:
    page.goto(f"{address}/?scenario=three_requests&model=toy&lang=en")
    wait_for_step(page, -1)
    press(page, "ArrowRight", 2)
    wait_for_step(page, 1)
    press(page, "ArrowLeft")
    wait_for_step(page, 0)
    last = run_to_end(page)
    assert last > 3
    press(page, "Home")
    wait_for_step(page, -1)
    press(page, "ArrowRight", 10)
    wait_for_step(page, min(9, last))


def test_diagrams_keep_their_nodes_while_stepping(page: Page, address: str) -> None:
    page.goto(f"{address}/?scenario=three_requests&model=toy&lang=en")
    wait_for_step(page, -1)
    press(page, "ArrowRight")
    wait_for_step(page, 0)
    page.evaluate("document.querySelectorAll('.js-plotly-plot').forEach((plot, i) => plot.dataset.mine = i)")
    before = page.locator(".js-plotly-plot").count()
    press(page, "ArrowRight")
    wait_for_step(page, 1)
    assert page.locator(".js-plotly-plot[data-mine]").count() == before > 2


def test_the_link_opens_the_same_step_elsewhere(page: Page, address: str) -> None:
    page.goto(f"{address}/?scenario=memory_pressure&model=toy&step=4&lang=zh")
    wait_for_step(page, 3)
    press(page, "ArrowRight")
    wait_for_step(page, 4)
    page.wait_for_url("**step=5**")
    link = page.url
    page.goto("about:blank")
    page.goto(link)
    wait_for_step(page, 4)


def test_nonsense_in_the_link_is_no_traceback(page: Page, address: str) -> None:
    page.goto(f"{address}/?scenario=%3Cscript%3E&step=-7e9&lang=xx&model=../../etc&select=%00")
    wait_for_step(page, -1)
    expect(page.get_by_text("Traceback")).to_have_count(0)


@pytest.mark.skipif(find_smollm2() is None, reason="the SmolLM2 weights are not installed (make model)")
@pytest.mark.model
def test_real_model_writes_real_text(page: Page, address: str) -> None:
    page.goto(f"{address}/?scenario=shared_prefix&model=smollm2&lang=en")
    wait_for_step(page, -1, timeout_ms=60_000)
    press(page, "ArrowRight", 3)
    wait_for_step(page, 2, timeout_ms=60_000)
    run_to_end(page)
    expect(page.locator(".kv-stage")).to_contain_text("laws hold")


class TestUpload:
    def upload(self, page: Page, address: str, name: str, lang: str = "en") -> None:
        page.goto(f"{address}/traces?model=toy&lang={lang}")
        page.locator('input[type="file"]').set_input_files(TRACES / name)

    def test_azure_file_is_previewed_clipped_and_stepped(self, page: Page, address: str) -> None:
        self.upload(page, address, "azure_2023_conv_head40.csv")
        expect(page.get_by_text("Azure", exact=False).first).to_be_visible(timeout=20_000)
        expect(page.get_by_text("clipped", exact=False).first).to_be_visible()
        page.get_by_role("button", name="Step these").click()
        wait_for_step(page, -1)
        press(page, "ArrowRight", 3)
        wait_for_step(page, 2)

    def test_a_wrong_file_gets_a_sentence(self, page: Page, address: str) -> None:
        page.goto(f"{address}/traces?model=toy&lang=en")
        page.locator('input[type="file"]').set_input_files(
            {"name": "cat.png", "mimeType": "image/png", "buffer": b"\\x89PNG\\r\\n\\x1a\\n" + bytes(range(256))}
        )
        expect(page.get_by_role("alert").first).to_be_visible(timeout=20_000)
        expect(page.get_by_text("Traceback")).to_have_count(0)


class TestLibraryAndHelp:
    def test_a_card_s_picture_opens_its_scenario_before_the_first_step(self, page: Page, address: str) -> None:
        page.goto(f"{address}/?scenario=three_requests&step=3&model=toy&lang=en")
        wait_for_step(page, 2)
        page.get_by_role("link", name="Library").click()
        picture = page.locator(".kv-cover").nth(4)  # the fifth: twins
        picture.scroll_into_view_if_needed()
        box = picture.bounding_box()
        assert box is not None and box["width"] > 300
        page.mouse.click(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
        wait_for_step(page, -1)
        expect(page.get_by_role("combobox", name="Scenario")).to_have_value("Twins in one step")
        page.go_back()
        expect(page.locator(".kv-cover").first).to_be_visible(timeout=20_000)

    def test_an_exercise_opens_with_its_settings(self, page: Page, address: str) -> None:
        page.goto(f"{address}/library?lang=en")
        page.get_by_text("What happens if").first.click()
        page.get_by_role("link", name="What if the pool has two blocks more?").click()
        wait_for_step(page, 1)
        expect(page.get_by_text("Change (1 set)").first).to_be_visible()

    def test_a_question_leads_to_the_step_that_answers_it(self, page: Page, address: str) -> None:
        page.goto(f"{address}/help?lang=zh")
        page.get_by_role("link", name="三种上限，三种等待，第 7 步").click()
        wait_for_step(page, 7)
        expect(page.get_by_text("单步", exact=True).first).to_be_visible()


class TestByHand:
    """What a visitor changes between two steps, and the life that goes on from there."""

    def open_drawer(self, page: Page, address: str, tab: str) -> None:
        page.goto(f"{address}/?scenario=three_requests&model=toy&lang=en&step=3")
        wait_for_step(page, 2)
        page.get_by_role("button", name="Change").click()
        page.get_by_role("tab", name=tab).last.click()

    def test_a_request_of_ones_own_is_added_and_then_aborted(self, page: Page, address: str) -> None:
        self.open_drawer(page, address, "Requests")
        page.get_by_role("textbox", name="Prompt").fill("Once upon a time")
        page.get_by_role("button", name="Add this request").click()
        expect(page.get_by_text("before step 3: D added").first).to_be_visible(timeout=20_000)
        page.get_by_role("button", name="Change").click()
        press(page, "ArrowRight")
        wait_for_step(page, 3)
        page.get_by_role("tab", name="Requests").first.click()
        expect(page.locator('tbody[data-ref="request:D"]')).to_be_visible()
        page.get_by_role("button", name="Change").click()
        page.get_by_role("tab", name="Requests").last.click()
        page.get_by_role("combobox", name="A request that is not over").click()
        page.get_by_role("option", name="D", exact=True).click()
        page.get_by_role("button", name="Abort").click()
        expect(page.get_by_text("before step 4: D aborted").first).to_be_visible(timeout=20_000)
        page.get_by_role("button", name="Change").click()
        press(page, "ArrowRight")
        wait_for_step(page, 4)
        expect(page.locator('tbody[data-ref="request:D"]')).to_contain_text("aborted")

    def test_another_block_size_runs_anew_and_is_in_the_link(self, page: Page, address: str) -> None:
        self.open_drawer(page, address, "Settings")
        page.get_by_role("spinbutton", name="Block size (slots)").fill("32")
        page.get_by_role("button", name="Run with these").click()
        page.wait_for_url("**cfg=block_size%3A32**")
        wait_for_step(page, 2)


def test_a_click_in_a_diagram_selects_in_all_and_tells_its_life(page: Page, address: str) -> None:
    page.goto(f"{address}/?scenario=three_requests&model=toy&lang=en&step=3")
    wait_for_step(page, 2)
    bars = page.locator(".kv-pool .barlayer .trace.bars").nth(1).locator(".point")
    box = bars.nth(1).bounding_box()  # block 1; block 0 is the null block
    assert box is not None
    page.mouse.click(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
    expect(page.locator(".kv-chip")).to_contain_text("block #1")
    page.get_by_role("tab", name="Life story").click()
    jump = page.get_by_role("button", name="step 0")
    expect(page.locator(".kv-why")).to_contain_text("Handed out from the head of the free queue")
    jump.first.click()
    wait_for_step(page, 0)


def test_two_configurations_side_by_side(page: Page, address: str) -> None:
    page.goto(f"{address}/compare?lang=en&scenario=shared_prefix&b=block_size:8&step=2")
    expect(page.get_by_text("Side B").first).to_be_visible(timeout=30_000)
    plots = page.locator(".js-plotly-plot")
    expect(plots).to_have_count(6, timeout=30_000)
    page.get_by_role("button", name="Step", exact=False).last.click()
    page.wait_for_url("**step=3**")
    expect(page.get_by_text("Traceback")).to_have_count(0)

"""The kernel page: what it says of a launch is what the launch did, links open cold, nonsense is one sentence."""

from __future__ import annotations

import json
from importlib.util import find_spec
from typing import Any

import plotly.graph_objects as go
import pytest
import torch
from streamlit.testing.v1 import AppTest

from engine.model.load import load_model
from engine.roofline import GPUS
from kernels.errors import KernelError
from kernels.faults import Fault
from kernels.metadata import MaskKind
from kernels.recorder import walk
from kernels.traffic import Traffic
from pages.figures.block_walk import Walk, block_walk, walk_alt
from pages.figures.error_scale import error_scale
from pages.figures.mask_picture import mask_picture, runs
from pages.figures.program_grid import grid_alt, program_grid
from pages.figures.roofline import attainable, is_memory_bound, roofline, seconds
from pages.ui.edits import Add, Configure
from pages.ui.kernel_panels import masked, possible_faults
from pages.ui.launch_view import LaunchView, difference, launch_view
from pages.ui.launches import Launches, Source
from pages.ui.lens_panel import accesses, largest_state_difference, look, same_walk, violation_words
from pages.ui.player import shared_traces
from pages.ui.theme import DARK, LIGHT
from pages.ui.workload import Workload, scenario_workload
from scenarios.schema import RequestEntry
from tests.pages.test_pages import open_page

PAGE = "pages/kernel.py"


@pytest.fixture(scope="module")
def workload() -> Workload:
    return scenario_workload("shared_prefix", "toy", load_model("toy"))


@pytest.fixture(scope="module")
def launches() -> Launches:
    return Launches()


def view(launches: Launches, workload: Workload, step: int, request: str, layer: int = 1) -> LaunchView:
    looked = launches.at(Source(workload), step)
    shown = launch_view(looked, looked.kept.requests.index(request), layer)
    return shown.with_program(shown.newest)


def player_data(page: AppTest) -> dict[str, Any]:
    component = page.get("bidi_component")[0]
    data: dict[str, Any] = json.loads(component.proto.json)
    return data


def test_a_step_ahead_goes_on_and_a_step_back_starts_again(workload: Workload) -> None:
    launches = Launches(kept=1)
    source = Source(workload)
    third = launches.at(source, 3)
    assert launches.at(source, 3) is third
    fifth = launches.at(source, 5)
    assert fifth.engine is third.engine and fifth.step.index == 5
    again = launches.at(source, 3)
    assert again.engine is not fifth.engine
    for one, other in zip(again.kept.outputs, Launches().at(source, 3).kept.outputs, strict=True):
        assert torch.equal(one, other)


def test_past_the_end_is_the_last_step(workload: Workload) -> None:
    launches = Launches()
    last = launches.at(Source(workload), 500)
    assert last.last and last.step.index < 500
    assert launches.at(Source(workload), 400) is last


def test_edits_by_hand_belong_to_the_run(workload: Workload) -> None:
    edits = (
        Configure(changes={"block_size": 8, "num_blocks": 40}),
        Add(step=1, request=RequestEntry(id="Z", prompt="hello", max_tokens=3)),
    )
    looked = Launches().at(Source(workload, edits), 1)
    assert looked.kept.meta.block_size == 8
    assert "Z" in looked.engine.requests


def test_paged_equals_dense_in_every_layer(launches: Launches, workload: Workload) -> None:
    for layer in range(2):
        found = view(launches, workload, 3, "A", layer).difference
        assert found.largest == max(found.by_head) <= 2e-4


def test_difference_says_where() -> None:
    one, other = torch.zeros(2, 3, 4), torch.zeros(2, 3, 4)
    one[1, 2, 3] = 0.5
    found = difference(one, other)
    assert (found.token, found.head, found.dim, found.paged, found.dense) == (1, 2, 3, 0.5, 0.0)
    assert found.by_head == (0.0, 0.0, 0.5)
    one[0, 1, 0] = float("nan")
    found = difference(one, other)
    assert (found.token, found.head, found.dim) == (0, 1, 0)
    assert found.largest != found.largest


def test_faults_come_out_as_their_sentences_say(launches: Launches, workload: Workload) -> None:
    shown = view(launches, workload, 3, "A")
    faults = possible_faults(shown)
    assert set(faults) == set(Fault)
    came = {fault: difference(shown.rerun(*made), shown.output).largest for fault, (made, _) in faults.items()}
    assert came[Fault.POISONED_TAIL] == 0.0
    assert came[Fault.PAST_END] != came[Fault.PAST_END] and came[Fault.POISONED_SLOT] != came[Fault.POISONED_SLOT]
    assert not came[Fault.FOREIGN] <= 1e-3
    assert came[Fault.SWAPPED_TAIL] != came[Fault.SWAPPED_TAIL]
    assert came[Fault.SWAPPED] <= 1e-5  # decode: softmax sums over a set
    prefill = view(launches, workload, 0, "A")
    swapped, _ = possible_faults(prefill)[Fault.SWAPPED]
    assert difference(prefill.rerun(*swapped), prefill.output).largest > 1e-3


@pytest.mark.parametrize("palette", [LIGHT, DARK], ids=["light", "dark"])
def test_pictures_are_of_the_record(launches: Launches, workload: Workload, palette: Any) -> None:
    shown = view(launches, workload, 3, "A")
    grid = program_grid(shown.batch, shown.requests, shown.place, shown.row, palette, "en")
    go.Figure(grid)
    tiles, heads, splits = shown.batch.grid
    assert len(grid["data"][0]["x"]) == tiles * heads * splits
    idle = tiles * heads * splits - len(shown.batch.programs)
    assert grid["data"][1]["text"].count("–") == idle
    assert f"{idle} return at once" in grid_alt(shown.batch, "en")
    walk = Walk(shown.visits, (0, 1), ("h0", "h1"), shown.meta.block_size)
    frames = [block_walk(walk, at, palette, "en") for at in range(len(walk.visits))]
    table = shown.meta.block_table[0].tolist()
    for at, figure in enumerate(frames):
        go.Figure(figure)
        words = figure["data"][1]["text"]
        assert f"▼{at}" in words and f"#{table[at]}" in words
        assert f"#{table[at]}".removeprefix("#") in walk_alt(walk, at, "en")
    assert frames[-1]["data"][4]["text"].count("100%") == 2  # all of the weight is there at the end
    numbers, traces = shared_traces(frames)
    assert [[traces[number] for number in frame] for frame in numbers] == [figure["data"] for figure in frames]
    assert len(traces) < sum(map(len, numbers))


def test_mask_picture_fills_what_is_visible() -> None:
    visible = torch.tensor([[True, True, False, False, True], [False] * 5])
    assert runs(visible[0].tolist()) == [(0, 2), (4, 5)]
    figure = mask_picture(visible, 7, 10, 11, 4, LIGHT, "en")
    go.Figure(figure)
    seen = figure["data"][1]
    assert seen["base"] == [0.08] * 3 and seen["x"] == [10, 11, 14]  # cut where this step's tokens begin
    assert figure["data"][3]["x"] == [11, 11]


def test_masks_of_the_picture_are_the_kernels(launches: Launches, workload: Workload) -> None:
    meta = view(launches, workload, 3, "A").meta
    for kind in MaskKind:
        made = masked(meta, kind, 3 if kind in (MaskKind.WINDOW, MaskKind.PREFIX) else 0)
        assert (made.masks is None) == (kind is MaskKind.CAUSAL)


def test_roofline_is_williams() -> None:
    h100 = GPUS[1]
    low, high = Traffic(1000, 1000, 0, 2000), Traffic(1000, 1000, 0, 10**6)
    assert attainable(h100, 2.0) == 2.0 * h100.bandwidth and attainable(h100, 1e6) == h100.flops
    assert is_memory_bound(h100, low) and not is_memory_bound(h100, high)
    assert seconds(h100, low) == 1000 / h100.bandwidth and seconds(h100, high) == 10**6 / h100.flops
    for work in (low, high):
        figure = roofline(work, h100, LIGHT, "en")
        go.Figure(figure)
        assert figure["data"][2]["x"] == [work.intensity]


def test_zero_has_a_place_on_a_logarithmic_axis() -> None:
    figure = error_scale({"a": [0.0, 1e-3], "b": [1e-6, 1e-5]}, 2e-4, "h", "%{y}", LIGHT)
    go.Figure(figure)
    assert all(value > 0 for trace in figure["data"] for value in trace["y"])
    assert len({trace["marker"]["symbol"] for trace in figure["data"][1:]}) == 2


@pytest.mark.parametrize("lang", ["en", "zh"])
def test_the_page_opens_cold_on_a_link(lang: str) -> None:
    page = open_page(PAGE, scenario="shared_prefix", step="4", request="A", layer="1", lang=lang)
    assert not page.exception and not page.error and not page.warning
    data = player_data(page)
    assert len(data["frames"]) == len(data["captions"]) == len(data["alts"])
    assert page.number_input[0].value == 3
    assert {name: page.query_params[name] for name in ("step", "request", "layer")} == {
        "step": "4", "request": "A", "layer": "1",
    }  # fmt: skip
    assert any("✓" in each.value for each in page.markdown)


def test_every_control_is_in_the_link() -> None:
    page = open_page(PAGE, scenario="three_requests", step="3")
    page.number_input[0].set_value(4).run()
    assert not page.exception and page.query_params["step"] == "5"
    page.selectbox(key="kernel-request").set_value("B").run()
    assert page.query_params["request"] == "B"
    other = page.selectbox(key="kernel-program").options[-1]
    page.selectbox(key="kernel-program").set_value(other).run()
    assert not page.exception
    page.radio(key="kernel-mask-kind").set_value(MaskKind.WINDOW).run()
    page.radio(key="kernel-fault").set_value(Fault.POISONED_SLOT).run()
    assert not page.exception
    assert any("NaN" in each.value and "✗" in each.value for each in page.markdown)


@pytest.mark.parametrize(
    "query",
    [
        {"step": "0"},
        {"step": "<b>"},
        {"request": "nobody"},
        {"layer": "99"},
        {"program": "9.9.9"},
        {"scenario": "nope"},
    ],
)
def test_nonsense_in_a_kernel_link_is_a_sentence(query: dict[str, str]) -> None:
    page = open_page(PAGE, **{"scenario": "three_requests", **query})
    assert not page.exception and not page.error
    assert len(page.toast) == 1
    assert player_data(page)["frames"]


def test_a_step_that_launched_nothing_is_said() -> None:
    page = open_page(PAGE, scenario="three_requests", step="1")
    assert not page.exception
    page.number_input[0].set_value(500).run()
    assert not page.exception
    assert any("The run is over" in each.value for each in page.caption)


def test_a_choice_that_the_next_launch_lacks_gives_way() -> None:
    page = open_page(PAGE, scenario="three_requests", step="1")
    page.radio(key="kernel-mask-kind").set_value(MaskKind.TREE).run()
    page.number_input[0].set_value(1).run()  # decode: one token is no tree
    assert not page.exception
    assert page.radio(key="kernel-mask-kind").value is MaskKind.CAUSAL


def test_settings_of_a_link_hold_for_its_scenario_only() -> None:
    page = open_page(PAGE, scenario="three_requests", cfg="block_size:4,num_blocks:40", step="2")
    assert page.query_params["cfg"] == "block_size:4,num_blocks:40"
    assert any("of 4" in each.value for each in page.caption)
    page.selectbox(key="kernel-scenario").set_value("shared_prefix").run()
    assert not page.exception
    assert "cfg" not in page.query_params


def test_the_step_pages_run_is_the_first_choice_with_its_step_and_request() -> None:
    page = open_page(scenario="shared_prefix", step="4", select="request:A")
    page.switch_page(PAGE)
    page.query_params.clear()  # the menu's link says nothing of them
    page.run()
    assert not page.exception
    assert page.selectbox(key="kernel-scenario").value == ""
    assert page.number_input[0].value == 3
    assert page.selectbox(key="kernel-request").value == "A"


def test_the_lens_sees_what_the_twin_says(launches: Launches, workload: Workload) -> None:
    shown = view(launches, workload, 3, "A")
    seen = look(shown, (shown.layer, shown.meta))
    result = seen.result
    assert seen.tokens == 1 and not result.violations
    assert difference(result.output, shown.output).largest <= 1e-5
    twin = walk(shown.query, shown.layer, shown.meta, shown.rule)
    assert same_walk(result.record, twin) and same_walk(result.reads, twin)
    assert largest_state_difference(result.record, twin) <= 1e-4
    table = accesses(result, "en")
    assert len(table) == len(result.accesses) and {"key", "value", "query", "output"} <= set(table["tensor"])
    other = view(launches, workload, 0, "A")
    long = look(other, (other.layer, other.meta))
    assert 32 <= long.tokens < len(other.output)
    assert difference(long.result.output, other.output[-long.tokens :]).largest <= 1e-5
    assert not same_walk(result.record, long.result.record)


@pytest.mark.parametrize(
    ("fault", "says"),
    [
        (Fault.FOREIGN, "another request's block"),
        (Fault.SWAPPED, "not the one for these positions"),
        (Fault.PAST_END, "beyond its length"),
    ],
)
def test_the_watched_kernel_names_what_it_must_not_read(
    launches: Launches, workload: Workload, fault: Fault, says: str
) -> None:
    shown = view(launches, workload, 3, "A")
    launch, _ = possible_faults(shown)[fault]
    violations = look(shown, launch).result.violations
    assert violations
    assert any(says in violation_words(violation, "en") for violation in violations)
    assert all(violation_words(violation, "zh") for violation in violations)


def test_what_is_behind_the_end_is_never_read(launches: Launches, workload: Workload) -> None:
    shown = view(launches, workload, 3, "A")
    launch, _ = possible_faults(shown)[Fault.POISONED_TAIL]
    assert not look(shown, launch).result.violations


def test_a_lens_that_cannot_start_is_a_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise KernelError("triton", "is not installed here")

    page = open_page(PAGE, scenario="three_requests", step="3")
    monkeypatch.setattr("pages.ui.lens_panel.LENS.look", refuse)
    page.button(key="kernel-run-lens").click().run()
    assert not page.exception
    assert any("triton" in each.value for each in page.warning)
    monkeypatch.undo()
    page.button(key="kernel-run-lens").click().run()
    assert not page.exception and not page.warning
    assert any("the same blocks in the same order" in each.value for each in page.markdown)
    page.number_input[0].set_value(3).run()  # another launch: what was seen is not of it
    assert not any("the same blocks in the same order" in each.value for each in page.markdown)


def test_a_kv_dtype_is_switched_on_and_its_error_is_the_engines(launches: Launches, workload: Workload) -> None:
    looked = launches.at(Source(workload), 3)
    expected = looked.errors_of(0)
    assert looked.errors_of(0) is expected
    page = open_page(PAGE, scenario="shared_prefix", step="4", layer="1")
    before = len(page.get("plotly_chart"))
    page.radio(key="kernel-kv-dtype").set_value("int8").run()
    assert not page.exception
    assert len(page.get("plotly_chart")) == before + 1
    mine = next(each for each in expected if (each.layer, each.kv_dtype) == (1, "int8"))
    assert any(f"{mine.relative:.2%}" in each.value and "int8" in each.value for each in page.markdown)


@pytest.mark.skipif(find_spec("triton") is None, reason="triton has wheels for Linux only")
def test_the_compiled_kernel_is_beside_its_source_once_asked_for() -> None:
    page = open_page(PAGE, scenario="three_requests", step="3")
    assert len(page.get("bidi_component")) == 1
    page.button(key="kernel-compile").click().run()
    assert not page.exception and not page.warning
    _, panes = page.get("bidi_component")
    data = json.loads(panes.proto.json)
    assert len(data["text"]) == len(data["lines"])
    dots = [line for text, line in zip(data["text"], data["lines"], strict=True) if "tt.dot " in text]
    assert data["start"] in dots
    assert "tl.dot(query, key" in data["source"][data["start"] - data["first_line"]]
    assert any("registers a thread" in each.value for each in page.markdown)

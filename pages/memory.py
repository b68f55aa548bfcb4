"""Memory: paged and contiguous KV on the same load, the hit staircase, latency, goodput and fairness."""

from __future__ import annotations

import sys
from functools import lru_cache, partial
from pathlib import Path

import streamlit as st

if __name__ == "__main__":  # opened by its own address, Streamlit knows only this file's folder
    sys.path.insert(0, str(Path(__file__).parents[1]))

from engine.config import CHOICES, EngineConfig
from engine.errors import UserError
from engine.metrics import Targets
from engine.roofline import GPUS, MODELS, read_clock
from pages.figures.latency import clock_label, latency, latency_alt
from pages.figures.memory import KINDS, Bars, kind_color, slot_bars, slots_alt, uses
from pages.figures.staircase import first_lookups, staircase
from pages.ui import link_state, shell
from pages.ui.chart import chart
from pages.ui.metrics_table import metrics_table
from pages.ui.recorded import pick_scenario
from pages.ui.settings import changes_between
from pages.ui.shell import ActivePage, header
from pages.ui.text import Lang, number, t
from pages.ui.theme import Palette
from scenarios import load, report
from scenarios.compare import Changes, Comparison, Contender, compare_recorded

PAGE: ActivePage = "memory"
DEFAULT = "contiguous"
BLOCK_SIZES = ("1", "2", "4", "8", "16", "32", "64")
CLOCKS = tuple(f"{model.name}@{gpu.name}" for model in MODELS for gpu in GPUS)
OPTIONS = {"block": BLOCK_SIZES, "reserve": CHOICES["contiguous_reserve"], "clock": CLOCKS}
NAMES = ("scenario", *OPTIONS)
GROUPS = ("fairness.", "goodput.", "ttft.", "tpot.", "queue.")
FIXED: dict[str, object] = {"preemption": "recompute", "batching": "continuous"}


def main() -> None:
    lang = header(PAGE)
    palette = shell.palette()
    view, fresh = link_state.view(PAGE, NAMES)
    view = {"scenario": DEFAULT, **view}
    with st.container(horizontal=True, vertical_alignment="bottom", gap="medium"):
        scenario = pick_scenario("memory-scenario", view, fresh, lang)
        base = load.load(scenario).config
        shown = {"block": str(base.block_size), "reserve": base.contiguous_reserve, "clock": CLOCKS[1]}
        picked = {name: _option(name, view, shown[name], fresh, lang) for name in OPTIONS}
    link_state.show(PAGE, {"scenario": scenario, **picked})
    sides = _sides(base, int(picked["block"]), picked["reserve"])
    try:
        found = _compare(scenario, *sides, picked["clock"], None)
    except UserError as error:
        st.error(t(error.key, lang, **{**error.params, "reason": _reason(error, lang)}))
        return
    _memory(found, load.load(scenario).title.get(lang), palette, lang)
    _times(found, scenario, sides, picked["clock"], palette, lang)


def _option(name: str, view: dict[str, str], usual: str, fresh: bool, lang: Lang) -> str:
    """One choice of the page; what a link asks for and does not exist gives way, with a sentence."""
    choices, key, state = OPTIONS[name], f"memory-{name}", st.session_state
    if fresh or key not in state:
        asked = view.get(name, usual)
        if asked not in choices:
            st.warning(t("memory.bad_link", lang, name=name, value=asked, choices=", ".join(choices), shown=usual))
            asked = usual
        state[key] = asked
    if name == "block":
        return str(st.select_slider(t("memory.block_size", lang), choices, key=key, width=300))
    if name == "reserve":
        return st.selectbox(
            t("memory.reserve", lang), choices, key=key, width=190, format_func=lambda each: t(f"choice.{each}", lang)
        )
    return st.selectbox(t("memory.model", lang), choices, key=key, width=260)


def _sides(base: EngineConfig, block_size: int, reserve: str) -> tuple[Changes, Changes]:
    """Paged and contiguous over as many slots as the scenario has, in blocks of `block_size`."""
    blocks = max(1, base.usable_blocks * base.block_size // block_size) + 1
    both = {**FIXED, "block_size": block_size, "num_blocks": blocks, "contiguous_reserve": reserve}
    paged, contiguous = (
        changes_between(base, base.with_changes({**both, "kv_layout": layout})) for layout in ("paged", "contiguous")
    )
    return tuple(paged.items()), tuple(contiguous.items())


@lru_cache(maxsize=32)
def _compare(scenario: str, a: Changes, b: Changes, clock: str, targets: Targets | None) -> Comparison:
    return compare_recorded(scenario, a, b, read_clock(clock), targets)


def _reason(error: UserError, lang: Lang) -> object:
    reason = error.params.get("reason")
    return t(reason.key, lang, **reason.params) if isinstance(reason, UserError) else reason


def _memory(found: Comparison, title: str, palette: Palette, lang: Lang) -> None:
    config = found.a.config
    slots = config.usable_blocks * config.block_size
    st.caption(
        t("memory.note", lang, scenario=title, slots=slots) + " " + _legend(palette, lang), unsafe_allow_html=True
    )
    sides = {"paged": found.a, "contiguous": found.b}
    bars = {name: uses(side.steps, name == "contiguous") for name, side in sides.items()}
    last = max((shown[-1][0] for shown in bars.values() if shown), default=0)
    for place, name in zip(st.columns(2, gap="medium"), sides, strict=True):
        with place:
            st.markdown(f"**{t(f'memory.{name}', lang)}** · {_share(bars[name], lang)}")
            chart(slot_bars(bars[name], last, palette, lang), 215, f"memory-{name}", slots_alt(bars[name], lang))


def _legend(palette: Palette, lang: Lang) -> str:
    return " ".join(
        f'<span style="color:{kind_color(kind, palette) if kind != "free" else palette.free_line}">■</span> '
        + t(f"memory.{kind}", lang)
        for kind in KINDS
    )


def _share(bars: Bars, lang: Lang) -> str:
    """How much of what is owned holds KV, over the run."""
    if not bars:
        return t("memory.nothing", lang)
    owned = sum(use.written + use.reserved + use.internal for _, use in bars)
    written, internal = sum(use.written for _, use in bars), sum(use.internal for _, use in bars)
    share = f"{written / owned:.0%}" if owned else t("metric.none", lang)
    return t("memory.at_peak", lang, share=share, steps=len(bars), internal=f"{internal / len(bars):.1f}")


def _times(
    found: Comparison, scenario: str, sides: tuple[Changes, Changes], clock: str, palette: Palette, lang: Lang
) -> None:
    stairs, left, right = st.columns([0.8, 1, 1], gap="medium")
    size = found.a.config.block_size
    with stairs:
        st.markdown(f"**{t('memory.stairs', lang)}**")
        lookups = first_lookups(found.a.steps)
        alt = t("alt.stairs", lang, size=size, n=len(lookups))
        chart(staircase(lookups, size, palette, lang), 215, "memory-stairs", alt)
        st.caption(t("memory.stairs_note", lang, size=size))
    for place, name, side in ((left, "paged", found.a), (right, "contiguous", found.b)):
        with place:
            st.markdown(f"**{t('panel.latency', lang)}**: {t(f'memory.{name}', lang)}")
            chart(
                latency(side.metrics, None, palette, lang),
                215,
                f"memory-latency-{name}",
                latency_alt(side.metrics, lang),
            )
            st.caption(t("panel.latency_sub", lang, clock=clock_label(side.metrics, lang)))
    st.markdown(f"**{t('memory.latency', lang)}**")
    targets = _targets((found.a, found.b), lang)
    found = _compare(scenario, *sides, clock, targets)
    rows = [row for row in report.compared_rows() if row.path.startswith(GROUPS)]
    names = (t("memory.paged", lang), t("memory.contiguous", lang))
    table = metrics_table(found.a.metrics, found.b.metrics, rows, names, lang)
    st.dataframe(table, hide_index=True, height=360, key="memory-metrics")


def _targets(sides: tuple[Contender, Contender], lang: Lang) -> Targets | None:
    """A slider for each latency that has data, up to the longest that either side took."""
    asked: dict[str, float] = {}
    with st.container(horizontal=True, gap="large"):
        for name in ("ttft", "tpot"):
            spreads = [spread for side in sides if (spread := getattr(side.metrics, name)) is not None]
            longest = max((spread.max for spread in spreads), default=0.0)
            if longest > 0:
                step = longest / 50
                asked[f"{name}_ms"] = step * st.select_slider(
                    t(f"memory.{name}", lang), range(1, 61), 25, key=f"memory-{name}", width=320,
                    format_func=partial(_milliseconds, lang, step),
                )  # fmt: skip
    return Targets(**asked) if asked else None


def _milliseconds(lang: Lang, step: float, ticks: int) -> str:
    return t("figure.ms", lang, ms=number(ticks * step))


if __name__ == "__main__":
    main()

"""Compare: one scenario under two configurations, stepped side by side, what differs marked, and what each costs."""

from __future__ import annotations

import sys
from functools import lru_cache
from pathlib import Path

import streamlit as st

if __name__ == "__main__":  # opened by its own address, Streamlit knows only this file's folder
    sys.path.insert(0, str(Path(__file__).parents[1]))

from engine.config import EngineConfig
from engine.errors import UserError
from engine.roofline import GPUS, MODELS, Roofline
from engine.snapshot import RequestView, Snapshot
from pages.figures.block_tables import block_tables
from pages.figures.differences import comparable, differing_blocks, differing_requests, pool_rings, table_rings
from pages.figures.marks import block_marks
from pages.figures.pool import pool
from pages.figures.schedule import schedule
from pages.ui import link_state, shell
from pages.ui.chart import chart
from pages.ui.metrics_table import metrics_table
from pages.ui.recorded import pick_scenario
from pages.ui.settings import changes_between, from_link, settings_form, to_link
from pages.ui.shell import ActivePage, header
from pages.ui.stepping import stepper
from pages.ui.text import Lang, listing, plural, t
from scenarios import load, report
from scenarios.compare import Changes, Comparison, Contender, compare_recorded

PAGE: ActivePage = "compare"
NAMES = ("scenario", "a", "b", "step")
SPEC = MODELS[0].spec  # of SmolLM2, whose tokens are replayed
PAIRS = {
    "batching": ("static_batching", "", "batching:continuous"),
    "room": ("swap", "preemption:recompute", ""),
    "blocks": ("shared_prefix", "block_size:4,num_blocks:37", "block_size:16"),
    "chunks": ("chunked_prefill", "", "enable_chunked_prefill:false,max_num_batched_tokens:128"),
    "layout": ("contiguous", "", "kv_layout:paged"),
    "fairness": ("lpm_starvation", "", "lpm_ageing:4"),
    "priority": ("priorities", "policy:fcfs", ""),
}
DEFAULT = "batching"
CURSOR, SCENARIO, GPU = "compare-cursor", "compare-scenario", "compare-gpu"
Pair = tuple[EngineConfig, EngineConfig]


def main() -> None:
    lang = header(PAGE)
    view, fresh = link_state.view(PAGE, NAMES)
    view = view or _pair(DEFAULT)
    scenario = pick_scenario(SCENARIO, view, fresh, lang, _changed_scenario)
    with st.container(horizontal=True, vertical_alignment="center", gap="small"):
        st.caption(t("compare.pairs", lang), width="content")
        for name in PAIRS:
            st.button(t(f"compare.pair_{name}", lang), key=f"pair-{name}", on_click=_take, args=(name,))
    base = load.load(scenario).config
    configs = _config("a", view, base, lang), _config("b", view, base, lang)
    found = _compared(scenario, configs, base, lang)
    cursor = 0 if found is None else _stepping(found, view, fresh, lang)
    for side, place, config in zip("ab", st.columns(2, gap="medium"), configs, strict=True):
        with place:
            changed = _side(side, config, base, found, cursor, lang)
        if changed is not None:
            link_state.show(PAGE, {**_texts(scenario, configs, base), side: to_link(changes_between(base, changed))})
            st.rerun()
    link_state.show(PAGE, {**_texts(scenario, configs, base), "step": str(cursor + 1) if found else ""})
    if found is not None:
        _metrics(found, lang)


def _pair(name: str) -> dict[str, str]:
    return dict(zip(NAMES, PAIRS[name], strict=False))


def _take(name: str) -> None:
    """A preset, opened where its two sides part."""
    st.session_state[SCENARIO] = PAIRS[name][0]
    st.session_state.pop(CURSOR, None)
    link_state.show(PAGE, {**_pair(name), "step": ""})


def _changed_scenario() -> None:
    st.session_state.pop(CURSOR, None)
    link_state.show(PAGE, {"scenario": st.session_state[SCENARIO], "a": "", "b": "", "step": ""})


def _texts(scenario: str, configs: Pair, base: EngineConfig) -> dict[str, str]:
    a, b = (to_link(changes_between(base, config)) for config in configs)
    return {"scenario": scenario, "a": a, "b": b, "step": ""}


def _config(side: str, view: dict[str, str], base: EngineConfig, lang: Lang) -> EngineConfig:
    """The side's configuration; changes of a link that cannot be are left out, with a sentence."""
    try:
        return from_link(view.get(side, ""), base, SPEC)
    except UserError as error:
        st.warning(f"{side.upper()}: " + t("settings.bad_link", lang, reason=t(error.key, lang, **error.params)))
        return base


def _compared(scenario: str, configs: Pair, base: EngineConfig, lang: Lang) -> Comparison | None:
    gpu = st.session_state.get(GPU, GPUS[1].name)
    a, b = (tuple(changes_between(base, config).items()) for config in configs)
    try:
        return _compare(scenario, a, b, gpu)
    except UserError as error:
        reason = error.params["reason"]
        if isinstance(reason, UserError):
            reason = t(reason.key, lang, **reason.params)
        st.error(t(error.key, lang, **{**error.params, "reason": reason}))
        return None


@lru_cache(maxsize=16)
def _compare(scenario: str, a: Changes, b: Changes, gpu: str) -> Comparison:
    clock = Roofline(MODELS[0], next(each for each in GPUS if each.name == gpu))
    return compare_recorded(scenario, a, b, clock)


def _stepping(found: Comparison, view: dict[str, str], fresh: bool, lang: Lang) -> int:
    """Buttons, slider and the sentence about where the two part; returns the step shown."""
    last = max(len(found.a.steps), len(found.b.steps)) - 1
    parting = found.difference.step if found.difference is not None else 0
    start = None
    if fresh or CURSOR not in st.session_state:
        asked = link_state.whole_number(view.get("step", ""))
        start = parting if asked is None else asked - 1
    cursor = stepper(PAGE, last, start, lang, {"parting": parting if found.difference is not None else None})
    why = t("compare.same", lang, steps=last + 1)
    if found.difference is not None:
        why = t(found.difference.why.key, lang, **found.difference.why.params)
    st.markdown(f"{_escape(why)} {_escape(_now(found, cursor, lang))}")
    return cursor


def _now(found: Comparison, cursor: int, lang: Lang) -> str:
    """What differs at this step."""
    a, b = _snapshot(found.a, cursor), _snapshot(found.b, cursor)
    requests, blocks = differing_requests(a, b), differing_blocks(a, b)
    said = [t("compare.now", lang, step=cursor)]
    if requests:
        said.append(t("compare.requests_differ", lang, requests=listing([mine.id for mine, _ in requests], lang)))
    if not comparable(a, b):
        said.append(t("compare.other_pool", lang))
    elif blocks:
        said.append(plural("compare.blocks_differ", len(blocks), lang))
    elif not requests:
        said.append(t("compare.no_difference", lang))
    return " ".join(said)


def _snapshot(side: Contender, cursor: int) -> Snapshot:
    return side.steps[min(cursor, len(side.steps) - 1)].snapshot


def _side(
    side: str, config: EngineConfig, base: EngineConfig, found: Comparison | None, cursor: int, lang: Lang
) -> EngineConfig | None:
    """One side's settings and diagrams; returns its new configuration if one was asked for."""
    changes = to_link(changes_between(base, config)).replace(",", ", ").replace(":", " = ")
    with st.container(horizontal=True, vertical_alignment="center", gap="small"):
        st.html(f'<span class="kv-letter">{side.upper()}</span>', width="content")
        count = len(changes_between(base, config))
        label = t("settings.open_changed", lang, n=count) if count else t("settings.open", lang)
        with st.popover(label, width="content"):
            wanted = settings_form(config, base, SPEC, lang, side)
        st.caption(f"`{changes}`" if changes else t("compare.as_written", lang))
    if found is not None:
        mine, other = (found.a, found.b) if side == "a" else (found.b, found.a)
        _diagrams(side, mine, other, cursor, lang)
    return wanted


def _diagrams(side: str, mine: Contender, other: Contender, cursor: int, lang: Lang) -> None:
    palette = shell.palette()
    at = min(cursor, len(mine.steps) - 1)
    step, theirs = mine.steps[at], _snapshot(other, cursor)
    snapshot, marks = step.snapshot, block_marks(step.events, step.snapshot) if at == cursor else {}
    if at < cursor:
        st.caption(t("compare.over", lang, step=len(mine.steps)))
    further = {view.id for view, _ in differing_requests(snapshot, theirs)}
    lines = [_progress(view, lang) for view in snapshot.requests if view.id in further]
    budget = mine.config.max_num_batched_tokens
    tables, blocks = (draw(snapshot, marks, None, palette, lang) for draw in (block_tables, pool))
    tables["data"].append(table_rings(snapshot, theirs, palette))
    blocks["data"].append(pool_rings(snapshot, theirs, palette))
    used = sum(step.scheduled_tokens.values())
    alt = t("alt.schedule", lang, step=step.index, tokens=used, budget=budget)
    for name, figure, height, words in (
        ("schedule", schedule(mine.steps, at, budget, None, palette, lang), 190, alt),
        ("tables", tables, 150, " ".join(lines)),
        ("pool", blocks, 170, t("compare.pool_alt", lang, owned=snapshot.pool.owned, usable=mine.config.usable_blocks)),
    ):
        st.caption(f"**{t(f'panel.{name}', lang)}**")
        chart(figure, height, f"compare-{side}-{name}", words or t(f"panel.{name}", lang))


def _progress(view: RequestView, lang: Lang) -> str:
    status = t(f"status.{view.status.value.lower()}", lang)
    return t(
        "compare.progress", lang, id=view.id, status=status, computed=view.computed_tokens, known=view.known_tokens
    )


def _metrics(found: Comparison, lang: Lang) -> None:
    with st.container(horizontal=True, vertical_alignment="center"):
        st.markdown(f"**{t('compare.metrics', lang)}**", width="content")
        names = [gpu.name for gpu in GPUS]
        st.selectbox(t("compare.gpu", lang), names, names.index("H100-SXM"), key=GPU, width=220)
        st.caption(t("compare.recorded", lang))
    table = metrics_table(found.a.metrics, found.b.metrics, report.compared_rows(), ("A", "B"), lang)
    st.dataframe(table, hide_index=True, height=360, key="compare-metrics")


def _escape(text: str) -> str:
    """Markdown's own characters in names of requests and settings."""
    return text.replace("_", "\\_").replace("*", "\\*").replace("$", "\\$").replace("<", "&lt;")


if __name__ == "__main__":
    main()

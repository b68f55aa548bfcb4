"""Prefix: hashed blocks and the radix tree over the same requests, step by step; and a radix tree to work by hand."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path

import streamlit as st

if __name__ == "__main__":  # opened by its own address, Streamlit knows only this file's folder
    sys.path.insert(0, str(Path(__file__).parents[1]))

from engine.events import Admitted
from pages.figures.hash_chains import chains_alt, hash_chains
from pages.figures.marks import block_marks
from pages.figures.match_ruler import Ruler, match_ruler, ruler_alt
from pages.figures.primitives import escape
from pages.figures.radix_tree import radix_tree, tree_alt
from pages.ui import link_state, shell, tree_by_hand
from pages.ui.chart import chart
from pages.ui.edge_text import recorded_text
from pages.ui.legend import legend, tree_entries
from pages.ui.prefix_table import requests_table, sums_table, use_table
from pages.ui.recorded import pick_scenario
from pages.ui.shell import ActivePage, header, look
from pages.ui.stepping import stepper
from pages.ui.text import Lang, t
from pages.ui.theme import Palette
from pages.ui.why import sentences
from scenarios.prefix_caches import PAGE_SIZES, CacheRun, replay_caches, replayable

PAGE: ActivePage = "prefix"
DEFAULT = "shared_prefix"
MODES = ("side", "tree")
SIDE_NAMES = ("scenario", "step", "hash", "radix", "request")
NAMES = ("mode", *SIDE_NAMES, *tree_by_hand.NAMES)
HASH_SIZES = ("1", "4", "8", "16")
HEIGHT = 200
SAID = {"desk": 3, "projector": 2}  # sentences over each structure
Runs = Mapping[str, CacheRun]


def main() -> None:
    lang = header(PAGE)
    view, fresh = link_state.view(PAGE, NAMES)
    state = st.session_state
    if fresh or "prefix-mode" not in state:
        state["prefix-mode"] = view["mode"] if view.get("mode") in MODES else MODES[0]
    kept = state.setdefault("prefix-kept", {})
    with st.container(horizontal=True, vertical_alignment="bottom", gap="medium"):
        picked = st.segmented_control(
            t("prefix.mode", lang), MODES, key="prefix-mode", format_func=lambda mode: t(f"prefix.mode_{mode}", lang),
            label_visibility="collapsed",
        )  # fmt: skip
        mode = picked or MODES[0]
        mine = view if fresh else kept.get(mode, view)
        controls = tree_by_hand.controls if mode == "tree" else _controls
        chosen = controls(mine, fresh, lang)
    palette = shell.palette()
    if mode == "tree":
        shown = tree_by_hand.tree_by_hand(chosen, palette, lang)
    else:
        shown = _side_by_side(chosen, mine, fresh, palette, lang)
    kept[mode] = shown
    link_state.show(PAGE, dict.fromkeys(NAMES, "") | shown | {"mode": mode if mode != MODES[0] else ""})


def _controls(view: Mapping[str, str], fresh: bool, lang: Lang) -> dict[str, str]:
    """Scenario, block size of the hashes and page size of the tree that is drawn."""
    view = {"scenario": DEFAULT, **view}
    scenario = pick_scenario(
        "prefix-scenario", view, fresh, lang, _changed_scenario, offered=replayable(), refusal="prefix.no_scenario"
    )
    sizes = {
        "hash": _size("hash", view, HASH_SIZES, "16", fresh, lang),
        "radix": _size("radix", view, tuple(map(str, PAGE_SIZES)), "1", fresh, lang),
    }
    return {"scenario": scenario, **sizes}


def _changed_scenario() -> None:
    st.session_state.pop("prefix-request", None)
    st.session_state["prefix-restart"] = True


def _size(name: str, view: Mapping[str, str], sizes: tuple[str, ...], usual: str, fresh: bool, lang: Lang) -> str:
    """A size of the link or the one picked; one that is not offered gives way, with a sentence."""
    key, state = f"prefix-{name}", st.session_state
    if fresh or state.get(key) not in sizes:
        asked = view.get(name, usual)
        if asked not in sizes:
            st.warning(t("memory.bad_link", lang, name=name, value=asked, choices=", ".join(sizes), shown=usual))
            asked = usual
        state[key] = asked
    return st.segmented_control(t(f"prefix.{name}_size", lang), sizes, key=key) or usual


def _side_by_side(
    chosen: dict[str, str], view: Mapping[str, str], fresh: bool, palette: Palette, lang: Lang
) -> dict[str, str]:
    """Both structures at one step, the rulers and the tables; returns what the link says of them."""
    runs = replay_caches(chosen["scenario"], int(chosen["hash"]))
    hashed, tree = runs[f"hash {chosen['hash']}"], runs[f"radix {chosen['radix']}"]
    last = max(len(run.steps) for run in (hashed, tree)) - 1
    restart = st.session_state.pop("prefix-restart", False)
    start = _telling(tree) if restart else None
    if fresh or "prefix-cursor" not in st.session_state:
        asked = None if restart else link_state.whole_number(view.get("step", ""))
        start = _telling(tree) if asked is None else asked - 1
    cursor = stepper("prefix", last, start, lang)
    left, right = st.columns(2, gap="medium")
    with left:
        _chains(hashed, cursor, palette, lang)
    with right:
        _tree(tree, cursor, palette, lang)
    request = _request(tree, cursor, view, fresh, lang)
    ruler, table = st.columns([1.15, 1], gap="medium")
    with ruler:
        rulers = [_ruler(run, request, lang) for run in runs.values()]
        height = 34 * len(rulers) + 30
        chart(match_ruler(rulers, palette, lang), height, "prefix-ruler", ruler_alt(rulers, lang))
        legend(
            (
                ("■", palette.used, "ruler.legend_usable"),
                ("▨", palette.shared, "ruler.legend_lost"),
                ("□", palette.text, "ruler.legend_computed"),
                ("▩", palette.decode, "ruler.legend_last"),
            ),
            lang,
        )
        st.caption(t("prefix.ruler_note", lang))
    with table:
        st.dataframe(use_table(runs, request, lang), hide_index=True, key="prefix-request-table")
        st.caption(t("prefix.counted", lang))
    st.markdown(f"**{t('prefix.sums', lang)}**")
    st.dataframe(sums_table(runs, lang), hide_index=True, key="prefix-sums")
    with st.expander(t("prefix.all_requests", lang)):
        st.dataframe(requests_table(runs, lang), hide_index=True, key="prefix-requests")
    picked = st.session_state.get("prefix-request") or ""
    return {**chosen, "step": str(cursor + 1), "request": picked}


def _telling(run: CacheRun) -> int:
    """The first step that reuses something, which is where there is something to see."""
    for step in run.steps:
        if any(isinstance(event, Admitted) and event.hit_tokens for event in step.events):
            return step.index
    return 0


def _chains(run: CacheRun, cursor: int, palette: Palette, lang: Lang) -> None:
    step = run.steps[min(cursor, len(run.steps) - 1)]
    pool, now = step.snapshot.pool, step.index == cursor
    _title(t("prefix.hash", lang, size=run.config.block_size), run, step.index, cursor, lang)
    marks = block_marks(step.events, step.snapshot) if now else {}
    figure = hash_chains(step.snapshot, marks, None, palette, lang)
    alt = chains_alt(step.snapshot, lang) + " " + _owned(run, pool.owned, lang)
    chart(figure, HEIGHT, "prefix-chains", alt)
    legend(
        (
            ("■", palette.used, "legend.owned"),
            ("■", palette.shared, "legend.shared"),
            ("■", palette.cached, "legend.cached"),
            ("□", palette.evicted, "legend.stranded"),
            ("+", palette.new, "legend.new"),
            ("✓", palette.hit, "legend.hit"),
            ("×", palette.evicted, "legend.evicted"),
            ("−", palette.muted, "legend.freed"),
        ),
        lang,
    )


def _tree(run: CacheRun, cursor: int, palette: Palette, lang: Lang) -> None:
    step = run.steps[min(cursor, len(run.steps) - 1)]
    view = step.snapshot.radix
    assert view is not None  # a run over the radix cache
    _title(t("prefix.radix", lang, size=run.config.block_size), run, step.index, cursor, lang)
    events = step.events if step.index == cursor else ()
    figure = radix_tree(view, events, None, palette, lang, recorded_text())
    alt = tree_alt(view, lang) + " " + _owned(run, step.snapshot.pool.owned, lang)
    chart(figure, HEIGHT, "prefix-tree", alt)
    legend(tree_entries(palette), lang)


def _owned(run: CacheRun, owned: int, lang: Lang) -> str:
    return t("compare.pool_alt", lang, owned=owned, usable=run.config.usable_blocks)


def _title(name: str, run: CacheRun, at: int, cursor: int, lang: Lang) -> None:
    """The structure's name, its pool in numbers, and what the step did to it."""
    step = run.steps[at]
    pool = step.snapshot.pool
    numbers = t("prefix.pool", lang, owned=pool.owned, cached=pool.cached, empty=pool.free_empty)
    if at < cursor:
        said = [t("compare.over", lang, step=len(run.steps))]
    else:
        telling = [item for item in sentences(step, lang) if item.tone in ("hit", "evict")]
        said = [item.text for item in sorted(telling, key=lambda item: -item.weight)[: SAID[look()]]]
        said = said or [t("prefix.nothing", lang)]
    st.markdown(f"**{name}** · {numbers}")
    st.html('<div class="kv-said">' + "".join(f"<p>{escape(text)}</p>" for text in said) + "</div>")


def _request(run: CacheRun, cursor: int, view: Mapping[str, str], fresh: bool, lang: Lang) -> str:
    """The request whose rulers are shown: the one picked, else the last that was admitted up to the cursor."""
    names = list(run.uses)
    key, state = "prefix-request", st.session_state
    asked = view.get("request", "")
    if fresh or key not in state:
        if asked and asked not in names:
            st.warning(t("prefix.no_request", lang, name=asked))
        state[key] = asked if asked in names else None
    admitted = [
        event.request for step in run.steps[: cursor + 1] for event in step.events if isinstance(event, Admitted)
    ]
    following = admitted[-1] if admitted else names[0]
    with st.container(horizontal=True, vertical_alignment="center", gap="small"):
        picked = st.pills(t("prefix.request", lang), names, key=key, label_visibility="collapsed", width="content")
        shown: str = picked or following
        st.caption(t("prefix.follows" if picked is None else "prefix.pinned", lang, id=shown), width="content")
    return shown


def _ruler(run: CacheRun, request: str, lang: Lang) -> Ruler:
    use, config = run.uses[request], run.config
    label = t(f"prefix.{config.cache}_short", lang, size=config.block_size)
    matched, usable = use.matched_tokens or 0, use.hit_tokens or 0
    return Ruler(label, config.block_size, use.prompt_tokens, max(matched, usable), usable)


if __name__ == "__main__":
    main()

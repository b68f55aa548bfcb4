"""The prefix page's second half: a radix tree worked by hand, an operation at a time."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import streamlit as st

from engine.errors import UserError
from engine.radix_events import (
    EvictionEnded,
    LockReleased,
    LockTaken,
    NodeEvicted,
    NodeInserted,
    NodeSplit,
    PrefixMatched,
)
from pages.figures.eviction_heap import eviction_heap, heap_state, heap_words
from pages.figures.heap_stages import heap_stages, stages, stages_alt
from pages.figures.primitives import escape
from pages.figures.radix_tree import radix_tree, tree_alt
from pages.ui import link_state
from pages.ui.chart import chart
from pages.ui.legend import legend, tree_entries
from pages.ui.stepping import stepper
from pages.ui.text import Lang, listing, t
from pages.ui.theme import Palette
from scenarios.tree_operations import (
    EXAMPLES,
    KINDS,
    PAGE_SIZES,
    POLICIES,
    POOLS,
    Moment,
    label,
    parse,
    play,
)

NAMES = ("example", "ops", "op", "size", "pool", "policy")
FIRST = next(iter(EXAMPLES))
OWN = "own"  # in place of an example: the visitor's own operations
CHOICES: dict[str, tuple[str, ...]] = {
    "size": tuple(map(str, PAGE_SIZES)),
    "pool": tuple(map(str, POOLS)),
    "policy": POLICIES,
}
TEXT, EXAMPLE, GOOD, REFUSED, START = "tree-text", "tree-example", "tree-good", "tree-refused", "tree-start"


@dataclass(frozen=True, slots=True)
class Bench:
    """What is played: operations as text, and the tree they are played on."""

    text: str
    size: str
    pool: str
    policy: str

    def play(self) -> tuple[Moment, ...]:
        return play(parse(self.text), int(self.size), int(self.pool), self.policy)


def controls(view: Mapping[str, str], fresh: bool, lang: Lang) -> dict[str, str]:
    """The example and the tree's settings."""
    _open(view, fresh, lang)
    picked: str = st.selectbox(
        t("prefix.example", lang), [*EXAMPLES, OWN], key=EXAMPLE, width=330,
        format_func=lambda name: t(f"prefix.example_{name}", lang), on_change=_take_example,
    )  # fmt: skip
    chosen = {"example": picked}
    for name, choices in CHOICES.items():
        chosen[name] = st.selectbox(
            t(f"prefix.tree_{name}", lang), choices, key=f"tree-{name}", width=120, on_change=_changed,
            format_func=str if name != "policy" else lambda each: each.upper(),
        )  # fmt: skip
    return chosen


def _open(view: Mapping[str, str], fresh: bool, lang: Lang) -> None:
    """Puts what the link asks for, or the first example, in the controls; what cannot be gives way, with a sentence."""
    state = st.session_state
    if not fresh and EXAMPLE in state and TEXT in state:
        return
    name = view.get("example", OWN if "ops" in view else FIRST)
    if name not in (*EXAMPLES, OWN):
        st.warning(t("prefix.no_example", lang, name=name))
        name = FIRST
    example = EXAMPLES.get(name, EXAMPLES[FIRST])
    usual = {"size": str(example.page_size), "pool": str(example.pool_tokens), "policy": POLICIES[0]}
    for each, choices in CHOICES.items():
        asked = view.get(each, usual[each])
        if asked not in choices:
            st.warning(
                t("memory.bad_link", lang, name=each, value=asked, choices=", ".join(choices), shown=usual[each])
            )
            asked = usual[each]
        usual[each] = state[f"tree-{each}"] = asked
    good = Bench(example.text, **usual)
    if name == OWN:
        asked_for = Bench(view.get("ops", ""), **usual)
        good, refused = _tried(asked_for, Bench("", **usual))
        if refused is not None:
            st.warning(t(refused.key, lang, **refused.params))
    state[EXAMPLE], state[TEXT], state[GOOD] = name, good.text, good
    asked_op = link_state.whole_number(view.get("op", ""))
    state[START] = _telling(good.play()) if asked_op is None else asked_op


def _tried(wanted: Bench, good: Bench) -> tuple[Bench, UserError | None]:
    """What is wanted if it can be played, else what was good, and why."""
    try:
        wanted.play()
    except UserError as error:
        return good, error
    return wanted, None


def _take_example() -> None:
    """An example brings its operations, page size and pool; "own" keeps what is there."""
    state = st.session_state
    example = EXAMPLES.get(state[EXAMPLE])
    if example is None:
        return
    state["tree-size"], state["tree-pool"] = str(example.page_size), str(example.pool_tokens)
    state["tree-policy"], state[TEXT] = POLICIES[0], example.text
    _changed()
    state[START] = _telling(state[GOOD].play())


def _changed() -> None:
    """Plays the text and settings in the controls; if that cannot be, the tree stays as it was."""
    state = st.session_state
    wanted = Bench(state[TEXT], *(state[f"tree-{name}"] for name in CHOICES))
    state[GOOD], state[REFUSED] = _tried(wanted, state[GOOD])
    example = EXAMPLES.get(state[EXAMPLE])
    if example is not None and example.text != state[TEXT]:
        state[EXAMPLE] = OWN


def _append() -> None:
    """Does the operation picked after those that are there; a bad one leaves them as they are."""
    state = st.session_state
    good: Bench = state[GOOD]
    line = f"{state['tree-kind']} {state['tree-argument']}"
    wanted = Bench("\n".join([*good.text.splitlines(), line]), good.size, good.pool, good.policy)
    state[GOOD], state[REFUSED] = _tried(wanted, good)
    if state[REFUSED] is None:
        state[TEXT], state[EXAMPLE], state["tree-argument"] = wanted.text, OWN, ""
        state[START] = len(parse(wanted.text))


def _telling(moments: tuple[Moment, ...]) -> int:
    """The first operation that cuts an edge, else the last of all."""
    cuts = (
        number for number, moment in enumerate(moments) if any(isinstance(each, NodeSplit) for each in moment.events)
    )
    return next(cuts, len(moments) - 1)


def tree_by_hand(chosen: dict[str, str], palette: Palette, lang: Lang) -> dict[str, str]:
    """The operations beside the tree after each; returns what the link says of them."""
    state = st.session_state
    good: Bench = state[GOOD]
    moments = good.play()
    typed, shown = st.columns([0.36, 1], gap="medium")
    with typed:
        _typed(lang)
    with shown:
        cursor = stepper("tree", len(moments) - 1, state.pop(START, None), lang)
        refused: UserError | None = state.get(REFUSED)
        if refused is not None:
            st.error(t(refused.key, lang, **refused.params) + " " + t("prefix.unchanged", lang))
        _moment(moments[cursor], cursor, len(moments) - 1, palette, lang)
    own = state[EXAMPLE] == OWN
    return {**chosen, "example": state[EXAMPLE], "ops": good.text if own else "", "op": str(cursor)}


def _typed(lang: Lang) -> None:
    """The operations as text, and one more to pick."""
    with st.form("tree-one", border=False):
        kind, argument, button = st.columns([1.25, 1.25, 0.9], gap="small", vertical_alignment="bottom")
        kind.selectbox(t("prefix.operation", lang), KINDS, key="tree-kind")
        argument.text_input(t("prefix.argument", lang), key="tree-argument")
        button.form_submit_button(t("prefix.do", lang), on_click=_append, width="stretch")
    st.text_area(t("prefix.operations", lang), key=TEXT, height=270, on_change=_changed)
    st.caption(t("prefix.operations_note", lang))


def _moment(moment: Moment, number: int, last: int, palette: Palette, lang: Lang) -> None:
    view, events = moment.view, moment.events
    done = t("prefix.before", lang) if moment.operation is None else f"{number}/{last}: {moment.operation}"
    st.html(f'<p class="kv-op">{escape(done)}</p><div class="kv-said"><p>{escape(_said(moment, lang))}</p></div>')
    chart(radix_tree(view, events, None, palette, lang, label), 170, "tree-tree", tree_alt(view, lang))
    legend(tree_entries(palette), lang)
    st.caption(
        t(
            "prefix.sizes", lang, evictable=view.evictable, protected=view.protected, free=view.available,
            total=view.num_pages * view.page_size, order=_order(view.drain_order(), lang),
        )
    )  # fmt: skip
    heap, array = st.columns(2, gap="medium")
    state, found = heap_state(view, events), stages(events)
    with heap:
        st.markdown(f"**{t('panel.heap', lang)}** · {heap_words(state, lang)}")
        chart(eviction_heap(state, None, palette, lang), 190, "tree-heap", heap_words(state, lang))
    with array:
        st.markdown(f"**{t('prefix.array', lang)}** · {t('prefix.array_sub', lang)}")
        chart(heap_stages(found, palette, lang), 190, "tree-stages", stages_alt(found, lang))


def _order(nodes: list[int], lang: Lang) -> str:
    return listing(list(map(str, nodes)), lang, 12) or t("prefix.nobody", lang)


def _said(moment: Moment, lang: Lang) -> str:
    """What the operation did, from its events; the last match or lock is the one asked for."""
    said = []
    for event in moment.events:
        match event:
            case PrefixMatched():
                key = "prefix.did_match" if event.usable else "prefix.did_match_nothing"
                said.append(t(key, lang, matched=event.matched, usable=event.usable, node=event.node))
            case NodeSplit():
                values = {"upper": event.upper, "lower": event.lower, "tokens": event.tokens, "locks": event.lock_ref}
                said.append(t("prefix.did_split", lang, **values))
            case NodeInserted():
                said.append(t("prefix.did_insert", lang, node=event.node, tokens=event.tokens))
            case LockTaken():
                said.append(t("prefix.did_lock", lang, path=_order(list(event.path), lang), tokens=event.protected))
            case LockReleased():
                said.append(t("prefix.did_unlock", lang, path=_order(list(event.path), lang), tokens=event.evictable))
            case NodeEvicted():
                said.append(t("prefix.did_evict", lang, node=event.node, tokens=event.tokens))
            case EvictionEnded() if event.evicted < event.asked:
                said.append(t("prefix.did_run_out", lang, asked=event.asked, evicted=event.evicted))
    if moment.duplicates:
        said.append(t("prefix.did_find", lang, tokens=moment.duplicates))
    return " ".join(said) or t("prefix.did_nothing", lang)

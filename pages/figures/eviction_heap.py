"""The eviction heap: the evictable leaves as the tree and the array that a heap is, and what an eviction did to it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from engine.events import Event
from engine.radix_events import EvictionEnded, EvictKey, HeapBuilt, HeapEntry, HeapPopped, HeapPushed
from engine.radix_view import RadixView
from pages.figures.marks import Selection
from pages.figures.primitives import Figure, Rects, Texts, Trace, hidden_axis, layout, lines, node_ref
from pages.ui.text import Lang, t
from pages.ui.theme import Palette

LEVELS = 4
SHOWN = 2**LEVELS - 1
ARRAY_GAP, ARRAY_SHARE = 0.1, 0.3  # of the tree's height: the array must be readable in a low card too


@dataclass(frozen=True, slots=True)
class HeapState:
    """A heap's array; `popped` in order and `pushed` (parents) by the eviction; `asked` None if none has run."""

    array: tuple[HeapEntry, ...]
    popped: tuple[int, ...] = ()
    pushed: tuple[HeapEntry, ...] = ()
    asked: int | None = None
    ended: EvictionEnded | None = None


def heap_state(view: RadixView, events: Iterable[Event]) -> HeapState:
    """The step's last eviction, or the heap that an eviction would build now (sorted leaves are a heap)."""
    state = HeapState(tuple(view.evictable_leaves()))
    for event in events:
        match event:
            case HeapBuilt():
                state = HeapState(event.heap, asked=event.asked)
            case HeapPopped():
                state = HeapState(state.array, (*state.popped, event.node), state.pushed, state.asked)
            case HeapPushed():
                pushed = (*state.pushed, (event.node, event.key))
                state = HeapState(state.array, state.popped, pushed, state.asked)
            case EvictionEnded():
                state = HeapState(state.array, state.popped, state.pushed, state.asked, event)
    return state


def eviction_heap(
    state: HeapState, selection: Selection | None, palette: Palette, lang: Lang, cards: Mapping[int, str] | None = None
) -> Figure:
    """Traces, in this order: links, nodes, node ids, cells, cell keys, words.

    `cards` are the hover cards of nodes still in the tree.
    """
    cards = cards or {}
    entries = [*state.array, *state.pushed]
    shown = state.array[:SHOWN]
    turn = {node: place + 1 for place, node in enumerate(state.popped)}
    cells, keys = Rects("cells", radius=2), Texts("keys", palette.px(12.5), palette.mono)
    ids = Texts("ids", palette.px(12.5), palette.mono)
    words = Texts("words", palette.px(12.5), palette.sans, "middle right")
    columns = max(8, min(SHOWN, len(entries)))
    floor = max(2, len(shown).bit_length())  # levels of the tree; the array lies below
    chosen = selection.id if selection is not None and selection.kind == "node" else None
    for place, (node, key) in enumerate(entries[:columns]):
        fill, ink = _colors(node, place >= len(state.array), turn, place == 0 and not turn, palette)
        cells.add(
            place + 0.05, floor + ARRAY_GAP, 0.9, ARRAY_SHARE * floor, fill,
            line=palette.hit if node == chosen else fill, line_width=3 if node == chosen else 1,
            ref=node_ref(node), hover=_hover(node, key, turn, lang, cards),
        )  # fmt: skip
        word = f"{turn[node]}." if node in turn else f"↑{_text(key)}" if place >= len(state.array) else _text(key)
        keys.add(place + 0.5, floor + ARRAY_GAP + ARRAY_SHARE * floor / 2, word, ink)
    for place, (node, _) in enumerate(shown):
        _, ink = _colors(node, False, turn, place == 0 and not turn, palette)
        ids.add(*_seat(place, columns), str(node), ink)
    bottom = floor + ARRAY_GAP + ARRAY_SHARE * floor + (0.7 if len(entries) > columns else 0.1)
    if not entries:
        words.add(0, 0.5, t("figure.heap_empty", lang), palette.muted)
    if len(entries) > columns:
        words.add(0, bottom - 0.25, t("figure.more_leaves", lang, n=len(entries) - columns), palette.muted)
    xs: list[float | None] = []
    ys: list[float | None] = []
    for place in range(1, len(shown)):
        (x, y), (above_x, above_y) = _seat(place, columns), _seat((place - 1) // 2, columns)
        xs += [above_x, x, None]
        ys += [above_y, y, None]
    return {
        "data": [
            lines("links", xs, ys, palette.muted, width=1.5),
            _nodes(shown, columns, turn, palette, lang, cards),
            ids.trace(),
            cells.trace(),
            keys.trace(),
            words.trace(),
        ],
        "layout": layout(palette, hidden_axis(-0.2, columns + 0.2), hidden_axis(bottom, -0.1), (6, 6, 2, 4)),
    }


def heap_words(state: HeapState, lang: Lang) -> str:
    """What the eviction cost, in one line; for the panel's head and for those who do not see the diagram."""
    if state.ended is None:
        return t("heap.idle", lang, leaves=len(state.array))
    end = state.ended
    return t(
        "heap.cost",
        lang,
        asked=end.asked,
        evicted=end.evicted,
        popped=len(state.popped),
        pushed=len(state.pushed),
        comparisons=end.comparisons,
        bound=f"{end.bound:.0f}",
    )


def _seat(place: int, columns: int) -> tuple[float, float]:
    """Where entry `place` of the array sits in the tree: level by level, spread over the panel."""
    level = (place + 1).bit_length() - 1
    across = place + 1 - 2**level
    return columns * (across + 0.5) / 2**level, level + 0.4


def _colors(node: int, pushed: bool, turn: dict[int, int], first: bool, palette: Palette) -> tuple[str, str]:
    """Fill and text colour: gone, next to go, joined as a parent, or still in."""
    if node in turn or first:
        return palette.evicted, palette.card
    if pushed:
        return palette.new, palette.card
    return palette.cached, palette.on_cached


def _nodes(
    shown: Sequence[HeapEntry],
    columns: int,
    turn: dict[int, int],
    palette: Palette,
    lang: Lang,
    cards: Mapping[int, str],
) -> Trace:
    seats = [_seat(place, columns) for place in range(len(shown))]
    fills = [_colors(node, False, turn, place == 0 and not turn, palette)[0] for place, (node, _) in enumerate(shown)]
    return {
        "type": "scatter",
        "mode": "markers",
        "name": "nodes",
        "x": [x for x, _ in seats],
        "y": [y for _, y in seats],
        "marker": {
            "size": palette.px(22),
            "color": fills,
            "line": {"color": palette.card, "width": 1},
        },
        "customdata": [node_ref(node) for node, _ in shown],
        "hovertext": [_hover(node, key, turn, lang, cards) for node, key in shown],
        "hovertemplate": "%{hovertext}<extra></extra>",
        "cliponaxis": False,
    }


def _text(key: EvictKey) -> str:
    return "·".join(map(str, key)) if isinstance(key, tuple) else str(key)


def _hover(node: int, key: EvictKey, turn: dict[int, int], lang: Lang, cards: Mapping[int, str]) -> str:
    name = "hover.heap_popped" if node in turn else "hover.heap_leaf"
    told = t(name, lang, node=node, rank=_text(key), turn=turn.get(node, 0))
    return f"{told}<br>{cards[node]}" if node in cards else told

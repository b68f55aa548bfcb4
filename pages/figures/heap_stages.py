"""An eviction stage by stage: the heap's array when it was built, and after every leaf out and every parent in."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from engine.events import Event
from engine.radix_events import EvictKey, HeapBuilt, HeapEntry, HeapPopped, HeapPushed
from pages.figures.primitives import Figure, Rects, Texts, hidden_axis, label_axis, layout, node_ref
from pages.ui.text import Lang, t
from pages.ui.theme import Palette

MAX_ROWS = 9
MAX_COLUMNS = 8


@dataclass(frozen=True, slots=True)
class Stage:
    """The array after a build (`node` None), or after `node` went out (`joined` False) or came in (True)."""

    array: tuple[HeapEntry, ...]
    node: int | None = None
    joined: bool = False


def stages(events: Iterable[Event]) -> list[Stage]:
    """Of all evictions among the events, in order."""
    found = []
    for event in events:
        match event:
            case HeapBuilt():
                found.append(Stage(event.heap))
            case HeapPopped():
                found.append(Stage(event.heap, event.node))
            case HeapPushed():
                found.append(Stage(event.heap, event.node, joined=True))
    return found


def heap_stages(found: list[Stage], palette: Palette, lang: Lang) -> Figure:
    """Traces, in this order: cells, their nodes and keys, words. A row a stage; the root of the heap is outlined."""
    shown = found[:MAX_ROWS]
    rows = max(4, len(shown) + (len(shown) < len(found)))
    columns = max(4, min(MAX_COLUMNS, max((len(stage.array) for stage in shown), default=0)))
    cells, entries = Rects("cells", radius=3), Texts("entries", palette.px(12.5), palette.mono)
    words = Texts("words", palette.px(12.5), palette.sans, "middle right")
    for row, stage in enumerate(shown):
        for place, (node, key) in enumerate(stage.array[:MAX_COLUMNS]):
            new = stage.joined and node == stage.node
            fill, ink = (palette.new, palette.card) if new else (palette.cached, palette.on_cached)
            cells.add(
                place + 0.05, row + 0.14, 0.9, 0.72, fill, line=palette.evicted if not place else fill,
                line_width=2.5 if not place else 1, ref=node_ref(node),
                hover=t("hover.heap_leaf", lang, node=node, rank=_key(key)),
            )  # fmt: skip
            entries.add(place + 0.5, row + 0.5, f"{'+' if new else ''}{node} ({_key(key)})", ink)
        if len(stage.array) > MAX_COLUMNS:
            words.add(MAX_COLUMNS, row + 0.5, "…", palette.muted)
        if not stage.array:
            words.add(0.05, row + 0.5, t("figure.heap_none_left", lang), palette.muted)
    if not shown:
        words.add(0, 0.5, t("figure.no_eviction", lang), palette.muted)
    if len(shown) < len(found):
        words.add(0, len(shown) + 0.5, t("figure.more_stages", lang, n=len(found) - len(shown)), palette.muted)
    names = [_name(stage, lang) for stage in shown]
    return {
        "data": [cells.trace(), entries.trace(), words.trace()],
        "layout": layout(
            palette,
            hidden_axis(0, columns + 0.4),
            label_axis(
                rows, 0, [row + 0.5 for row in range(len(shown))], names, palette.text, palette.px(12.5), palette.sans
            ),
            (110 if shown else 8, 6, 2, 4),
        ),
    }  # fmt: skip


def stages_alt(found: list[Stage], lang: Lang) -> str:
    """The diagram in words: the array after each stage."""
    if not found:
        return t("figure.no_eviction", lang)
    rows = (_name(stage, lang) + ": " + ", ".join(str(node) for node, _ in stage.array) for stage in found)
    return "; ".join(rows)


def _name(stage: Stage, lang: Lang) -> str:
    if stage.node is None:
        return t("stage.built", lang)
    return t("stage.joined" if stage.joined else "stage.out", lang, node=stage.node)


def _key(key: EvictKey) -> str:
    return "·".join(map(str, key)) if isinstance(key, tuple) else str(key)

"""A frame: everything the stage shows of one step, in parts named by their content, so that none travels twice.

A new panel is a line in `PANELS`: its name (with a message "panel.NAME" as its title), the card it lies in (several
in one card become tabs), how it is drawn, and a function scene → JSON.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Collection, Iterable, Iterator
from typing import Any, Literal, NamedTuple

from engine.config import Cache
from engine.events import BlockAllocated, BlockCopied, BlockTouched, Event, SwappedIn
from engine.radix_events import NodeInserted, NodeSplit
from pages.figures.primitives import block_ref, node_ref
from pages.ui import panels
from pages.ui.figure_panels import (
    batch_panel,
    chains_panel,
    fairness_panel,
    heap_panel,
    kernel_panel,
    latency_panel,
    pool_panel,
    queue_panel,
    schedule_panel,
    tables_panel,
    tree_panel,
)
from pages.ui.scene import Scene
from pages.ui.text import Lang, t
from pages.ui.theme import Look
from pages.ui.why import Sentence, sentences

Json = dict[str, Any]
Slot = Literal["tables", "pool", "schedule", "why", "kernel", "queue"]  # the cards of stage.css
Kind = Literal["figure", "table", "sentences", "kernel"]  # the ways to draw of stage_panels.js


class Panel(NamedTuple):
    """One panel of the stage. A "figure" gives {sub, figure, alt, legend}; the other kinds see `panels.py`."""

    name: str
    slot: Slot
    kind: Kind
    build: Callable[[Scene], Json]
    cache: Cache | None = None  # only with this prefix cache


def _why(scene: Scene) -> Json:
    return panels.why(_happened(scene), scene.palette, scene.lang)


def _story(scene: Scene) -> Json:
    return panels.story(scene.steps[: scene.cursor + 1], scene.selection, scene.palette, scene.lang)


def _requests(scene: Scene) -> Json:
    return panels.request_table(scene.step, scene.snapshot, scene.selection, scene.lang)


# In the order of the page; of the panels in one card the first is open at first.
PANELS: tuple[Panel, ...] = (
    Panel("tables", "tables", "figure", tables_panel),
    Panel("requests", "tables", "table", _requests),
    Panel("pool", "pool", "figure", pool_panel),
    Panel("chains", "pool", "figure", chains_panel, cache="hash"),
    Panel("tree", "schedule", "figure", tree_panel, cache="radix"),
    Panel("schedule", "schedule", "figure", schedule_panel),
    Panel("batch", "schedule", "figure", batch_panel),
    Panel("latency", "schedule", "figure", latency_panel),
    Panel("fairness", "schedule", "figure", fairness_panel),
    Panel("why", "why", "sentences", _why),
    Panel("story", "why", "sentences", _story),
    Panel("kernel", "kernel", "kernel", kernel_panel),
    Panel("heap", "queue", "figure", heap_panel, cache="radix"),
    Panel("queue", "queue", "figure", queue_panel),
)


# For a projector: cards whose panels become tabs of another card, so that the rest has room for larger type.
_MERGED: dict[Slot, Slot] = {"kernel": "why", "queue": "pool"}


def cards(cache: Cache, lang: Lang, look: Look = "desk") -> list[Json]:
    """The cards of the stage with their panels, for `stage.mount`."""
    found: dict[str, list[Json]] = {}
    for panel in _shown(cache):
        entry = {"name": panel.name, "kind": panel.kind, "title": t(f"panel.{panel.name}", lang)}
        found.setdefault(_slot(panel, look), []).append(entry)
    return [{"slot": slot, "panels": entries} for slot, entries in found.items()]


def first_open(cache: Cache, look: Look = "desk") -> list[str]:
    """The panels open at first: one a card."""
    return list({_slot(panel, look): panel.name for panel in reversed(_shown(cache))}.values())


def _slot(panel: Panel, look: Look) -> Slot:
    return _MERGED.get(panel.slot, panel.slot) if look == "projector" else panel.slot


def _shown(cache: Cache) -> list[Panel]:
    return [panel for panel in PANELS if panel.cache in (None, cache)]


def parts(scene: Scene, names: Collection[str]) -> dict[str, Json]:
    """Part name → JSON: the strip of key figures, the laws, the words around, and the panels in `names`."""
    around: dict[str, Json] = {
        "strip": {"tiles": panels.kpis(scene.step, scene.snapshot, scene.palette, scene.lang)},
        "laws": panels.laws(scene.step, scene.lang),
        "head": _head(scene),
    }
    return around | {panel.name: panel.build(scene) for panel in _shown(scene.config.cache) if panel.name in names}


def pack(scenes: Iterable[Scene], names: Collection[str], known: Collection[str] = ()) -> Json:
    """Frames as lists of part hashes, and once each the parts that are not `known` to the browser."""
    frames: list[Json] = []
    content: dict[str, Json] = {}
    for scene in scenes:
        hashes = {}
        for name, part in parts(scene, names).items():
            digest = hashes[name] = part_hash(part)
            if digest not in known:
                content[digest] = part
        frames.append({"step": scene.cursor, "parts": hashes})
    return {"frames": frames, "parts": content}


def part_hash(part: Json) -> str:
    """Names a part by its content: 12 hex digits."""
    text = json.dumps(part, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    return hashlib.blake2b(text.encode(), digest_size=6).hexdigest()


def _happened(scene: Scene) -> list[Sentence]:
    if scene.step is None:
        return [Sentence("wait", t("why.start", scene.lang))]
    return sentences(scene.step, scene.lang)


_FOCUS = {"attention": "kernel"}  # a note's name for a panel, where it is not the panel's own


def _moved(event: Event) -> Iterator[str]:
    """What the eye should find: blocks that got an owner or a content, and nodes that are new in the radix tree."""
    match event:
        case BlockAllocated() | BlockTouched(revived=True):
            yield block_ref(event.block)
        case BlockCopied():
            yield block_ref(event.target)
        case SwappedIn():
            yield from (block_ref(device) for device, _ in event.pairs)
        case NodeInserted():
            yield node_ref(event.node)
        case NodeSplit():
            yield node_ref(event.upper)


def _head(scene: Scene) -> Json:
    """What surrounds the panels: the caption, the selection's name, which blocks are new, and the step read aloud."""
    shown = " ".join(item.text for item in _happened(scene))
    chosen, step = scene.selection, scene.step
    return {
        "caption": scene.caption,
        "selected": "" if chosen is None else t(f"control.selected_{chosen.kind}", scene.lang, id=chosen.id),
        "moved": list(dict.fromkeys(ref for event in step.events for ref in _moved(event))) if step else [],
        "focus": _FOCUS.get(scene.focus_panel, scene.focus_panel),
        "announce": shown if step is None else t("why.announce", scene.lang, step=step.index, text=shown),
    }

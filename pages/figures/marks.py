"""What a figure must know besides the snapshot: what is selected, and what this step did to each block."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

from engine.events import BlockAllocated, BlockCopied, BlockFreed, BlockTouched, Event, HashEvicted
from engine.snapshot import Snapshot

MarkKind = Literal["new", "evicted", "hit", "freed", "copied"]
BlockState = Literal["null", "shared", "owned", "cached", "empty"]

GLYPHS: dict[MarkKind, str] = {"new": "+", "evicted": "×", "hit": "✓", "freed": "−", "copied": "c"}


@dataclass(frozen=True, slots=True)
class Selection:
    """A clicked request, block or node of the radix tree; a block's or node's id is its number."""

    kind: Literal["request", "block", "node"]
    id: str | int


@dataclass(frozen=True, slots=True)
class Mark:
    """What happened to a block in this step, and for which requests."""

    kind: MarkKind
    requests: frozenset[str]


Marks = dict[int, Mark]
_RANK: dict[MarkKind, int] = {"new": 0, "hit": 1, "evicted": 2, "copied": 3, "freed": 4}


def block_marks(events: Iterable[Event], snapshot: Snapshot) -> Marks:
    """The one mark of each block that the step touched and that is still true in `snapshot`.

    A block taken and given back within the step is only shown as freed; one whose cached content was thrown
    away to be handed out again is shown as evicted rather than new, and the target of a copy as copied.
    """
    found: dict[int, dict[MarkKind, set[str]]] = {}
    for event in events:
        if isinstance(event, BlockAllocated):
            found.setdefault(event.block, {}).setdefault("new", set()).add(event.request)
        elif isinstance(event, HashEvicted):
            found.setdefault(event.block, {}).setdefault("evicted", set()).add(event.request)
        elif isinstance(event, BlockCopied):
            found.setdefault(event.target, {}).setdefault("copied", set()).add(event.request)
        elif isinstance(event, BlockTouched):
            found.setdefault(event.block, {}).setdefault("hit", set()).add(event.request)
        elif isinstance(event, BlockFreed) and event.to is not None:
            found.setdefault(event.block, {}).setdefault("freed", set()).add(event.request)
    marks: Marks = {}
    for block, kinds in found.items():
        owned = snapshot.pool.ref_count[block] > 0
        fitting: list[MarkKind] = [kind for kind in kinds if (kind == "freed") != owned]
        if fitting:
            kind = max(fitting, key=_RANK.__getitem__)
            marks[block] = Mark(kind, frozenset(kinds[kind]))
    return marks


def block_state(snapshot: Snapshot, block: int) -> BlockState:
    pool = snapshot.pool
    if block == 0:
        return "null"
    if pool.ref_count[block] >= 2:
        return "shared"
    if pool.ref_count[block] == 1:
        return "owned"
    return "cached" if pool.hashes[block] is not None else "empty"


def selected_blocks(selection: Selection | None, snapshot: Snapshot) -> frozenset[int] | None:
    """Blocks that stay bright; None when nothing is selected or what is selected has no blocks."""
    if selection is None:
        return None
    if selection.kind == "block":
        return frozenset({int(selection.id)})
    if selection.kind == "node":
        nodes = snapshot.radix if snapshot.radix is not None else ()
        return next((frozenset(map(int, node.pages)) for node in nodes if node.id == selection.id), None) or None
    table = next((view.block_table for view in snapshot.requests if view.id == selection.id), ())
    return frozenset(table) or None


def selected_requests(selection: Selection | None, owners: dict[int, tuple[str, ...]]) -> frozenset[str] | None:
    """Requests that stay bright; a selected block keeps its owners bright. None when nothing is selected."""
    if selection is None:
        return None
    if selection.kind == "request":
        return frozenset({str(selection.id)})
    return frozenset(owners.get(int(selection.id), ())) if selection.kind == "block" else None

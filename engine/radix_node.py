"""A node of the radix tree: an edge of whole pages and what is known about it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from engine.radix_key import Namespace
from engine.slots import Ids

if TYPE_CHECKING:
    from engine.radix_view import NodeView

ChildKey = bytes | tuple[Namespace, bytes]


class RadixNode:
    """One edge and the node below it. `start` and `end` count units from the root; `pages` hold units start..end-1.

    `accessed` and `created` are ticks of the tree's clock. `history` is the deepest `end` ever below (T-LRU only).
    `view` is its picture while nothing below it has changed.
    """

    __slots__ = (
        "accessed", "children", "created", "edge", "end", "history", "hit_count", "id", "lock_ref", "namespace",
        "pages", "parent", "priority", "start", "view",
    )  # fmt: skip

    def __init__(self, node_id: int, parent: RadixNode | None, edge: bytes, pages: Ids, start: int, end: int) -> None:
        self.id = node_id
        self.parent = parent
        self.children: dict[ChildKey, RadixNode] = {}
        self.edge = edge
        self.pages = pages
        self.start = start
        self.end = end
        self.namespace: Namespace | None = None
        self.lock_ref = 0
        self.hit_count = 0
        self.priority = 0
        self.accessed = 0
        self.created = 0
        self.history = end
        self.view: NodeView | None = None

    def __repr__(self) -> str:
        return f"RadixNode({self.id}, {self.start}-{self.end}, lock={self.lock_ref})"

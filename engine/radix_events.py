"""What happened in a radix cache and why: events of the tree, its locks and its eviction heap."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

from engine.events import Event

EvictKey = int | tuple[int, int]
HeapEntry = tuple[int, EvictKey]  # (node, key); the smallest key leaves first


@dataclass(frozen=True, slots=True)
class PrefixMatched(Event):
    """`matched` of the key's `tokens` are in the tree; `usable` of them fill whole pages and end at `node`."""

    kind: ClassVar[str] = "prefix_matched"
    request: str | None
    tokens: int
    matched: int
    usable: int
    node: int


@dataclass(frozen=True, slots=True)
class NodeSplit(Event):
    """An edge was left inside: the new node `upper` took the first `tokens` and `lower`'s locks, hits and priority."""

    kind: ClassVar[str] = "node_split"
    request: str | None
    cause: Literal["match", "insert"]
    upper: int
    lower: int
    tokens: int
    lock_ref: int


@dataclass(frozen=True, slots=True)
class NodeInserted(Event):
    """The part of a key that the tree did not have became one leaf; the tree now owns its pages."""

    kind: ClassVar[str] = "node_inserted"
    request: str | None
    node: int
    parent: int
    tokens: int
    pages: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class NodeEvicted(Event):
    """An unlocked leaf left whole, because `key` was the smallest and tokens were still missing."""

    kind: ClassVar[str] = "node_evicted"
    request: str | None
    node: int
    parent: int
    tokens: int
    pages: tuple[int, ...]
    key: EvictKey
    lock_ref: int
    children: int


@dataclass(frozen=True, slots=True)
class LockTaken(Event):
    """One lock more on each node of `path`, from `node` up; `protected` tokens can no longer be evicted."""

    kind: ClassVar[str] = "lock_taken"
    request: str | None
    node: int
    path: tuple[int, ...]
    protected: int


@dataclass(frozen=True, slots=True)
class LockReleased(Event):
    """One lock less on each node of `path`; `evictable` tokens can be evicted again."""

    kind: ClassVar[str] = "lock_released"
    request: str | None
    node: int
    path: tuple[int, ...]
    evictable: int


@dataclass(frozen=True, slots=True)
class DuplicatesFreed(Event):
    """`request` had computed what the tree held already: its table now names the tree's pages, `pages` are free."""

    kind: ClassVar[str] = "duplicates_freed"
    request: str | None
    pages: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class RowReleased(Event):
    """`request`'s block table is gone: `stored` pages stay in the tree, unlocked by it; `freed` ones are free."""

    kind: ClassVar[str] = "row_released"
    request: str
    cause: Literal["finished", "aborted", "preempted", "swapped"]
    stored: tuple[int, ...]
    freed: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class HeapBuilt(Event):
    """An eviction of `asked` tokens put all evictable leaves in a heap: its array, and the comparisons it cost."""

    kind: ClassVar[str] = "heap_built"
    request: str | None
    asked: int
    comparisons: int
    heap: tuple[HeapEntry, ...]


@dataclass(frozen=True, slots=True)
class HeapPopped(Event):
    """The leaf with the smallest key was taken out; `heap` is the array after that."""

    kind: ClassVar[str] = "heap_popped"
    node: int
    key: EvictKey
    comparisons: int
    heap: tuple[HeapEntry, ...]


@dataclass(frozen=True, slots=True)
class HeapPushed(Event):
    """A parent lost its last child and is unlocked, so it joins the running eviction."""

    kind: ClassVar[str] = "heap_pushed"
    node: int
    key: EvictKey
    comparisons: int
    heap: tuple[HeapEntry, ...]


@dataclass(frozen=True, slots=True)
class EvictionEnded(Event):
    """An eviction over: `asked` and `evicted` tokens; its heap's cost against the bound v + e·log2(v + e).

    `leaves` is v, `nodes` e; `comparisons` were counted while the heap ran.
    """

    kind: ClassVar[str] = "eviction_ended"
    request: str | None
    asked: int
    evicted: int
    leaves: int
    nodes: int
    comparisons: int
    bound: float

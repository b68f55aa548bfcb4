"""A compressed radix tree over token paths: what is cached, who holds it, and what may go.

It behaves as SGLang 0.5.23's `RadixCache` (`srt/mem_cache/radix_cache.py`) at every operation: nodes, edges, locks,
access and creation order, sizes, eviction order. Edges own whole pages of a `SlotPool`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import numpy as np

from engine.errors import UserError
from engine.eviction import LeafHeap, RecordedHeap, eviction_policy
from engine.radix_events import (
    EvictKey,
    LockReleased,
    LockTaken,
    NodeEvicted,
    NodeInserted,
    NodeSplit,
    PrefixMatched,
)
from engine.radix_key import WIDTH, RadixKey, common_tokens
from engine.radix_node import ChildKey, RadixNode
from engine.slots import NO_IDS, Ids, SlotPool

if TYPE_CHECKING:
    from engine.events import Event


@dataclass(frozen=True, slots=True)
class Match:
    """The longest cached prefix in whole pages: `usable` units, ending at `node` (the root if 0)."""

    usable: int
    node: RadixNode


@dataclass(frozen=True, slots=True)
class Insertion:
    """`present` units were in the tree already, with pages of its own; `node` is where the key ends."""

    present: int
    node: RadixNode


class RadixTree:
    """The tree over a pool. `log` None records nothing; then evictions use one heap that lives on (`LeafHeap`)."""

    def __init__(
        self,
        pool: SlotPool,
        policy: str = "lru",
        policy_options: Mapping[str, int] | None = None,
        *,
        bigram: bool = False,
        log: list[Event] | None = None,
    ) -> None:
        self.pool = pool
        self.policy_name = policy
        self.leaves = LeafHeap(eviction_policy(policy, policy_options))
        self.overlap = int(bigram)
        self.log = log
        self._keeps_history = policy == "tlru"
        self._clock = 0
        self._next_id = 0
        self._page_bytes = (pool.page_size + self.overlap) * WIDTH  # raw bytes that a child is found by
        self._start_over()

    def _start_over(self) -> None:
        self.root = self._node(None, b"", NO_IDS, 0, 0)
        self.root.lock_ref = 1
        self.evictable = 0
        self.protected = 0

    def reset(self) -> None:
        """Forgets everything and frees every page (SGLang's cache flush)."""
        self.leaves.clear()
        self.pool.clear()
        self._start_over()

    @property
    def size(self) -> int:
        """Units in the tree."""
        return self.evictable + self.protected

    def usable_units(self, key: RadixKey) -> int:
        """Units of `key` that fill whole pages; only these are stored or found."""
        return key.units // self.pool.page_size * self.pool.page_size

    def match(self, key: RadixKey, request: str | None = None) -> Match:
        """The longest cached prefix (`match_prefix`); it counts as an access of the whole path.

        A prefix that ends inside an edge splits it, so that what is matched can be locked alone. A key shorter than a
        page, or empty, finds nothing and touches nothing.
        """
        stop = self.usable_units(key)
        if not stop:
            return Match(0, self.root)
        matched = self.matched_tokens(key) if self.log is not None else 0
        node = self._descend(key, stop, "match", request)[-1]
        if self.log is not None:
            self.log.append(PrefixMatched(request, key.units, matched, node.end, node.id))
        return Match(node.end, node)

    def matched_tokens(self, key: RadixKey) -> int:
        """How many units of `key` are cached, also those that fill no whole page; nothing is changed or touched."""
        node, at, raw = self.root, 0, key.raw
        end = min(len(raw), (key.units + key.overlap) * WIDTH)
        while True:
            best, inside = 0, None
            for child in node.children.values():
                if child.namespace == key.namespace:
                    shared = max(0, common_tokens(child.edge, raw, at, end) - self.overlap)
                    if shared > best:
                        best, inside = shared, child
            if inside is None or best < inside.end - inside.start:
                return at // WIDTH + best
            node, at = inside, inside.end * WIDTH

    def insert(
        self,
        key: RadixKey,
        pages: Ids,
        priority: int = 0,
        inserted: int = 0,
        prompt_tokens: int | None = None,
        request: str | None = None,
    ) -> Insertion:
        """Stores `key`'s whole pages under `pages` (`insert`); `pages` beyond them are ignored.

        What is present keeps the tree's own pages: the caller frees its duplicates. A node counts a hit only if it ends
        beyond `inserted`, what this request has stored before. With `prompt_tokens` the prompt is stored once more with
        priority + 1 (`_insert_cache`), which splits the leaf there: the reply can then go without the prompt.
        """
        if not key.raw:
            raise UserError("radix.empty_key")
        stop = self.usable_units(key)
        if len(pages) * self.pool.page_size < stop:
            raise UserError("radix.pages", have=len(pages), need=stop // self.pool.page_size)
        result = self._insert(key, stop, pages, priority, inserted, request)
        if prompt_tokens is not None:
            prompt = key.first(prompt_tokens)
            units = self.usable_units(prompt)
            if 0 < units < stop:
                self._insert(prompt, units, pages, priority + 1, units, request)
        return result

    def lock(self, node: RadixNode, request: str | None = None) -> int:
        """One lock more from `node` up to the root (`inc_lock_ref`). Returns minus the units that became protected."""
        path = self._path(node)
        units = 0
        for step in path:
            if not step.lock_ref:
                units += step.end - step.start
                self.leaves.discard(step)
            step.lock_ref += 1
            step.view = None
        self.root.view = None
        self.evictable -= units
        self.protected += units
        if self.log is not None:
            self.log.append(LockTaken(request, node.id, tuple(step.id for step in path), units))
        return -units

    def unlock(self, node: RadixNode, request: str | None = None) -> int:
        """One lock less from `node` up (`dec_lock_ref`); refused if it has none. Returns the units evictable again."""
        path = self._path(node)
        if not node.lock_ref:
            raise UserError("radix.double_unlock", node=node.id)
        units = 0
        for step in path:
            step.lock_ref -= 1
            step.view = None
            if not step.lock_ref:
                units += step.end - step.start
                if not step.children:
                    self.leaves.add(step)
        self.root.view = None
        self.evictable += units
        self.protected -= units
        if self.log is not None:
            self.log.append(LockReleased(request, node.id, tuple(step.id for step in path), units))
        return units

    def evict(self, units: int, request: str | None = None) -> list[RadixNode]:
        """Frees whole unlocked leaves, smallest key first, until `units` are free or none is left (`evict`).

        A parent that loses its last child joins at once. Returns the nodes that left, in order.
        """
        if units <= 0:
            return []
        recorded = None if self.log is None else RecordedHeap(self.leaves, self.log, units, request)
        heap = recorded or self.leaves
        evicted: list[RadixNode] = []
        freed = 0
        while freed < units and (node := heap.pop()) is not None:
            parent = self._remove(node, request)
            evicted.append(node)
            freed += node.end - node.start
            if not parent.children and not parent.lock_ref:
                heap.push(parent)
        if recorded is not None:
            recorded.end(evicted)
        return evicted

    def pages_to(self, node: RadixNode) -> Ids:
        """The pages from the root to `node`, in order: where its prefix lies."""
        return np.concatenate([NO_IDS, *(step.pages for step in reversed(self._path(node)))])

    def evict_key(self, node: RadixNode) -> EvictKey:
        return self.leaves.policy(node)

    def _descend(
        self, key: RadixKey, stop: int, cause: Literal["match", "insert"], request: str | None
    ) -> list[RadixNode]:
        """The root and the nodes that spell the longest prefix of `key`'s first `stop` units, splitting the last edge.

        All of them, and the lower half of a split, are stamped with one time; a split makes its node later than that.
        """
        raw, width, overlap = key.raw, self._page_bytes, self.overlap
        end = (stop + overlap) * WIDTH
        self._clock = now = self._clock + 1
        node = self.root
        node.accessed, node.view = now, None
        path = [node]
        at = 0  # units
        name: ChildKey = raw[:width] if key.namespace is None else (key.namespace, raw[:width])
        while at < stop:
            child = node.children.get(name)
            if child is None:
                break
            child.accessed, child.view = now, None
            if not child.children:
                self.leaves.changed(child)
            edge = child.edge
            if child.end <= stop and raw.startswith(edge, at * WIDTH):
                node, at = child, child.end
            else:
                shared = common_tokens(edge, raw, at * WIDTH, end) - overlap
                at += shared // self.pool.page_size * self.pool.page_size
                node = self._split(child, at, cause, request)
                path.append(node)
                break
            path.append(node)
            name = raw[at * WIDTH : at * WIDTH + width]
        return path

    def _split(self, child: RadixNode, at: int, cause: Literal["match", "insert"], request: str | None) -> RadixNode:
        """A new node takes `child`'s edge above depth `at`; `child` keeps its id and all that point to it."""
        parent, taken = child.parent, at - child.start
        assert parent is not None
        upper = self._node(
            parent, child.edge[: (taken + self.overlap) * WIDTH], child.pages[: taken // self.pool.page_size],
            child.start, at,
        )  # fmt: skip
        upper.lock_ref, upper.hit_count, upper.priority = child.lock_ref, child.hit_count, child.priority
        upper.history, upper.namespace = child.history, child.namespace
        parent.children[self._name(child)] = upper
        child.edge = child.edge[taken * WIDTH :]
        child.pages = child.pages[taken // self.pool.page_size :]
        child.parent, child.start, child.view = upper, at, None
        upper.children[child.edge[: self._page_bytes]] = child
        if self.log is not None:
            self.log.append(NodeSplit(request, cause, upper.id, child.id, taken, child.lock_ref))
        return upper

    def _insert(
        self, key: RadixKey, stop: int, pages: Ids, priority: int, inserted: int, request: str | None
    ) -> Insertion:
        path = self._descend(key, stop, "insert", request)
        node = path[-1]
        present = node.end
        for step in path[1:]:
            if priority > step.priority:
                step.priority = priority
            if step.end > inserted:
                step.hit_count += 1
        if present < stop:
            node = self._add_leaf(node, key, stop, pages, request)
            node.priority = priority
            node.hit_count = int(stop > inserted)
        return Insertion(present, node)

    def _add_leaf(self, parent: RadixNode, key: RadixKey, stop: int, pages: Ids, request: str | None) -> RadixNode:
        first, last = parent.end, stop
        owned = np.array(pages[first // self.pool.page_size : last // self.pool.page_size], np.int64)
        owned.flags.writeable = False  # pictures share it
        leaf = self._node(parent, key.raw[first * WIDTH : (last + self.overlap) * WIDTH], owned, first, last)
        leaf.namespace = key.namespace
        parent.children[self._name(leaf)] = leaf
        self.evictable += last - first
        if parent is not self.root and len(parent.children) == 1:
            self.leaves.discard(parent)
        self.leaves.add(leaf)
        if self._keeps_history:
            above: RadixNode | None = parent
            while above is not None and above.history < last:
                above.history = last
                above = above.parent
        if self.log is not None:
            self.log.append(NodeInserted(request, leaf.id, parent.id, last - first, tuple(owned.tolist())))
        return leaf

    def _remove(self, leaf: RadixNode, request: str | None) -> RadixNode:
        """Takes an evictable leaf out and frees its pages. Returns its parent."""
        parent = leaf.parent
        assert parent is not None
        self.pool.free(leaf.pages)
        self.evictable -= leaf.end - leaf.start
        self.leaves.discard(leaf)
        del parent.children[self._name(leaf)]
        above: RadixNode | None = parent
        while above is not None and above.view is not None:
            above.view = None
            above = above.parent
        if self.log is not None:
            units, pages, key = leaf.end - leaf.start, tuple(leaf.pages.tolist()), self.evict_key(leaf)
            self.log.append(
                NodeEvicted(request, leaf.id, parent.id, units, pages, key, leaf.lock_ref, len(leaf.children))
            )
        leaf.parent = None
        return parent

    def _node(self, parent: RadixNode | None, edge: bytes, pages: Ids, start: int, end: int) -> RadixNode:
        """A new node; the clock ticks for its access and for its creation, as `TreeNode` reads the time twice."""
        node = RadixNode(self._next_id, parent, edge, pages, start, end)
        self._next_id += 1
        node.accessed, node.created = self._clock + 1, self._clock + 2
        self._clock += 2
        return node

    def _name(self, node: RadixNode) -> ChildKey:
        """What a node is found by among its siblings: its first page, and at the root its namespace too."""
        page = node.edge[: self._page_bytes]
        return page if node.start or node.namespace is None else (node.namespace, page)

    def _path(self, node: RadixNode) -> list[RadixNode]:
        """`node` and what is above it, without the root; refused if it is not in this tree (any more)."""
        path: list[RadixNode] = []
        step: RadixNode | None = node
        while step is not self.root:
            if step is None:
                raise UserError("radix.gone", node=node.id)
            path.append(step)
            step = step.parent
        return path

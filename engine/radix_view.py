"""An immutable picture of a radix tree; subtrees that nothing has touched are shared between pictures."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from heapq import heapify, heappop, heappush

from engine.prefix_radix import RadixNode, RadixTree
from engine.radix_events import EvictKey, HeapEntry
from engine.radix_key import tokens_of
from engine.slots import Ids


@dataclass(frozen=True, slots=True, eq=False)
class NodeView:
    """One node. `tokens` label its edge (with bigrams one more than its units), `pages` hold units `start`..`end` - 1.

    `accessed` and `created` are ticks of a logical clock. `evict_key`: the smallest leaves first; None for the root.
    """

    id: int
    tokens: tuple[int, ...]
    extra_key: str | None
    cache_salt: str | None
    start: int
    end: int
    pages: Ids
    lock_ref: int
    hit_count: int
    priority: int
    accessed: int
    created: int
    evictable: bool
    evict_key: EvictKey | None
    children: tuple[NodeView, ...]

    @property
    def units(self) -> int:
        return self.end - self.start


@dataclass(frozen=True, slots=True, eq=False)
class RadixView:
    """A tree and its pool at one moment. Sizes in tokens; `free_pages` front (next out) first.

    `heap` is the array of the eviction that is running, () if none is; each heap event carries its own.
    """

    root: NodeView
    page_size: int
    num_pages: int
    policy: str
    evictable: int
    protected: int
    free_pages: Ids
    heap: tuple[HeapEntry, ...] = ()

    @property
    def available(self) -> int:
        return len(self.free_pages) * self.page_size

    def __iter__(self) -> Iterator[NodeView]:
        """Every node, the root included, parents before their children."""
        stack = [self.root]
        while stack:
            node = stack.pop()
            yield node
            stack.extend(reversed(node.children))

    def parents(self) -> dict[int, NodeView]:
        """Node id → the view of its parent."""
        return {child.id: node for node in self for child in node.children}

    def evictable_leaves(self) -> list[HeapEntry]:
        """(node, key) of every leaf that may go now, the first to go first."""
        leaves = [(node.id, node.evict_key) for node in self if node.evictable and node.evict_key is not None]
        return sorted(leaves, key=lambda entry: entry[1])  # type: ignore[arg-type, return-value]

    def drain_order(self) -> list[int]:
        """Node ids in the order in which evicting everything would take them: parents join with their last child."""
        parents = self.parents()
        left = {node.id: len(node.children) for node in self}
        heap = [(node.evict_key, node.id) for node in self if node.evictable]
        heapify(heap)
        order = []
        while heap:
            _, node_id = heappop(heap)
            order.append(node_id)
            parent = parents[node_id]
            left[parent.id] -= 1
            if not left[parent.id] and not parent.lock_ref:
                heappush(heap, (parent.evict_key, parent.id))
        return order

    def ranks(self, tick: Callable[[NodeView], int]) -> dict[int, int]:
        """Node id → dense rank of its `tick` (access or creation) among the nodes below the root, 0 the oldest."""
        ticks = {node.id: tick(node) for node in self if node is not self.root}
        rank = {value: place for place, value in enumerate(sorted(set(ticks.values())))}
        return {node_id: rank[value] for node_id, value in ticks.items()}


def radix_view(tree: RadixTree, heap: tuple[HeapEntry, ...] = ()) -> RadixView:
    """The picture of `tree` now; only what has changed since the last one is made anew."""
    return RadixView(
        root=_node_view(tree),
        page_size=tree.pool.page_size,
        num_pages=tree.pool.num_pages,
        policy=tree.policy_name,
        evictable=tree.evictable,
        protected=tree.protected,
        free_pages=tree.pool.free_pages(),
        heap=heap,
    )


def _node_view(tree: RadixTree) -> NodeView:
    """The root's view. Children are made before their parents, without recursion: a tree may be a long chain."""
    stale = [tree.root] if tree.root.view is None else []
    for node in stale:  # grows while it is walked
        stale.extend(child for child in node.children.values() if child.view is None)
    for node in reversed(stale):
        node.view = _picture(tree, node)
    assert tree.root.view is not None
    return tree.root.view


def _picture(tree: RadixTree, node: RadixNode) -> NodeView:
    extra_key, cache_salt = node.namespace or (None, None)
    return NodeView(
        id=node.id,
        tokens=tokens_of(node.edge),
        extra_key=extra_key,
        cache_salt=cache_salt,
        start=node.start,
        end=node.end,
        pages=node.pages,
        lock_ref=node.lock_ref,
        hit_count=node.hit_count,
        priority=node.priority,
        accessed=node.accessed,
        created=node.created,
        evictable=node.id in tree.leaves.leaves,
        evict_key=None if node is tree.root else tree.evict_key(node),
        children=tuple(child.view for child in node.children.values() if child.view is not None),
    )

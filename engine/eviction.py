"""Which leaf goes first: SGLang's eviction policies, and the heap that asks them.

Two heaps, one order. `LeafHeap` lives as long as the tree and takes in only what changed; `RecordedHeap` does what SGLang
0.5.23 `RadixCache.evict` does at each call (build from all leaves, pop, push a parent), with every step an event. Keys of
the leaves are unique at any time, since the clock ticks between operations, so both give the same leaves.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from heapq import heapify, heappop, heappush
from typing import TYPE_CHECKING, Protocol

from engine.errors import UserError
from engine.radix_events import EvictionEnded, EvictKey, HeapBuilt, HeapEntry, HeapPopped, HeapPushed

if TYPE_CHECKING:
    from engine.events import Event
    from engine.prefix_radix import RadixNode

Policy = Callable[["RadixNode"], EvictKey]
_SLACK = 64  # a heap this much over twice its leaves is rebuilt, so that stale entries never outgrow it


def _slru(protected_threshold: int = 2) -> Policy:
    """Leaves that were inserted fewer than `protected_threshold` times first, the least recently used of them first."""
    return lambda node: (int(node.hit_count >= protected_threshold), node.accessed)


def _tlru(threshold: int = 0, next_prompt_estimate: int = 0) -> Policy:
    """Tail-optimised LRU (Zhang et al., arXiv 2510.15152, Tail-Optimized LRU; as SGLang 0.5.23 `TLRUStrategy`).

    A conversation of L tokens (the deepest its branch ever was) whose next prompt adds Q is served within the latency
    target of `threshold` uncached tokens if L + Q - threshold of it are cached. A leaf beyond that does not help: it
    goes first, then least recently used. Both options in tokens; the paper counts blocks.
    """

    def key(node: RadixNode) -> EvictKey:
        needed = max(node.history + next_prompt_estimate - threshold, 0)
        return (-1 if node.start >= needed else 0, node.accessed)

    return key


_POLICIES: dict[str, Callable[..., Policy]] = {
    "lru": lambda: lambda node: node.accessed,
    "lfu": lambda: lambda node: (node.hit_count, node.accessed),
    "fifo": lambda: lambda node: node.created,
    "mru": lambda: lambda node: -node.accessed,
    "filo": lambda: lambda node: -node.created,
    "priority": lambda: lambda node: (node.priority, node.accessed),
    "slru": _slru,
    "tlru": _tlru,
}
_OPTIONS = {"slru": ("protected_threshold",), "tlru": ("threshold", "next_prompt_estimate")}
POLICY_NAMES = tuple(_POLICIES)


def eviction_policy(name: str, options: Mapping[str, int] | None = None) -> Policy:
    """Node → key; the leaf with the smallest key is evicted first. Source: SGLang 0.5.23 `evict_policy.py`."""
    if name not in _POLICIES:
        raise UserError("radix.policy", name=name, choices=", ".join(POLICY_NAMES))
    known = _OPTIONS.get(name, ())
    for option, value in (options or {}).items():
        if option not in known:
            raise UserError("radix.policy_option", name=name, option=option, choices=", ".join(known) or "–")
        if isinstance(value, bool) or not isinstance(value, int) or value < 0:
            raise UserError("radix.policy_value", name=name, option=option, value=value)
    return _POLICIES[name](**(options or {}))


class EvictionHeap(Protocol):
    """What an eviction needs: the next leaf to go, and a place for a parent that became one."""

    def pop(self) -> RadixNode | None: ...

    def push(self, node: RadixNode) -> None: ...


class LeafHeap:
    """The evictable leaves, and a heap of them that is brought up to date only when a leaf is asked for.

    An entry is stale if its node is no longer an evictable leaf or has another key by now; the newer entry is in the heap
    too, since whoever changes a leaf says so (`changed`). Amortised cost of an eviction: O(log leaves) per change.
    """

    def __init__(self, policy: Policy) -> None:
        self.policy = policy
        self.leaves: dict[int, RadixNode] = {}  # by id, in the order in which they became evictable
        self._changed: set[int] = set()
        self._heap: list[tuple[EvictKey, int]] = []

    def add(self, node: RadixNode) -> None:
        self.leaves[node.id] = node
        self._changed.add(node.id)

    push = add

    def discard(self, node: RadixNode) -> None:
        self.leaves.pop(node.id, None)
        self._changed.discard(node.id)

    def changed(self, node: RadixNode) -> None:
        """Says that `node`'s key may be another one now."""
        if node.id in self.leaves:
            self._changed.add(node.id)

    def clear(self) -> None:
        self.leaves.clear()
        self._changed.clear()
        self._heap.clear()

    def pop(self) -> RadixNode | None:
        """The leaf with the smallest key, None if there is no leaf. It stays a leaf until the tree discards it."""
        self._update()
        leaves, policy = self.leaves, self.policy
        while self._heap:
            key, node_id = heappop(self._heap)
            node = leaves.get(node_id)
            if node is not None and policy(node) == key:
                return node
        return None

    def _update(self) -> None:
        leaves, policy, heap = self.leaves, self.policy, self._heap
        if len(heap) + len(self._changed) > 2 * len(leaves) + _SLACK:
            self._heap = [(policy(node), node.id) for node in leaves.values()]
            heapify(self._heap)
        else:
            for node_id in self._changed:
                heappush(heap, (policy(leaves[node_id]), node_id))
        self._changed.clear()


class _Entry:
    """A heap entry that counts how often it is compared."""

    __slots__ = ("counter", "entry")

    def __init__(self, node: RadixNode, key: EvictKey, counter: list[int]) -> None:
        self.entry: HeapEntry = (node.id, key)
        self.counter = counter

    def __lt__(self, other: _Entry) -> bool:
        self.counter[0] += 1
        return self.entry[1] < other.entry[1]  # type: ignore[operator]


class RecordedHeap:
    """One eviction as SGLang does it: heapify all leaves, pop, push; each step with its comparisons and the array."""

    def __init__(self, leaves: LeafHeap, log: list[Event], asked: int, request: str | None) -> None:
        self._leaves, self._log, self._asked, self._request = leaves, log, asked, request
        self._counter = [0]
        self._total = 0
        self._heap = [self._entry(node) for node in leaves.leaves.values()]
        self._built = len(self._heap)
        heapify(self._heap)
        log.append(HeapBuilt(request, asked, self._cost(), self._array()))

    def pop(self) -> RadixNode | None:
        if not self._heap:
            return None
        node_id, key = heappop(self._heap).entry
        self._log.append(HeapPopped(node_id, key, self._cost(), self._array()))
        return self._leaves.leaves[node_id]

    def push(self, node: RadixNode) -> None:
        self._leaves.add(node)
        entry = self._entry(node)
        heappush(self._heap, entry)
        self._log.append(HeapPushed(*entry.entry, self._cost(), self._array()))

    def end(self, evicted: Iterable[RadixNode]) -> None:
        sizes = [node.end - node.start for node in evicted]
        bound = heap_bound(self._built, len(sizes))
        self._log.append(
            EvictionEnded(self._request, self._asked, sum(sizes), self._built, len(sizes), self._total, bound)
        )

    def _entry(self, node: RadixNode) -> _Entry:
        return _Entry(node, self._leaves.policy(node), self._counter)

    def _cost(self) -> int:
        cost, self._counter[0] = self._counter[0], 0
        self._total += cost
        return cost

    def _array(self) -> tuple[HeapEntry, ...]:
        return tuple(entry.entry for entry in self._heap)


def heap_bound(leaves: int, evicted: int) -> float:
    """v + e·log2(v + e): building a heap of v leaves, then e times taking one out and putting at most a parent in."""
    return leaves + evicted * math.log2(max(1, leaves + evicted))

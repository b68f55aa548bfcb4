"""Each mutation breaks one rule of the radix cache on purpose; laws, model, recordings or the cases must notice."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from engine import eviction, prefix_radix, radix_rows
from engine.errors import UserError
from engine.eviction import LeafHeap, RecordedHeap
from engine.golden_radix import replay
from engine.prefix_radix import RadixTree
from engine.radix_key import WIDTH, RadixKey
from engine.radix_node import RadixNode
from engine.slots import SlotPool
from tests.engine import test_radix_cases as cases
from tests.engine.radix_model import random_run, twins

GOLDEN = Path(__file__).parents[1] / "golden" / "sglang"
NAMES = [path.name.removesuffix(".scenario.json") for path in sorted(GOLDEN.glob("*.scenario.json"))]


def pressure() -> None:
    """Random lives against the model, both heaps side by side, the recordings, and case O09."""
    for seed in range(8):
        random_run(seed, 60)
    for policy in ("lru", "mru", "lfu"):
        twins(1, 120, policy)
    for name in NAMES:
        scenario = json.loads((GOLDEN / f"{name}.scenario.json").read_text())
        want = json.loads((GOLDEN / f"{name}.result.json").read_text())
        assert json.loads(json.dumps(replay(scenario))) == want, name
    cases.test_o09_duplicates_are_freed_after_the_row_points_to_the_trees_pages()


def test_an_honest_tree_passes() -> None:
    pressure()


_lock, _unlock, _split, _descend = RadixTree.lock, RadixTree.unlock, RadixTree._split, RadixTree._descend
_insert, _remove, _add_leaf, _take = RadixTree._insert, RadixTree._remove, RadixTree._add_leaf, SlotPool.take
_free = SlotPool.free


def _lock_from_the_parent(tree: RadixTree, node: RadixNode, request: str | None = None) -> int:
    return _lock(tree, node.parent or node, request)


def _lock_the_node_alone(tree: RadixTree, node: RadixNode, request: str | None = None) -> int:
    node.lock_ref += node is not tree.root
    return 0


def _split_starts_unlocked(tree: RadixTree, child: RadixNode, *rest: Any) -> RadixNode:
    upper = _split(tree, child, *rest)
    upper.lock_ref = 0
    return upper


def _split_forgets_hits(tree: RadixTree, child: RadixNode, *rest: Any) -> RadixNode:
    upper = _split(tree, child, *rest)
    upper.hit_count = 0
    return upper


def _split_gives_the_new_node_the_lower_half(tree: RadixTree, child: RadixNode, *rest: Any) -> RadixNode:
    upper = _split(tree, child, *rest)
    upper.id, child.id = child.id, upper.id
    return upper


def _match_touches_nothing(tree: RadixTree, *arguments: Any) -> list[RadixNode]:
    clock = tree._clock
    path = _descend(tree, *arguments)
    for node in path:
        node.accessed = min(node.accessed, clock)
    return path


def _insert_counts_every_chunk(
    tree: RadixTree, key: Any, stop: int, pages: Any, priority: int, _: int, who: Any
) -> Any:
    return _insert(tree, key, stop, pages, priority, -1, who)


def _insert_ignores_priority(tree: RadixTree, key: Any, stop: int, pages: Any, _: int, inserted: int, who: Any) -> Any:
    return _insert(tree, key, stop, pages, 0, inserted, who)


def _keys_are_not_cut_to_pages(tree: RadixTree, key: RadixKey) -> int:
    return key.units


def _children_by_first_token(tree: RadixTree, node: RadixNode) -> Any:
    page = node.edge[:WIDTH]
    return page if node.start or node.namespace is None else (node.namespace, page)


def _one_namespace(tree: RadixTree, node: RadixNode) -> Any:
    return node.edge[: tree._page_bytes]


def _evicted_pages_are_lost(tree: RadixTree, leaf: RadixNode, request: str | None) -> RadixNode:
    tree.pool.free = lambda pages: None  # type: ignore[method-assign]
    try:
        return _remove(tree, leaf, request)
    finally:
        del tree.pool.free


def _parent_of_a_leaf_stays_evictable(tree: RadixTree, parent: RadixNode, *rest: Any) -> RadixNode:
    leaf = _add_leaf(tree, parent, *rest)
    if parent is not tree.root and not parent.lock_ref:
        tree.leaves.add(parent)
    return leaf


def _parents_never_join(heap: RecordedHeap, node: RadixNode) -> None:
    heap._leaves.add(node)


def _stale_entries_count(heap: LeafHeap) -> RadixNode | None:
    heap._update()
    while heap._heap:
        node = heap.leaves.get(eviction.heappop(heap._heap)[1])
        if node is not None:
            return node
    return None


def _touches_go_unnoticed(heap: LeafHeap, node: RadixNode) -> None:
    return


def _unlock_forgets_the_leaf(tree: RadixTree, node: RadixNode, request: str | None = None) -> int:
    units = _unlock(tree, node, request)
    tree.leaves.discard(node)
    return units


def _unlock_below_zero(tree: RadixTree, node: RadixNode, request: str | None = None) -> int:
    units = _unlock(tree, node, request)
    for step in tree._path(node):
        step.lock_ref -= 1
    return units


def _take_from_the_back(pool: SlotPool, pages: int) -> Any:
    pool._head = (pool._head + 1) % pool.num_pages
    return _take(pool, pages)


def _free_the_other_way_round(pool: SlotPool, pages: Any) -> None:
    _free(pool, pages[::-1])


def _duplicates_before_the_row(tree: RadixTree, row: Any, key: RadixKey, prompt_tokens: int | None = None) -> None:
    size = tree.pool.page_size
    stored = tree.insert(key, row.pages, row.priority, row.inserted, prompt_tokens=prompt_tokens)
    tree.pool.free(row.pages[row.owned // size : stored.present // size])
    row.node, row.owned = stored.node, stored.node.end
    tree.lock(stored.node)


def _common_but_one(edge: bytes, raw: bytes, at: int, stop: int) -> int:
    return max(0, _common(edge, raw, at, stop) - 1)


_common = prefix_radix.common_tokens

MUTATIONS: list[tuple[object, str, Callable[..., object]]] = [
    (RadixTree, "lock", _lock_from_the_parent),
    (RadixTree, "lock", _lock_the_node_alone),
    (RadixTree, "unlock", _unlock_forgets_the_leaf),
    (RadixTree, "unlock", _unlock_below_zero),
    (RadixTree, "_split", _split_starts_unlocked),
    (RadixTree, "_split", _split_forgets_hits),
    (RadixTree, "_split", _split_gives_the_new_node_the_lower_half),
    (RadixTree, "_descend", _match_touches_nothing),
    (RadixTree, "_insert", _insert_counts_every_chunk),
    (RadixTree, "_insert", _insert_ignores_priority),
    (RadixTree, "usable_units", _keys_are_not_cut_to_pages),
    (RadixTree, "_name", _children_by_first_token),
    (RadixTree, "_name", _one_namespace),
    (RadixTree, "_remove", _evicted_pages_are_lost),
    (RadixTree, "_add_leaf", _parent_of_a_leaf_stays_evictable),
    (RecordedHeap, "push", _parents_never_join),
    (LeafHeap, "pop", _stale_entries_count),
    (LeafHeap, "changed", _touches_go_unnoticed),
    (SlotPool, "take", _take_from_the_back),
    (SlotPool, "free", _free_the_other_way_round),
    (prefix_radix, "common_tokens", _common_but_one),
    (radix_rows, "checkpoint", _duplicates_before_the_row),
]


@pytest.mark.parametrize(("owner", "name", "mutant"), MUTATIONS, ids=[mutant.__name__ for _, _, mutant in MUTATIONS])
def test_every_mutation_is_caught(
    monkeypatch: pytest.MonkeyPatch, owner: object, name: str, mutant: Callable[..., object]
) -> None:
    monkeypatch.setattr(owner, name, mutant)
    with pytest.raises((AssertionError, UserError, KeyError, StopIteration, ValueError)):
        pressure()

"""The eviction heap: whose turn it is under each policy, what it costs, and what one sees of it."""

from __future__ import annotations

import math
import random

import pytest

from engine.eviction import POLICY_NAMES, LeafHeap, heap_bound
from engine.prefix_radix import RadixTree
from engine.radix_events import EvictionEnded, HeapBuilt, HeapPopped, HeapPushed, NodeEvicted
from engine.radix_view import radix_view
from engine.slots import SlotPool
from tests.engine.radix_model import twins
from tests.engine.test_radix_cases import hit, put, tree_of


@pytest.mark.parametrize("policy", POLICY_NAMES)
@pytest.mark.parametrize("seed", range(6))
def test_the_order_is_the_same_with_recording_off(policy: str, seed: int) -> None:
    twins(seed, 120, policy)


def test_an_eviction_shows_build_pop_and_push_of_a_parent() -> None:
    tree = tree_of()
    put(tree, 1, 2, 3)
    put(tree, 1, 2, 4)
    put(tree, 5, 6)
    hit(tree, 1, 2)
    log = tree.log
    assert log is not None
    log.clear()
    keys = dict(radix_view(tree).evictable_leaves())
    order = radix_view(tree).drain_order()
    gone = [node.id for node in tree.evict(4, "R")]
    assert gone == order[:3] == [1, 3, 4]
    built, *steps, ended = log
    assert isinstance(built, HeapBuilt)
    assert (built.request, built.asked, dict(built.heap)) == ("R", 4, keys)
    assert built.heap[0] == (1, min(keys.values()))
    pop, gone_event, push = HeapPopped, NodeEvicted, HeapPushed
    assert [type(step) for step in steps] == [pop, gone_event, pop, gone_event, push, pop, gone_event]
    pushed = steps[4]
    assert isinstance(pushed, HeapPushed)
    assert pushed.node == 2, "1,2 joins when its last child has gone"
    assert {node for node, _ in pushed.heap} == {2, 4}
    assert isinstance(ended, EvictionEnded)
    costs = [event.comparisons for event in log if isinstance(event, HeapBuilt | HeapPopped | HeapPushed)]
    assert (ended.leaves, ended.nodes, ended.evicted, ended.comparisons) == (3, 3, 4, sum(costs))
    assert ended.bound == heap_bound(3, 3) == 3 + 3 * math.log2(6)


def test_the_array_is_a_heap_at_every_moment() -> None:
    tree = tree_of(pages=400)
    rng = random.Random(3)
    for _ in range(60):
        put(tree, *(rng.randrange(3) for _ in range(6)))
    tree.evict(150)
    arrays = [event.heap for event in tree.log or [] if isinstance(event, HeapBuilt | HeapPopped | HeapPushed)]
    assert len(arrays) > 50
    for array in arrays:
        assert all(array[(place - 1) // 2][1] <= array[place][1] for place in range(1, len(array)))


@pytest.mark.parametrize("leaves", [1, 10, 300, 2000])
def test_the_cost_stays_within_three_times_the_bound(leaves: int) -> None:
    """Building costs at most 2 comparisons a leaf, a pop 2·log2, a push log2: together under 3·(v + e·log2(v + e))."""
    tree = tree_of(pages=2 * leaves)
    for leaf in range(leaves):
        put(tree, leaf // 2, leaf)
    tree.evict(leaves)
    ended = (tree.log or [])[-1]
    assert isinstance(ended, EvictionEnded)
    assert ended.nodes >= leaves // 2
    assert ended.comparisons <= 3 * ended.bound


def test_with_recording_off_an_eviction_looks_only_at_what_changed(monkeypatch: pytest.MonkeyPatch) -> None:
    tree = RadixTree(SlotPool(4000, 1))
    for leaf in range(1000):
        put(tree, leaf, 0)
    tree.evict(2)
    asked: list[int] = []
    policy = tree.leaves.policy
    monkeypatch.setattr(tree.leaves, "policy", lambda node: asked.append(node.id) or policy(node))
    for leaf in range(500, 510):
        hit(tree, leaf, 0)
        tree.evict(2)
    assert len(asked) < 50, "all thousand leaves were asked again"


def test_the_lasting_heap_never_outgrows_its_leaves() -> None:
    tree = RadixTree(SlotPool(64, 1), "mru")
    put(tree, 1, 2)
    put(tree, 3, 4)
    for _ in range(500):
        hit(tree, 1, 2)
        tree.evict(0)
        tree.evict(1)
        put(tree, 1, 2)
    assert len(tree.leaves._heap) < 200
    assert isinstance(tree.leaves, LeafHeap)


@pytest.mark.parametrize(
    ("policy", "order"),
    [
        ("lru", [2, 3, 1]), ("mru", [1, 3, 2]), ("fifo", [1, 2, 3]), ("filo", [3, 2, 1]), ("lfu", [2, 1, 3]),
        ("slru", [2, 1, 3]), ("priority", [2, 1, 3]),
    ],
)  # fmt: skip
def test_policies(policy: str, order: list[int]) -> None:
    """Three leaves: 1 was read last, 3 was stored twice and matters more."""
    tree = tree_of(policy=policy)
    put(tree, 1)
    put(tree, 2)
    put(tree, 3, priority=1)
    put(tree, 3)
    hit(tree, 1)
    assert [node.id for node in tree.evict(9)] == order


def test_t_lru_gives_up_tails_that_cannot_help_and_nothing_more() -> None:
    """Conversations of 10 and 4 tokens, 3 to come, a budget of 5: 8 and 2 of them must stay (arXiv 2510.15152)."""
    tree = tree_of(policy="tlru", policy_options={"threshold": 5, "next_prompt_estimate": 3})
    put(tree, 50, 51, 52)  # the least recently used of all, but one of its tokens must stay, and a leaf goes whole
    put(tree, *range(10))
    put(tree, *range(20, 24))
    hit(tree, *range(8))
    hit(tree, 20, 21)
    assert [(node.start, node.end) for node in tree.evict(4)] == [(8, 10), (2, 4)]
    assert [(node.start, node.end) for node in tree.evict(4)] == [(0, 3), (0, 8)], "least recently used from here on"

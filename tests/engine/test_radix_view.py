"""Pictures of the tree: what they share, that they stay as they were, and that none is made when nobody looks."""

from __future__ import annotations

import pytest

from engine.prefix_radix import RadixTree
from engine.radix_events import HeapPopped, LockReleased, LockTaken, NodeEvicted, NodeInserted, NodeSplit
from engine.radix_laws import faults
from engine.radix_view import NodeView, RadixView, radix_view
from engine.slots import SlotPool
from tests.engine.test_radix_cases import hit, put, tree_of


def facts(view: RadixView) -> list[tuple[object, ...]]:
    return [
        (node.id, node.tokens, node.pages.tolist(), node.lock_ref, node.hit_count, node.accessed, node.evictable)
        for node in view
    ]


def named(view: RadixView, node_id: int) -> NodeView:
    return next(node for node in view if node.id == node_id)


def test_untouched_subtrees_are_shared() -> None:
    tree = tree_of()
    put(tree, 1, 2, 3)
    other = put(tree, 7, 8, 9)
    before = radix_view(tree)
    assert radix_view(tree).root is before.root
    hit(tree, 1, 2)
    after = radix_view(tree)
    assert after.root is not before.root
    assert named(after, other.id) is named(before, other.id)


def test_a_picture_stays_as_it_was() -> None:
    tree = tree_of(pages=12)
    node = put(tree, 1, 2, 3, 4)
    put(tree, 7, 8)
    pictures, written = [], []
    for change in (
        lambda: hit(tree, 1, 2), lambda: tree.lock(node), lambda: put(tree, 1, 2, 9), lambda: tree.evict(3),
        lambda: tree.unlock(node), lambda: tree.evict(99), lambda: put(tree, 5),
    ):  # fmt: skip
        pictures.append(radix_view(tree))
        written.append(facts(pictures[-1]))
        change()
    assert [facts(picture) for picture in pictures] == written
    with pytest.raises(ValueError, match="read-only"):
        named(pictures[0], node.id).pages[0] = 3


def test_each_operation_leaves_a_picture_that_is_true() -> None:
    """Every picture equals one made of a tree that never had any: nothing stale is shared."""
    tree = tree_of(pages=12)
    for tokens in ((1, 2, 3), (1, 2, 4), (5,), (1, 2, 3, 6), (5, 1)):
        put(tree, *tokens)
        shared = facts(radix_view(tree))
        for node in radix_view(tree):
            _node(tree, node.id).view = None
        assert facts(radix_view(tree)) == shared
    while tree.evict(1):
        shared = facts(radix_view(tree))
        for node in radix_view(tree):
            _node(tree, node.id).view = None
        assert facts(radix_view(tree)) == shared


def _node(tree: RadixTree, node_id: int):  # type: ignore[no-untyped-def]
    stack = [tree.root]
    for node in stack:
        if node.id == node_id:
            return node
        stack.extend(node.children.values())
    raise KeyError(node_id)


def test_a_tree_nobody_looks_at_makes_no_picture_and_no_event() -> None:
    tree = RadixTree(SlotPool(16, 1))
    node = put(tree, 1, 2, 3)
    put(tree, 1, 2, 4)
    tree.lock(node)
    tree.evict(5)
    assert tree.log is None
    assert all(_node(tree, each).view is None for each in (0, node.id))


def test_a_chain_of_thousands_of_nodes_needs_no_deep_recursion() -> None:
    tree = RadixTree(SlotPool(3000, 1))
    put(tree, *range(3000))
    for length in range(2999, 0, -1):
        hit(tree, *range(length))
    view = radix_view(tree)
    assert len(list(view)) == 3001
    assert list(faults(view)) == []
    assert len(view.drain_order()) == len(list(view)) - 1


def test_events_name_their_request_and_cause() -> None:
    tree = tree_of()
    node = put(tree, 1, 2, 3, request="A")
    lower = put(tree, 1, 2, 9, request="B")
    tree.lock(lower, "B")
    tree.unlock(lower, "B")
    tree.evict(1, "C")
    assert tree.log is not None
    assert [event for event in tree.log if not isinstance(event, HeapPopped)][:5] == [
        NodeInserted("A", node.id, 0, 3, (1, 2, 3)),
        NodeSplit("B", "insert", upper=2, lower=node.id, tokens=2, lock_ref=0),
        NodeInserted("B", lower.id, 2, 1, (6,)),
        LockTaken("B", lower.id, (lower.id, 2), 3),
        LockReleased("B", lower.id, (lower.id, 2), 3),
    ]
    (gone,) = [event for event in tree.log if isinstance(event, NodeEvicted)]
    assert (gone.request, gone.node, gone.parent, gone.pages) == ("C", node.id, 2, (3,))

"""Cases O08, O09 and O10 with their numbers, and what the tree refuses."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from engine import radix_rows
from engine.errors import UserError
from engine.messages import MESSAGES
from engine.prefix_radix import RadixTree
from engine.radix_events import DuplicatesFreed, PrefixMatched
from engine.radix_key import radix_key
from engine.radix_laws import faults
from engine.radix_node import RadixNode
from engine.radix_rows import RadixRow
from engine.radix_view import radix_view
from engine.slots import SlotPool


def tree_of(pages: int = 32, page: int = 1, **more: object) -> RadixTree:
    return RadixTree(SlotPool(pages * page, page), log=[], **more)  # type: ignore[arg-type]


def put(tree: RadixTree, *tokens: int, **more: object) -> RadixNode:
    """Stores tokens as a request would; gives pages back that the tree had no use for."""
    key = radix_key(tokens, bigram=bool(tree.overlap))
    pages = tree.pool.take(-(-len(tokens) // tree.pool.page_size))
    assert pages is not None
    done = tree.insert(key, pages, **more)  # type: ignore[arg-type]
    size = tree.pool.page_size
    tree.pool.free(np.concatenate([pages[: done.present // size], pages[tree.usable_units(key) // size :]]))
    return done.node


def hit(tree: RadixTree, *tokens: int) -> int:
    return tree.match(radix_key(tokens)).usable


def edges(tree: RadixTree) -> dict[str, int]:
    """Edge label → locks."""
    view = radix_view(tree)
    assert list(faults(view)) == []
    return {"".join(map(str, node.tokens)): node.lock_ref for node in view if node is not view.root}


def row(tree: RadixTree, name: str, tokens: tuple[int, ...]) -> RadixRow:
    """A running request that has computed all its tokens."""
    key = radix_key(tokens)
    mine = radix_rows.start(tree, name, key.first(len(tokens) - 1))
    assert radix_rows.grow(tree, mine, len(tokens)) == 0
    return mine


def test_o08_the_node_in_use_is_locked_and_a_split_keeps_the_lock() -> None:
    tree = tree_of()
    held_by_a = put(tree, 1, 2, 3, 4)
    tree.lock(held_by_a)
    assert edges(tree) == {"1234": 1}
    assert hit(tree, 1, 2, 9) == 2
    assert edges(tree) == {"12": 1, "34": 1}
    held_by_b = put(tree, 1, 2, 9)
    tree.lock(held_by_b)
    assert edges(tree) == {"12": 2, "34": 1, "9": 1}
    tree.unlock(held_by_a)
    assert edges(tree) == {"12": 1, "34": 0, "9": 1}
    assert (tree.evictable, tree.protected) == (2, 3)
    assert [node.pages.tolist() for node in tree.evict(10)] == [[3, 4]]
    tree.unlock(held_by_b)
    assert tree.evictable == 3
    last = [(node.start, node.end) for node in tree.evict(10)]
    assert last == [(2, 3), (0, 2)], "9 first, then 1,2 once it is a leaf"
    assert tree.pool.available == 32


def test_o09_duplicates_are_freed_after_the_row_points_to_the_trees_pages() -> None:
    tree = tree_of(pages=12)
    tokens = (5, 6, 7, 8)
    a, b = row(tree, "A", tokens), row(tree, "B", tokens)
    assert (a.pages.tolist(), b.pages.tolist()) == ([1, 2, 3, 4], [5, 6, 7, 8])
    radix_rows.checkpoint(tree, a, radix_key(tokens))
    assert tree.pages_to(a.node).tolist() == [1, 2, 3, 4]
    free = tree.pool.free

    def free_and_look(pages: np.ndarray) -> None:
        assert not set(pages.tolist()) & {*a.pages.tolist(), *b.pages.tolist()}, "freed while a table names it"
        free(pages)

    tree.pool.free = free_and_look  # type: ignore[method-assign, assignment]
    radix_rows.checkpoint(tree, b, radix_key(tokens))
    assert b.pages.tolist() == [1, 2, 3, 4]
    assert (b.node, b.node.lock_ref) == (a.node, 2)
    assert tree.pool.available == 8
    assert tree.log is not None
    assert DuplicatesFreed("B", (5, 6, 7, 8)) in tree.log
    c = row(tree, "C", (1, 1, 1, 1))
    assert tree.pool.available == 4
    assert not set(c.pages.tolist()) & set(b.pages.tolist()), "C's writes reach what B reads"
    assert list(faults(radix_view(tree), held=c.pages.tolist())) == []


class TestO10:
    def test_a_key_shorter_than_a_page(self) -> None:
        tree = tree_of(page=4)
        put(tree, 1, 2, 3)
        assert (tree.size, tree.pool.available) == (0, 128)
        put(tree, 1, 2, 3, 4, 5, 6, 7, 8)
        assert tree.size == 8
        assert hit(tree, 1, 2, 3, 4, 5, 6) == 4
        assert hit(tree, 1, 2, 3, 4, 9, 9, 9, 9) == 4
        assert hit(tree, 1, 2, 3) == 0

    def test_equal_first_tokens_of_different_pages(self) -> None:
        tree = tree_of(page=4)
        put(tree, 1, 2, 3, 4)
        put(tree, 1, 2, 9, 9)
        assert tree.size == 8
        assert len(radix_view(tree).root.children) == 2
        assert hit(tree, 1, 2, 3, 4) == hit(tree, 1, 2, 9, 9) == 4

    def test_page_1(self) -> None:
        tree = tree_of()
        put(tree, *range(1, 9))
        assert hit(tree, 1, 2, 3, 4, 5, 6) == 6
        assert hit(tree, 1, 2, 9) == 2

    @pytest.mark.parametrize(("page", "hit_tokens"), [(1, 14), (4, 12)])
    def test_the_next_turn_of_a_chat_finds_the_answer_too(self, page: int, hit_tokens: int) -> None:
        tree = tree_of(pages=40 // page, page=page)
        prompt, answer, following = tuple(range(10)), tuple(range(20, 25)), tuple(range(30, 35))
        first = row(tree, "chat", prompt)
        radix_rows.checkpoint(tree, first, radix_key(prompt), prompt_tokens=10)
        assert radix_rows.grow(tree, first, 14) == 0
        radix_rows.checkpoint(tree, first, radix_key(prompt + answer).first(14), prompt_tokens=10)
        radix_rows.release(tree, first)
        assert tree.size == hit_tokens
        assert list(faults(radix_view(tree))) == []
        key = radix_key(prompt + answer + following)
        assert radix_rows.start(tree, "next", key.first(19)).owned == hit_tokens


def test_matched_and_usable_are_two_numbers() -> None:
    tree = tree_of(page=4)
    put(tree, 1, 2, 3, 4, 5, 6, 7, 8)
    key = radix_key([1, 2, 3, 4, 5, 6, 0])
    assert tree.matched_tokens(key) == 6
    match = tree.match(key, "A")
    assert match.usable == 4
    assert tree.log is not None
    assert [event for event in tree.log if isinstance(event, PrefixMatched)] == [
        PrefixMatched("A", tokens=7, matched=6, usable=4, node=match.node.id)
    ]


def test_a_reply_can_go_without_its_prompt() -> None:
    tree = tree_of()
    put(tree, 1, 2, 3, 4, 5, prompt_tokens=3)
    assert edges(tree) == {"123": 0, "45": 0}
    assert [node.end - node.start for node in tree.evict(1)] == [2]
    assert hit(tree, 1, 2, 3, 4, 5) == 3


def test_a_released_row_leaves_only_what_the_tree_owns() -> None:
    tree = tree_of(pages=4, page=4)
    mine = row(tree, "A", tuple(range(6)))
    radix_rows.checkpoint(tree, mine, radix_key(range(6)))
    assert (mine.owned, len(mine.pages), tree.size) == (4, 2, 4)
    radix_rows.release(tree, mine)
    assert (tree.evictable, tree.protected, tree.pool.available) == (4, 0, 12)


def test_a_row_that_does_not_fit_is_told_how_much_is_missing() -> None:
    tree = tree_of(pages=4)
    put(tree, 7, 8)
    mine = row(tree, "A", (1, 2))
    assert radix_rows.grow(tree, mine, 9) == 7 - 2
    assert len(mine.pages) == 2


def double_unlock(tree: RadixTree) -> None:
    node = tree.match(radix_key([1, 2, 3])).node
    tree.lock(node)
    tree.unlock(node)
    tree.unlock(node)


def lock_what_is_gone(tree: RadixTree) -> None:
    tree.lock(tree_of().root)


REFUSALS: list[tuple[str, Callable[[RadixTree], object]]] = [
    ("radix.negative_token", lambda tree: tree.insert(radix_key([1, 2, -3]), np.array([9, 10, 11]))),
    ("radix.negative_token", lambda tree: tree.match(radix_key([-1, *[0] * 700]))),
    ("radix.token", lambda tree: radix_key([2**63])),
    ("radix.token", lambda tree: radix_key([1.5])),  # type: ignore[list-item]
    ("radix.empty_key", lambda tree: tree.insert(radix_key([]), np.array([9]))),
    ("radix.pages", lambda tree: tree.insert(radix_key([4, 5]), np.array([9]))),
    ("radix.double_unlock", double_unlock),
    ("radix.gone", lock_what_is_gone),
    ("radix.policy", lambda tree: tree_of(policy="best")),
    ("radix.policy_option", lambda tree: tree_of(policy="lru", policy_options={"threshold": 1})),
    ("radix.policy_value", lambda tree: tree_of(policy="slru", policy_options={"protected_threshold": -1})),
    ("radix.pool", lambda tree: SlotPool(10, 4)),
    ("radix.pool", lambda tree: SlotPool(0, 1)),
    ("radix.pool", lambda tree: SlotPool(4, 0)),
]


@pytest.mark.parametrize(("key", "attempt"), REFUSALS)
def test_bad_input_is_one_sentence_and_changes_nothing(key: str, attempt: Callable[[RadixTree], object]) -> None:
    tree = tree_of()
    put(tree, 1, 2, 3)
    before = radix_view(tree)
    with pytest.raises(UserError) as caught:
        attempt(tree)
    assert caught.value.key == key
    assert str(caught.value).count(".") >= 1
    assert "\n" not in str(caught.value)
    assert MESSAGES[key][1].format(**caught.value.params)
    after = radix_view(tree)
    assert edges(tree) == {"123": 0}
    assert (before.evictable, before.protected, before.free_pages.tolist()) == (
        after.evictable, after.protected, after.free_pages.tolist(),
    )  # fmt: skip


def test_a_node_that_was_evicted_cannot_be_locked_or_unlocked() -> None:
    tree = tree_of()
    node = put(tree, 1, 2)
    tree.evict(1)
    for call in (tree.lock, tree.unlock):
        with pytest.raises(UserError, match=f"Node {node.id} is not in this tree"):
            call(node)


def test_an_empty_lookup_finds_nothing_and_touches_nothing() -> None:
    tree = tree_of()
    put(tree, 1)
    before = radix_view(tree)
    assert tree.match(radix_key([])).usable == 0
    assert radix_view(tree).root is before.root

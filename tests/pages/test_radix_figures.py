"""The radix pictures hold what the tree and its heap hold: O08's tree, its cut edge, its locks, its eviction."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import plotly.graph_objects as go
import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.events import Event
from engine.prefix_radix import RadixTree
from engine.radix_key import radix_key
from engine.radix_view import RadixView, radix_view
from engine.slots import SlotPool
from pages.figures.eviction_heap import eviction_heap, heap_state, heap_words
from pages.figures.marks import Selection
from pages.figures.primitives import Figure, Trace
from pages.figures.radix_tree import place, radix_tree, short_label, tree_alt
from pages.ui.theme import DARK, LIGHT


class Grown:
    """A tree that grows token list by token list, with the events since `forget`."""

    def __init__(self, tokens: int = 4000) -> None:
        self.log: list[Event] = []
        self.pool = SlotPool(tokens, 1)
        self.tree = RadixTree(self.pool, log=self.log)

    def insert(self, tokens: Sequence[int]) -> int:
        """Stores `tokens`, reusing what is there; returns the node they end on."""
        key = radix_key(tokens)
        match = self.tree.match(key)
        taken = self.pool.take(key.units - match.usable)
        assert taken is not None
        return self.tree.insert(key, [*self.tree.pages_to(match.node), *taken]).node.id

    def forget(self) -> None:
        self.log.clear()

    @property
    def view(self) -> RadixView:
        return radix_view(self.tree)


def o08() -> Grown:
    """1,2,3,4 locked for A; the match of 1,2,9 cuts its edge; 1,2,9 locked for B."""
    grown = Grown(40)
    grown.insert([1, 2, 3, 4])
    grown.tree.lock(grown.tree.match(radix_key([1, 2, 3, 4])).node)
    grown.forget()
    grown.insert([1, 2, 9])
    grown.tree.lock(grown.tree.match(radix_key([1, 2, 9])).node)
    return grown


def named(figure: Figure, name: str) -> Trace:
    found: Trace = next(item for item in figure["data"] if item["name"] == name)
    return found


def test_o08_shows_the_cut_edge_and_the_locks_it_inherits() -> None:
    grown = o08()
    figure = radix_tree(grown.view, grown.log, None, LIGHT, "en")
    assert named(figure, "labels")["text"] == ["1 2", "3 4", "9"]
    assert named(figure, "locks")["text"] == ["2", "1", "1"]
    nodes = named(figure, "nodes")
    assert nodes["marker"]["symbol"] == ["square", "diamond", "circle", "circle"]
    assert "upper half of an edge cut in this step" in nodes["hovertext"][1]
    assert tree_alt(grown.view, "en") == "Radix tree: 3 nodes, 3 locked; 0 tokens evictable, 5 protected."


def test_the_matched_path_goes_from_the_root_to_the_match() -> None:
    grown = o08()
    grown.forget()
    grown.tree.match(radix_key([1, 2, 9]))
    path = named(radix_tree(grown.view, grown.log, None, LIGHT, "en"), "matched path")
    assert sum(1 for x in path["x"] if x is None) == 2


def test_an_eviction_numbers_what_leaves_and_says_what_it_cost() -> None:
    grown = o08()
    for tokens in ([1, 2, 3, 4], [1, 2, 9]):
        grown.tree.unlock(grown.tree.match(radix_key(tokens)).node)
    grown.forget()
    grown.tree.evict(10)
    state = heap_state(grown.view, grown.log)
    assert len(state.array) == 2
    assert len(state.popped) == 3
    assert len(state.pushed) == 1
    keys = named(eviction_heap(state, None, LIGHT, "en"), "keys")["text"]
    assert keys == ["1.", "2.", "3."]
    assert heap_words(state, "en").startswith("asked 10 tokens, freed 5: 3 leaves out, parents in: 1, ")


def test_without_an_eviction_the_heap_shows_who_would_go_first() -> None:
    grown = Grown()
    first = grown.insert([1, 2])
    second = grown.insert([3, 4])
    grown.tree.match(radix_key([1, 2]))
    state = heap_state(grown.view, [])
    assert [node for node, _ in state.array] == [second, first]
    assert heap_words(state, "en") == "2 evictable leaves; the smallest key would go first"


@given(st.lists(st.lists(st.integers(0, 2), min_size=1, max_size=6), max_size=30))
def test_places_are_apart_and_parents_lie_between_their_children(paths: list[list[int]]) -> None:
    grown = Grown()
    for tokens in paths:
        grown.insert(tokens)
    placed, rows = place(grown.view.root)
    assert len(placed) == sum(1 for _ in grown.view)
    assert len({(item.depth, item.y) for item in placed}) == len(placed)
    assert all(0 < item.y < max(1, rows) for item in placed)
    height = {item.node.id: item.y for item in placed}
    for item in placed:
        if item.node.children:
            below = [height[child.id] for child in item.node.children]
            assert min(below) <= item.y <= max(below)
            assert below == sorted(below)


@pytest.mark.parametrize("lang", ["en", "zh"])
def test_plotly_accepts_them_and_their_traces_keep_their_order(lang: str) -> None:
    grown = Grown()
    names = set()
    for number, tokens in enumerate(itertools.product(range(3), repeat=4)):
        node = grown.insert(tokens)
        if number % 20 == 0:
            for selection in (None, Selection("node", node)):
                tree = radix_tree(grown.view, grown.log, selection, DARK, lang)  # type: ignore[arg-type]
                heap = eviction_heap(heap_state(grown.view, grown.log), selection, DARK, lang)  # type: ignore[arg-type]
                go.Figure(tree)
                go.Figure(heap)
                names.add(tuple(item["name"] for item in [*tree["data"], *heap["data"]]))
            grown.forget()
    assert len(names) == 1


def test_a_long_label_keeps_both_ends() -> None:
    long = short_label("You are a helpful assistant.\nBe brief.")
    assert long.startswith("You are ")
    assert long.endswith(" brief.")
    assert len(short_label("x" * 80)) == 16
    assert short_label("a\nb") == "a⏎b"


def test_an_empty_tree_says_so() -> None:
    view = Grown().view
    assert named(radix_tree(view, [], None, LIGHT, "en"), "words")["text"] == ["the tree is empty"]
    assert named(eviction_heap(heap_state(view, []), None, LIGHT, "en"), "words")["text"] == [
        "no leaf can be evicted now"
    ]


def test_a_tree_too_large_for_the_picture_keeps_its_root_and_says_what_is_left_out() -> None:
    grown = Grown()
    for first in range(1, 40):
        for second in range(1, 4):
            grown.insert([first, second, second])
    figure = radix_tree(grown.view, [], None, LIGHT, "en")
    nodes = named(figure, "nodes")
    assert nodes["marker"]["symbol"][0] == "square"
    low, high = figure["layout"]["yaxis"]["range"]
    assert all(min(low, high) <= y <= max(low, high) for y in nodes["y"])
    left_out = sum(1 for _ in grown.view) - len(nodes["y"])
    assert any(str(left_out) in text for text in named(figure, "words")["text"])

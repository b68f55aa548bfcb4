"""A chain in the picture is a prefix that a lookup finds, and what no lookup can reach is marked."""

from __future__ import annotations

from dataclasses import replace
from typing import cast
from unittest.mock import create_autospec

import plotly.graph_objects as go
import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.snapshot import PoolView
from pages.figures.hash_chains import Node, chains_alt, hash_chains, nodes, place
from pages.figures.marks import Selection, block_marks
from pages.ui.theme import DARK, LIGHT
from tests.pages.fakes import Run, crowd, lanes, pressure, wide


def pool(links: list[tuple[str | None, str | None]], duplicates: dict[str, tuple[int, ...]] | None = None) -> PoolView:
    """Blocks 1, 2 … published as (hash, parent); (None, None) is not published."""
    view = create_autospec(PoolView, instance=True)
    view.hashes = (None, *(digest for digest, _ in links))
    view.parents = (None, *(parent for _, parent in links))
    view.duplicates = duplicates or {}
    return cast(PoolView, view)


def test_every_row_is_a_prefix_of_some_request() -> None:
    run = lanes()
    pool_view = run.steps[3].snapshot.pool
    chains = nodes(pool_view)
    for view in run.steps[3].snapshot.requests:
        published = [block for block in view.block_table if pool_view.hashes[block] is not None]
        for before, block in zip([None, *published], published, strict=False):
            parent = None if before is None else pool_view.hashes[before]
            digest = pool_view.hashes[block]
            assert digest is not None
            assert chains[digest].parent == parent
    assert not any(node.stranded for node in chains.values())


def test_a_tail_without_its_head_is_stranded_and_so_is_all_behind_it() -> None:
    chains = nodes(pool([("b", "a"), ("c", "b"), ("x", None), (None, None), ("y", "x")]))
    assert {name for name, node in chains.items() if node.stranded} == {"b", "c"}
    snapshot = replace(lanes().initial, pool=pool([("b", "a"), ("c", "b"), ("x", None)]))
    assert chains_alt(snapshot, "en") == ("Published hashes: 3, in chains: 1; out of any lookup's reach: 2.")


def test_blocks_with_the_same_content_are_one_node_named_by_the_one_a_lookup_finds() -> None:
    chains = nodes(pool([("a", None), ("b", "a"), ("b", "a")], {"b": (3, 2)}))
    assert chains["b"] == Node("b", "a", (3, 2))


@given(st.lists(st.integers(0, 30), min_size=1, max_size=40))
def test_places_never_collide_and_children_follow_their_parent(parents: list[int]) -> None:
    """Node i hangs under node `parents[i] % i`, or begins a chain."""
    links: list[tuple[str | None, str | None]] = [
        (str(index), str(parent % index) if index and parent else None) for index, parent in enumerate(parents)
    ]
    placed = place(nodes(pool(links)))
    assert len(placed) == len(parents)
    assert len({(item.row, item.column) for item in placed}) == len(placed)
    where = {item.node.hash: item for item in placed}
    for item in placed:
        if item.node.parent is None:
            assert (item.column, item.parent_row) == (0, None)
        else:
            parent = where[item.node.parent]
            assert item.column == parent.column + 1
            assert item.parent_row == parent.row <= item.row


@pytest.mark.parametrize("run", [pressure, lanes, crowd, wide])
def test_plotly_accepts_it_and_its_traces_keep_their_order(run: object) -> None:
    done: Run = run()  # type: ignore[operator]
    for step in done.steps[:: max(1, len(done.steps) // 8)]:
        marks = block_marks(step.events, step.snapshot)
        for selection in (None, Selection("request", "A"), Selection("block", 3)):
            figure = hash_chains(step.snapshot, marks, selection, DARK, "zh")
            go.Figure(figure)
            assert [item["name"] for item in figure["data"]] == ["links", "rings", "chips", "ids", "words"]


def test_the_first_picture_says_that_nothing_is_published() -> None:
    figure = hash_chains(lanes().initial, {}, None, LIGHT, "en")
    assert figure["data"][-1]["text"] == ["no block is published yet"]

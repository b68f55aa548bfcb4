"""Hash chains: each published block after the one its hash was chained from: a prefix reads from left to right."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from engine.snapshot import PoolView, Snapshot
from pages.figures.block_tables import row_count
from pages.figures.marks import GLYPHS, Marks, Selection, block_state, selected_blocks
from pages.figures.pool import block_template, block_values, ring_color
from pages.figures.primitives import CLEAR, Figure, Rects, Texts, block_ref, hidden_axis, layout, lines
from pages.ui.text import Lang, t
from pages.ui.theme import Palette

MAX_ROWS = 12
MIN_COLUMNS = 6
MAX_COLUMNS = 14


@dataclass(frozen=True, slots=True)
class Node:
    """One hash: the blocks that hold its content, oldest (the one a lookup finds) first.

    `stranded`: its parent's hash is published no more, so that no lookup can come here.
    """

    hash: str
    parent: str | None
    blocks: tuple[int, ...]
    stranded: bool = False


@dataclass(frozen=True, slots=True)
class Placed:
    """A node in its row and column; `parent_row` is None at the beginning of a chain."""

    node: Node
    row: int
    column: int
    parent_row: int | None


def nodes(pool: PoolView) -> dict[str, Node]:
    """Every published hash, in the order of the oldest block that holds it."""
    blocks: dict[str, list[int]] = {}
    parents: dict[str, str | None] = {}
    for block, digest in enumerate(pool.hashes):
        if digest is not None:
            blocks.setdefault(digest, []).append(block)
            parents[digest] = pool.parents[block]
    return {
        digest: Node(digest, parents[digest], pool.duplicates.get(digest, tuple(held)), _stranded(digest, parents))
        for digest, held in blocks.items()
    }


def _stranded(digest: str, parents: Mapping[str, str | None]) -> bool:
    above = parents[digest]
    while above is not None:
        if above not in parents:
            return True
        above = parents[above]
    return False


def place(chains: Mapping[str, Node]) -> list[Placed]:
    """A row for each end of a chain; where chains part, the longest goes on in its parent's row."""
    children: dict[str | None, list[Node]] = {}
    for node in chains.values():
        children.setdefault(node.parent if node.parent in chains else None, []).append(node)
    placed: list[Placed] = []
    row = 0
    # A stack and not recursion: chains may be thousands of blocks long.
    waiting: list[tuple[Node, int, int | None]] = [(node, 0, None) for node in reversed(children.get(None, []))]
    while waiting:
        node, column, parent_row = waiting.pop()
        goes_on = bool(placed) and placed[-1].node.hash == node.parent
        row = row if goes_on or not placed else row + 1
        placed.append(Placed(node, row, column, parent_row))
        waiting.extend((child, column + 1, row) for child in reversed(children.get(node.hash, [])))
    return placed


def hash_chains(snapshot: Snapshot, marks: Marks, selection: Selection | None, palette: Palette, lang: Lang) -> Figure:
    """Traces, in this order: links, rings, chips, block ids, words."""
    everything = place(nodes(snapshot.pool))
    most = palette.fits(MAX_ROWS)
    shown = [item for item in everything if item.row < most and item.column < MAX_COLUMNS]
    rows = row_count(max((item.row for item in shown), default=0) + 1 + (len(shown) < len(everything)), most + 1)
    columns = max(MIN_COLUMNS, min(MAX_COLUMNS, max((item.column for item in shown), default=0) + 1))
    bright = selected_blocks(selection, snapshot)
    owners = snapshot.owners()
    template = t("hover.chain", lang, parent="%{customdata[1]}", twins="%{customdata[2]}")
    template += "<br>" + block_template(snapshot, lang, first=2)
    rings, chips = Rects("rings", radius=5), Rects("chips", radius=4)
    ids = Texts("ids", palette.px(13), palette.mono)
    words = Texts("words", palette.px(12.5), palette.sans, "middle right")
    for item in shown:
        block = item.node.blocks[0]
        fill, ink = _colors(block_state(snapshot, block), palette)
        faded = bright is not None and not bright.intersection(item.node.blocks)
        mark = marks[block].kind if block in marks else None
        twins = len(item.node.blocks)
        chips.add(
            item.column + 0.08,
            item.row + 0.16,
            0.78,
            0.68,
            CLEAR if item.node.stranded else fill,
            line=palette.evicted if item.node.stranded else fill,
            line_width=2 if item.node.stranded else 1,
            faded=faded,
            ref=block_ref(block),
            values=(
                item.node.parent or t("hover.chain_root", lang),
                twins,
                *block_values(snapshot, block, owners, mark, lang),
            ),
        )
        if mark is not None:
            rings.add(
                item.column + 0.02, item.row + 0.07, 0.9, 0.86, CLEAR, line=ring_color(mark, palette), line_width=2.5
            )
        label = f"{GLYPHS[mark] if mark is not None else ''}{block}" + (f" ×{twins}" if twins > 1 else "")
        ids.add(
            item.column + 0.47,
            item.row + 0.5,
            label,
            palette.muted if faded else palette.text if item.node.stranded else ink,
        )
    if not everything:
        words.add(0, 0.5, t("figure.no_chain", lang), palette.muted)
    if len(shown) < len(everything):
        words.add(0, rows - 0.5, t("figure.more_blocks", lang, n=len(everything) - len(shown)), palette.muted)
    x, y = _links(shown)
    return {
        "data": [
            lines("links", x, y, palette.muted, width=1.4),
            rings.trace(),
            chips.trace(template=template),
            ids.trace(),
            words.trace(),
        ],
        "layout": layout(palette, hidden_axis(-0.1, columns), hidden_axis(rows, 0), (10, 8, 2, 6)),
    }


def chains_alt(snapshot: Snapshot, lang: Lang) -> str:
    """The diagram in one sentence."""
    chains = nodes(snapshot.pool)
    stranded = sum(1 for node in chains.values() if node.stranded)
    heads = sum(1 for node in chains.values() if node.parent is None)
    return t("alt.chains", lang, hashes=len(chains), heads=heads, stranded=stranded)


def _colors(state: str, palette: Palette) -> tuple[str, str]:
    """Fill and text colour; a published block is never empty."""
    if state == "shared":
        return palette.shared, palette.on_shared
    if state == "owned":
        return palette.used, palette.on_used
    return palette.cached, palette.on_cached


def _links(shown: list[Placed]) -> tuple[list[float | None], list[float | None]]:
    """From each node's parent down and then right to the node."""
    x: list[float | None] = []
    y: list[float | None] = []
    for item in shown:
        for point in _bend(item):
            x.append(point[0])
            y.append(point[1])
    return x, y


def _bend(item: Placed) -> Iterator[tuple[float | None, float | None]]:
    if item.parent_row is None:
        return
    end = item.row + 0.5
    if item.parent_row != item.row:
        yield item.column - 0.53, item.parent_row + 0.84
        yield item.column - 0.53, end
    else:
        yield item.column - 0.14, end
    yield item.column + 0.08, end
    yield None, None

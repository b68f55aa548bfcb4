"""The physical pool: one cell a block, with its reference count, its fill and what this step did to it."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

from engine.snapshot import Snapshot
from pages.figures.marks import GLYPHS, BlockState, MarkKind, Marks, Selection, block_state, selected_blocks
from pages.figures.primitives import (
    CLEAR,
    Figure,
    Rects,
    Texts,
    Trace,
    block_ref,
    escape,
    gutter,
    hidden_axis,
    layout,
    lines,
    slots,
)
from pages.ui.text import Lang, listing, t
from pages.ui.theme import Palette

# Up to here each cell carries its id; up to the second limit each block is a cell of its own.
IDS_UP_TO = 64
CELLS_UP_TO = 512
FEW = 20
COUNTS_SHOWN = 100  # texts are what costs drawing time
ASPECT = 1.35  # width / height of the panel the cells should look square in


@dataclass(frozen=True, slots=True)
class _Grid:
    columns: int
    rows: int

    @property
    def height(self) -> float:
        """Rows the panel has room for: with few blocks the cells stay square and the rest stays empty."""
        return max(self.rows, self.columns / ASPECT)

    def cell(self, block: int) -> tuple[int, int]:
        return block % self.columns, block // self.columns


def _grid(num_blocks: int) -> _Grid:
    """Columns are a power of two, half-way between two, or five: a row's first id is then easy to count on from."""
    wanted = math.sqrt(num_blocks * ASPECT)
    choices = [8, 12, 16, 24, 32, 48, 64, 96, 128]
    columns = min(choices, key=lambda value: abs(math.log(value / wanted)))
    if num_blocks <= IDS_UP_TO:
        columns = 5 if num_blocks <= FEW else 8
    return _Grid(columns, math.ceil(num_blocks / columns))


def _fills(palette: Palette) -> dict[BlockState, tuple[str, str, str]]:
    """State → fill, border, text colour."""
    return {
        "null": (CLEAR, palette.free_line, palette.muted),
        "shared": (palette.shared, palette.shared, palette.on_shared),
        "owned": (palette.used, palette.used, palette.on_used),
        "cached": (palette.cached, palette.cached, palette.on_cached),
        "empty": (palette.free, palette.free_line, palette.muted),
    }


def ring_color(mark: MarkKind, palette: Palette) -> str:
    # A copy shares the hit's colour: both are content that was not computed again; the glyph tells them apart.
    return {
        "new": palette.new,
        "evicted": palette.evicted,
        "hit": palette.hit,
        "freed": palette.muted,
        "copied": palette.hit,
    }[mark]


def rings_around(blocks: Iterable[int], num_blocks: int, color: str, name: str) -> Trace:
    """Rings around `blocks` of a pool figure of `num_blocks`."""
    grid, rings = _grid(num_blocks), Rects(name, radius=5)
    for block in blocks:
        column, row = grid.cell(block)
        rings.add(column + 0.01, row + 0.01, 0.98, 0.98, CLEAR, line=color, line_width=2)
    return rings.trace()


def block_values(
    snapshot: Snapshot, block: int, owners: dict[int, tuple[str, ...]], mark: MarkKind | None, lang: Lang
) -> tuple[object, ...]:
    """What fills `block_template`: the hover card of a block, the same in every figure."""
    view = snapshot.pool
    extra = t("hover.null", lang) if block == 0 else ""
    if view.hashes[block] is not None:
        extra = t("hover.hash", lang, hash=escape(str(view.hashes[block])))
    if mark is not None:
        extra += ("<br>" if extra else "") + t(f"hover.mark.{mark}", lang)
    return (
        block,
        t(f"state.{block_state(snapshot, block)}", lang),
        view.ref_count[block],
        escape(listing(list(owners.get(block, ())), lang, 3)) or t("hover.nobody", lang),
        view.fill[block],
        extra,
    )


def block_template(snapshot: Snapshot, lang: Lang, first: int = 0) -> str:
    """`first`: how many other values come before those of the block."""
    places = slots(first, "block", "state", "ref", "owners", "fill", "extra")
    return t("hover.block", lang, size=snapshot.pool.block_size, **places)


def pool(snapshot: Snapshot, marks: Marks, selection: Selection | None, palette: Palette, lang: Lang) -> Figure:
    """Traces, in this order: rings, cells, fill gauges, grid, ids, counts and glyphs, row labels."""
    count = snapshot.pool.num_blocks
    grid = _grid(count)
    bright = selected_blocks(selection, snapshot)
    rings = Rects("rings", radius=5)
    cells = Rects("cells", radius=4 if count <= IDS_UP_TO * 2 else 2)
    gauges = Rects("gauges", radius=2)
    ids = Texts("ids", palette.px(12.5), palette.mono)
    counts = Texts("counts", palette.px(15 if count <= IDS_UP_TO * 2 else 12.5), palette.sans)
    row_labels = Texts("rows", palette.px(12.5), palette.mono, "middle left")

    if count <= CELLS_UP_TO:
        _draw_cells(snapshot, marks, bright, grid, palette, lang, (rings, cells, gauges, ids, counts))
    else:
        _draw_runs(snapshot, marks, bright, grid, palette, lang, (rings, cells, counts))
    grid_x: list[float | None] = []
    grid_y: list[float | None] = []
    if count > CELLS_UP_TO:
        for column in range(1, grid.columns):
            grid_x += [column, column, None]
            grid_y += [0, grid.rows, None]
    every = math.ceil(grid.rows / palette.fits(16))
    for row in range(0, grid.rows, every):
        row_labels.add(-0.01 * grid.columns, row + 0.5, str(row * grid.columns), palette.muted)
    return {
        "data": [
            rings.trace(),
            cells.trace(palette.free_line, template=block_template(snapshot, lang) if count <= CELLS_UP_TO else ""),
            gauges.trace(),
            # Cuts merged runs into cells again, at the cost of one path.
            lines("grid", grid_x, grid_y, palette.card, width=1.5),
            ids.trace(),
            counts.trace(),
            row_labels.trace(),
        ],
        "layout": layout(
            palette,
            hidden_axis(-gutter(grid.columns, len(str((grid.rows - 1) * grid.columns))), grid.columns),
            hidden_axis(grid.height, 0),
            (4, 10, 5, 8),
        ),
    }


def _printed(snapshot: Snapshot, marks: Marks) -> set[int]:
    """Blocks with a glyph or a count in their cell; too many counts give way to glyphs, too many hits to rings."""
    shared = {block for block, count in enumerate(snapshot.pool.ref_count) if count >= 2}
    for chosen in (shared | marks.keys(), set(marks)):
        if len(chosen) <= COUNTS_SHOWN:
            return chosen
    return {block for block, mark in marks.items() if mark.kind == "evicted"}


def _draw_cells(
    snapshot: Snapshot,
    marks: Marks,
    bright: frozenset[int] | None,
    grid: _Grid,
    palette: Palette,
    lang: Lang,
    into: tuple[Rects, Rects, Rects, Texts, Texts],
) -> None:
    rings, cells, gauges, ids, counts = into
    view = snapshot.pool
    owners = snapshot.owners()
    fills = _fills(palette)
    printed = _printed(snapshot, marks)
    with_ids = view.num_blocks <= IDS_UP_TO
    inset = 0.07 if with_ids else 0.09
    size = 1 - 2 * inset
    for block in range(view.num_blocks):
        column, row = grid.cell(block)
        state = block_state(snapshot, block)
        fill, line, ink = fills[state]
        mark = marks[block].kind if block in marks else None
        faded = bright is not None and block not in bright
        partial = state in ("owned", "shared") and view.fill[block] < view.block_size
        if partial:
            share = view.fill[block] / view.block_size
            gauges.add(column + inset, row + 1 - inset - 0.2, size * share, 0.2, fill, faded=faded)
            fill, ink = palette.card, palette.text
        cells.add(
            column + inset,
            row + inset,
            size,
            size,
            fill,
            line=line,
            line_width=2 if partial else 1,
            faded=faded,
            pattern="x" if state == "null" else "",
            ref=block_ref(block),
            values=block_values(snapshot, block, owners, mark, lang),
        )
        if mark is not None:
            rings.add(column + 0.01, row + 0.01, 0.98, 0.98, CLEAR, line=ring_color(mark, palette), line_width=2.5)
        glyph = GLYPHS[mark] if mark is not None else ""
        shared = str(view.ref_count[block]) if view.ref_count[block] >= 2 else ""
        if with_ids:
            if faded:
                ink = palette.muted
            middle = row + (0.42 if partial else 0.5)
            ids.add(column + (0.24 if glyph or shared else 0.5), middle, "∅" if block == 0 else str(block), ink)
            if glyph or shared:
                counts.add(column + 0.66, middle, glyph + (f"×{shared}" if shared else ""), ink)
        elif block in printed:
            counts.add(column + 0.5, row + 0.45, glyph + shared, palette.text if faded else ink)


def _draw_runs(
    snapshot: Snapshot,
    marks: Marks,
    bright: frozenset[int] | None,
    grid: _Grid,
    palette: Palette,
    lang: Lang,
    into: tuple[Rects, Rects, Texts],
) -> None:
    """Neighbours in the same state become one rectangle: thousands of blocks stay a few hundred marks."""
    rings, cells, counts = into
    view = snapshot.pool
    fills = _fills(palette)
    first = 0
    looks = [
        (block_state(snapshot, block), bright is not None and block not in bright) for block in range(view.num_blocks)
    ]
    for block in range(view.num_blocks):
        following = block + 1
        if following < view.num_blocks and looks[following] == looks[first] and following % grid.columns:
            continue
        state, faded = looks[first]
        fill, line, _ = fills[state]
        column, row = grid.cell(first)
        length = following - first
        key = "hover.run.one" if length == 1 else "hover.run.many"
        hover = t(key, lang, first=first, last=block, n=length, state=t(f"state.{state}", lang))
        ref = block_ref(first) if length == 1 else ""
        cells.add(column + 0.06, row + 0.06, length - 0.12, 0.88, fill, line=line, faded=faded, ref=ref, hover=hover)
        first = following
    for block, mark in marks.items():
        column, row = grid.cell(block)
        rings.add(column, row, 1, 1, CLEAR, line=ring_color(mark.kind, palette), line_width=2)
        if len(marks) <= COUNTS_SHOWN:
            counts.add(column + 0.5, row + 0.5, GLYPHS[mark.kind], palette.text)

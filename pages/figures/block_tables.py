"""Block tables: a row a request, its logical blocks in order, each chip naming the physical block that holds it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from engine.request import RequestStatus
from engine.snapshot import RequestView, Snapshot
from pages.figures.marks import GLYPHS, MarkKind, Marks, Selection, selected_blocks, selected_requests
from pages.figures.pool import block_template, block_values, ring_color
from pages.figures.primitives import (
    CLEAR,
    Figure,
    Rects,
    Texts,
    block_ref,
    escape,
    gutter,
    hidden_axis,
    layout,
    request_ref,
    slots,
)
from pages.ui.text import Lang, t
from pages.ui.theme import Palette

MAX_ROWS = 16
EASY_ROWS = 12  # past this, requests that are over give way to live ones
MAX_COLUMNS = 16
MIN_COLUMNS = 8
NAME_CHARACTERS = 10

Naming = Literal["all", "once", "news"]

IDS_SHOWN = 84  # texts are what costs drawing time

_RANK = {
    RequestStatus.RUNNING: 0,
    RequestStatus.PREEMPTED: 1,
    RequestStatus.WAITING: 2,
    RequestStatus.FINISHED: 3,
    RequestStatus.ABORTED: 3,
}


def relevant(snapshot: Snapshot, selection: Selection | None, limit: int) -> tuple[list[RequestView], int]:
    """The requests worth a row, in order of arrival, and how many are left out.

    Past the limit, requests that are over go first, then those at the end of the waiting queue.
    """
    views = list(snapshot.requests)
    if len(views) <= limit:
        return views, 0
    chosen = selection.id if selection is not None and selection.kind == "request" else None
    last_over = {id(view): -place for place, view in enumerate(views) if view.status.is_over}
    order = sorted(views, key=lambda view: (view.id != chosen, _RANK[view.status], last_over.get(id(view), 0)))
    kept = {view.id for view in order[:limit]}
    return [view for view in views if view.id in kept], len(views) - limit


def table_rows(snapshot: Snapshot, selection: Selection | None, palette: Palette) -> tuple[list[RequestView], int]:
    """The requests that have a row in the figure, top down, and how many are left out."""
    live = sum(1 for view in snapshot.requests if not view.status.is_over)
    return relevant(snapshot, selection, palette.fits(palette.fits(max(EASY_ROWS, min(MAX_ROWS, live)))))


def row_count(shown: int, limit: int) -> int:
    """Rows are reserved in steps so that one arrival does not rescale the figure."""
    return min(limit, next((rows for rows in (4, 6, 8, 12) if shown <= rows), limit))


def short(name: str, limit: int = NAME_CHARACTERS) -> str:
    return name if len(name) <= limit else name[: limit - 1] + "…"


def column_count(views: Sequence[RequestView], block_size: int) -> int:
    """As many as the longest request can come to need, so that the scale holds for the whole run."""
    longest = max((view.prompt_tokens + view.max_tokens - 1 for view in views), default=0)
    return max(MIN_COLUMNS, min(MAX_COLUMNS, -(-longest // block_size)))


def _naming(views: Sequence[RequestView], columns: int) -> Naming:
    """How many ids are printed: all, each once, or only the last of each table and what just changed."""
    if sum(min(len(view.block_table), columns) for view in views) <= IDS_SHOWN:
        return "all"
    distinct = len({block for view in views for block in view.block_table})
    return "once" if distinct <= IDS_SHOWN else "news"


def visible_positions(length: int, columns: int) -> list[int | None]:
    """Positions to draw; None is the gap that stands for the middle."""
    if length <= columns:
        return list(range(length))
    head = columns // 3
    tail = columns - head - 1
    return [*range(head), None, *range(length - tail, length)]


def block_tables(snapshot: Snapshot, marks: Marks, selection: Selection | None, palette: Palette, lang: Lang) -> Figure:
    """Traces, in this order: rings, chips, fill gauges, block ids, names, words."""
    views, hidden = table_rows(snapshot, selection, palette)
    rows = row_count(len(views) + (hidden > 0), palette.fits(palette.fits(MAX_ROWS)) + 1)
    columns = column_count(snapshot.requests, snapshot.pool.block_size)
    naming = _naming(views, columns)
    named: set[int] = set()
    owners = snapshot.owners()
    bright_blocks = selected_blocks(selection, snapshot)
    bright_requests = selected_requests(selection, owners)
    large = rows <= 8
    rings, chips, gauges = Rects("rings", radius=5), Rects("chips", radius=4), Rects("gauges", radius=2)
    ids = Texts("ids", palette.px(14 if large and columns <= 12 else 12.5), palette.mono)
    names = Texts("names", palette.px(14 if large else 12.5), palette.sans, "middle left")
    words = Texts("words", palette.px(13.5 if large else 12.5), palette.sans, "middle right")
    pool = snapshot.pool
    heading = t("hover.table", lang, **slots(0, "id", "position", "block"))
    template = f"{heading}<br>{block_template(snapshot, lang, first=2)}"

    for row, view in enumerate(views):
        faded_row = bright_requests is not None and view.id not in bright_requests
        selected = selection is not None and selection.kind == "request" and selection.id == view.id
        name = f"▸ {short(view.id)}" if selected else short(view.id)
        names.add(
            -0.02 * columns, row + 0.5, name, palette.muted if faded_row else palette.text, ref=request_ref(view.id)
        )
        _words(view, row, palette, lang, words)
        for column, position in enumerate(visible_positions(len(view.block_table), columns)):
            if position is None:
                left_out = len(view.block_table) - columns + 1
                ids.add(column + 0.5, row + 0.5, f"+{left_out}", palette.muted)
                continue
            block = view.block_table[position]
            shared = pool.ref_count[block] >= 2
            fill = palette.shared if shared else palette.used
            ink = palette.on_shared if shared else palette.on_used
            line = fill
            faded = bright_blocks is not None and block not in bright_blocks
            partial = pool.fill[block] < pool.block_size
            if partial:
                share = pool.fill[block] / pool.block_size
                gauges.add(column + 0.06, row + 0.7, 0.88 * share, 0.16, fill, faded=faded)
                fill, ink = palette.card, palette.text
            # The others that share the block had it before; only who got it now is marked.
            mark = marks[block].kind if block in marks and view.id in marks[block].requests else None
            chips.add(
                column + 0.06,
                row + 0.14,
                0.88,
                0.72,
                fill,
                line=line,
                line_width=2 if partial else 1,
                faded=faded,
                ref=block_ref(block),
                values=(escape(view.id), position, *block_values(snapshot, block, owners, mark, lang)),
            )
            if mark is not None:
                rings.add(column + 0.01, row + 0.06, 0.98, 0.88, CLEAR, line=ring_color(mark, palette), line_width=2.5)
            if naming == "news" and mark in (None, "hit") and position != len(view.block_table) - 1:
                continue
            if naming == "once" and block in named:
                continue
            named.add(block)
            label = _label(block, mark, columns)
            ids.add(column + 0.5, row + (0.44 if partial else 0.5), label, palette.muted if faded else ink)
    if not views:
        words.add(0, 0.5, t("table.empty", lang), palette.muted)
    if hidden:
        words.add(0, len(views) + 0.5, t("figure.more_requests", lang, n=hidden), palette.muted)
    widest = max((len(short(view.id)) for view in views), default=2)
    return {
        "data": [
            rings.trace(),
            chips.trace(template=template),
            gauges.trace(),
            ids.trace(),
            names.trace(),
            words.trace(),
        ],
        "layout": layout(
            palette,
            hidden_axis(-gutter(columns, max(2, widest) + 2), columns),
            hidden_axis(rows, 0),
            (4, 10, 2, 6),
        ),
    }


def _label(block: int, mark: MarkKind | None, columns: int) -> str:
    """The id, led by the mark's glyph where a chip is wide enough for both."""
    label = f"{GLYPHS[mark]}{block}" if mark is not None else str(block)
    return label if columns <= 12 or len(label) <= 3 else str(block)


def _words(view: RequestView, row: int, palette: Palette, lang: Lang, words: Texts) -> None:
    if view.block_table:
        return
    key = f"status.{view.status.value.lower()}"
    color = palette.preempted if view.status is RequestStatus.PREEMPTED else palette.muted
    words.add(0.02, row + 0.5, t(key, lang), color, ref=request_ref(view.id))

"""The free queue as the linked list it is: handed out at the head, given back at either end."""

from __future__ import annotations

from engine.snapshot import Snapshot
from pages.figures.marks import Marks, Selection, block_state, selected_blocks
from pages.figures.pool import ring_color
from pages.figures.primitives import (
    CLEAR,
    Figure,
    Rects,
    Texts,
    Trace,
    block_ref,
    hidden_axis,
    layout,
    slots,
)
from pages.ui.text import Lang, t
from pages.ui.theme import Palette

COLUMNS = 8
ROWS = 6
SMALL_COLUMNS = 6
SMALL_ROWS = 4
TAIL_SHOWN = 6


def free_queue(snapshot: Snapshot, marks: Marks, selection: Selection | None, palette: Palette, lang: Lang) -> Figure:
    """Traces, in this order: rings, chips, ids, arrows, end labels."""
    queue = snapshot.pool.free_queue
    small = snapshot.pool.num_blocks - 1 <= SMALL_COLUMNS * SMALL_ROWS - 2
    columns, rows = (SMALL_COLUMNS, SMALL_ROWS) if small else (COLUMNS, ROWS)
    items = _elided(list(queue), columns * rows - 2)
    template = t("hover.queue", lang, n=len(queue), **slots(0, "block", "place", "state"))
    bright = selected_blocks(selection, snapshot)
    rings, chips = Rects("rings", radius=5), Rects("chips", radius=4)
    ids = Texts("ids", palette.px(14 if small else 12.5), palette.mono)
    ends = Texts("ends", palette.px(12.5), palette.sans)
    arrow_x: list[float] = []
    arrow_y: list[float] = []

    ends.add(0.44, 0.5, t("figure.head", lang), palette.text)
    slot = 1
    for place, item in enumerate(items):
        row, column = divmod(slot, columns)
        arrow_x.append(column - 0.06)
        arrow_y.append(row + 0.5)
        slot += 1
        if isinstance(item, str):
            ids.add(column + 0.44, row + 0.5, item, palette.muted)
            continue
        cached = block_state(snapshot, item) == "cached"
        faded = bright is not None and item not in bright
        index = place if item == queue[place] else len(queue) - len(items) + place
        chips.add(
            column + 0.1,
            row + 0.18,
            0.7,
            0.64,
            palette.cached if cached else palette.free,
            line=palette.cached if cached else palette.free_line,
            faded=faded,
            ref=block_ref(item),
            values=(item, index + 1, t("state.cached" if cached else "state.empty", lang)),
        )
        ink = palette.on_cached if cached else palette.text
        ids.add(column + 0.45, row + 0.5, str(item), palette.muted if faded else ink)
        if place == 0 or item in marks:
            color = palette.new if place == 0 else ring_color(marks[item].kind, palette)
            rings.add(column + 0.04, row + 0.09, 0.82, 0.82, CLEAR, line=color, line_width=2 if place else 2.5)
    row, column = divmod(slot, columns)
    if items:
        arrow_x.append(column - 0.06)
        arrow_y.append(row + 0.5)
        ends.add(column + 0.44, row + 0.5, t("figure.tail", lang), palette.text)
    else:
        ends.add(column + 0.9, row + 0.5, t("figure.queue_empty", lang), palette.preempted)
    arrows: Trace = {
        "type": "scatter",
        "mode": "markers",
        "name": "arrows",
        "x": [round(x, 3) for x in arrow_x],
        "y": arrow_y,
        "marker": {"symbol": "triangle-right", "size": palette.px(7), "color": palette.muted},
        "hoverinfo": "skip",
        "cliponaxis": False,
    }
    return {
        "data": [rings.trace(), chips.trace(template=template), ids.trace(), arrows, ends.trace()],
        "layout": layout(palette, hidden_axis(-0.1, columns), hidden_axis(rows, 0), (8, 4, 2, 4)),
    }


def _elided(queue: list[int], room: int) -> list[int | str]:
    """The queue with its middle replaced by "+n" when it does not fit."""
    if len(queue) <= room:
        return list(queue)
    head = room - TAIL_SHOWN - 1
    return [*queue[:head], f"+{len(queue) - head - TAIL_SHOWN}", *queue[-TAIL_SHOWN:]]

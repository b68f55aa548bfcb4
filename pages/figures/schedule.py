"""The schedule over time: what each request did in each step, above it the step's tokens against the budget."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from engine.request import RequestStatus
from engine.snapshot import RequestView
from engine.timeline import Step
from pages.figures.block_tables import relevant, row_count, short
from pages.figures.marks import Selection, selected_requests
from pages.figures.primitives import (
    Figure,
    Rects,
    Texts,
    escape,
    hidden_axis,
    label_axis,
    layout,
    lines,
    request_ref,
)
from pages.ui.text import Lang, t
from pages.ui.theme import Palette

MAX_ROWS = 12
WINDOWS = (12, 24, 36)
LANES = 0.74  # share of the height that the lanes take; the token bars have the rest

Kind = Literal["prefill", "recompute", "decode", "preempted", "waiting"]
_PATTERN: dict[Kind, str] = {"recompute": "\\", "preempted": "/"}


@dataclass(frozen=True, slots=True)
class Cell:
    """A run of equal steps of one request; prefill and recompute are never merged, since each has its own count."""

    kind: Kind
    first: int
    last: int
    tokens: int


def kind_of(view: RequestView) -> Kind | None:
    """What the request did in the step of this view, or None if it is over."""
    if view.scheduled > 0:
        return view.work or "decode"
    if view.status is RequestStatus.PREEMPTED:
        return "preempted"
    if view.status is RequestStatus.WAITING:
        return "waiting"
    return None


def cells(history: Sequence[tuple[int, RequestView | None]]) -> Iterator[Cell]:
    """The lane of one request from its views, step by step."""
    run: Cell | None = None
    for index, view in history:
        kind = kind_of(view) if view is not None else None
        tokens = view.scheduled if view is not None else 0
        if run is not None and kind == run.kind and kind not in ("prefill", "recompute"):
            run = Cell(run.kind, run.first, index, run.tokens + tokens)
            continue
        if run is not None:
            yield run
        run = Cell(kind, index, index, tokens) if kind is not None else None
    if run is not None:
        yield run


def window(cursor: int, sizes: Sequence[int] = WINDOWS) -> tuple[int, int]:
    """First step shown and how many columns; the scale changes only when a wider window is needed.

    Right of the cursor there is room for the words at a lane's end, which is one of the narrowest window's columns.
    """
    columns = next((size for size in sizes if cursor < size - size // sizes[0]), sizes[-1])
    return max(0, cursor - columns + 1 + columns // sizes[0]), columns


def schedule(
    steps: Sequence[Step], cursor: int, budget: int, selection: Selection | None, palette: Palette, lang: Lang
) -> Figure:
    """Traces, in this order: lanes, token counts, token bars, their sums, budget line, time cursor, end marks."""
    # Twice: where the type is larger, the panel is narrower and lower too.
    sizes = [palette.fits(palette.fits(size)) for size in WINDOWS]
    lanes_end = 1 - (1 - LANES) * palette.scale
    first, columns = window(cursor, sizes)
    shown_steps = list(steps[first : cursor + 1])
    snapshot = shown_steps[-1].snapshot if shown_steps else None
    most = palette.fits(palette.fits(MAX_ROWS))
    views, hidden = relevant(snapshot, selection, most) if snapshot is not None else ([], 0)
    rows = row_count(len(views) + (hidden > 0), most + 1)
    fills: dict[Kind, str] = {
        "prefill": palette.used,
        "recompute": palette.used,
        "decode": palette.decode,
        "preempted": palette.preempted,
        "waiting": palette.free_line,
    }
    bright = selected_requests(selection, snapshot.owners()) if snapshot is not None else None
    lanes, counts = Rects("lanes", radius=3), Texts("counts", palette.px(12.5), palette.mono)
    marks = Texts("ends", palette.px(12.5), palette.sans, "middle right")
    by_step = [(step.index, {view.id: view for view in step.scheduled.requests}) for step in shown_steps]

    for row, request in enumerate(views):
        faded = bright is not None and request.id not in bright
        history = [(index, known.get(request.id)) for index, known in by_step]
        last = first
        for cell in cells(history):
            height = 0.18 if cell.kind == "waiting" else 0.68
            lanes.add(
                cell.first + 0.05,
                row + 0.5 - height / 2,
                cell.last - cell.first + 0.9,
                height,
                fills[cell.kind],
                faded=faded,
                pattern=_PATTERN.get(cell.kind, ""),
                ref=request_ref(request.id),
                hover=_sentence(request.id, cell, lang),
            )
            if cell.kind in ("prefill", "recompute"):
                ink = palette.muted if faded else palette.on_used
                counts.add(cell.first + 0.5, row + 0.5, str(cell.tokens), ink)
            last = cell.last + 1
        if request.status.is_over and last <= cursor + 1:
            key = "figure.aborted_mark" if request.status is RequestStatus.ABORTED else "figure.finished_mark"
            marks.add(last + 0.06, row + 0.5, t(key, lang), palette.muted)
    if hidden:
        marks.add(first, len(views) + 0.5, t("figure.more_requests", lang, n=hidden), palette.muted)

    bars, sums = Rects("tokens", radius=2), Texts("sums", palette.px(12.5), palette.mono, "top center")
    for step in shown_steps:
        total = sum(step.scheduled_tokens.values())
        now = step.index == cursor
        bars.add(
            step.index + 0.12,
            0,
            0.76,
            total,
            palette.accent if now else palette.muted,
            hover=t("hover.tokens", lang, step=step.index, tokens=total, budget=budget),
        )
        if columns < sizes[-1] or now:
            sums.add(step.index + 0.5, budget * 1.06, str(total), palette.text if now else palette.muted)
    edges: list[float | None] = [cursor, cursor, None, cursor + 1, cursor + 1] if shown_steps else []
    depth: list[float | None] = [0, rows, None, 0, rows] if shown_steps else []
    ticks = list(range(first, first + columns, (1, 2, 5)[sizes.index(columns)]))
    figure_layout = layout(
        palette,
        label_axis(
            first - 0.1,
            first + columns + 0.1,
            [tick + 0.5 for tick in ticks],
            [str(tick) for tick in ticks],
            palette.muted,
            palette.px(12.5),
            palette.sans,
        ),
        label_axis(
            rows,
            0,
            [row + 0.5 for row in range(len(views))],
            [short(view.id) for view in views],
            palette.text,
            palette.px(12.5),
            palette.sans,
        )
        | {"domain": [0, lanes_end]},
        (24 + 8 * max(4, max((len(short(view.id)) for view in views), default=0)), 10, 2, 22),
        yaxis2=hidden_axis(0, budget * 1.5 * palette.scale) | {"domain": [lanes_end + 0.03, 1], "anchor": "x"},
    )
    figure_layout["yaxis2"] |= {
        "visible": True,
        "ticks": "",
        "tickvals": [budget],
        "ticktext": [str(budget)],
        "tickfont": {"size": palette.px(12.5), "color": palette.evicted, "family": palette.mono},
    }
    return {
        "data": [
            lanes.trace(palette.card),
            counts.trace(),
            bars.trace(yaxis="y2"),
            sums.trace(yaxis="y2"),
            lines(
                "budget",
                [first, first + columns],
                [budget, budget],
                palette.evicted,
                width=1.3,
                dash="dash",
                yaxis="y2",
            ),
            lines("cursor", edges, depth, palette.accent, width=1.2, dash="dot"),
            marks.trace(),
        ],
        "layout": figure_layout,
    }


def _sentence(request_id: str, cell: Cell, lang: Lang) -> str:
    key = "hover.lane.one" if cell.first == cell.last else "hover.lane.many"
    work = t(f"work.{cell.kind}", lang)
    return t(key, lang, id=escape(request_id), first=cell.first, last=cell.last, work=work, tokens=cell.tokens)

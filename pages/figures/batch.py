"""One launch as the kernel gets it: the flat query tokens of the batch, and what each request's rows read and write."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from engine.snapshot import RequestView, Snapshot
from pages.figures.block_tables import row_count, short
from pages.figures.marks import Selection, selected_requests
from pages.figures.primitives import (
    Figure,
    Rects,
    Texts,
    escape,
    gutter,
    hidden_axis,
    label_axis,
    layout,
    lines,
    request_ref,
)
from pages.ui.text import Lang, t
from pages.ui.theme import Palette

MAX_ROWS = 12
RANGES_SHOWN = 2
STRIP = 0.8  # share of the height where the lanes end; above it lies the strip of query tokens
LABEL_SHARE = 0.04  # the numbers under the strip keep this distance
SLOT_CHARACTERS = 8  # room for the slots right of the lanes

Range = tuple[int, int]


@dataclass(frozen=True, slots=True)
class LaunchRow:
    """One request in the launch. `query_start` counts over the batch, `start` and `context` within the request.

    Query tokens stand for positions start..context-1; keys and values of 0..context-1 are read.
    """

    view: RequestView
    query_start: int
    start: int
    context: int

    @property
    def query_len(self) -> int:
        return self.context - self.start


def launch_rows(in_flight: Snapshot, batch: Sequence[str]) -> list[LaunchRow]:
    """The rows of the step's launch in batch order; `in_flight` is the picture while the kernels run."""
    views = {view.id: view for view in in_flight.requests}
    rows = []
    query_start = 0
    for view in (views[request_id] for request_id in batch):
        rows.append(LaunchRow(view, query_start, view.computed_tokens - view.scheduled, view.computed_tokens))
        query_start += view.scheduled
    return rows


def slot_ranges(row: LaunchRow, block_size: int) -> Iterator[Range]:
    """The slot mapping of a row as runs: a slot is physical block · block size + offset, a run's end included."""
    first = last = None
    for position in range(row.start, row.context):
        slot = row.view.block_table[position // block_size] * block_size + position % block_size
        if last is not None and slot == last + 1:
            last = slot
            continue
        if first is not None and last is not None:
            yield first, last
        first = last = slot
    if first is not None and last is not None:
        yield first, last


def batch(
    in_flight: Snapshot, order: Sequence[str], selection: Selection | None, palette: Palette, lang: Lang
) -> Figure:
    """Traces, in this order: contexts, queries, words, block edges, query tokens, their numbers."""
    rows = launch_rows(in_flight, order)
    most = palette.fits(MAX_ROWS)
    shown = rows[:most]
    height = row_count(len(shown) + (len(rows) > most), most + 1)
    size = in_flight.pool.block_size
    longest = max((row.context for row in shown), default=1)
    width = -(-longest // size) * size
    total = max(1, sum(row.query_len for row in rows))
    bright = selected_requests(selection, in_flight.owners())
    contexts, queries = Rects("contexts", radius=2), Rects("queries", radius=2)
    words = Texts("words", palette.px(12.5), palette.mono, "middle right")
    strip, numbers = Rects("query tokens", radius=2), Texts("numbers", palette.px(12.5), palette.mono)
    for place, row in enumerate(shown):
        faded = bright is not None and row.view.id not in bright
        sentence = _sentence(row, size, lang)
        ref = request_ref(row.view.id)
        contexts.add(0, place + 0.2, row.start, 0.34, palette.cached, faded=faded, ref=ref, hover=sentence)
        fill, pattern = _fill(row.view, palette)
        queries.add(
            row.start, place + 0.12, row.query_len, 0.5, fill, faded=faded, pattern=pattern, ref=ref, hover=sentence
        )
        words.add(width * 1.01, place + 0.37, "→ " + _slots(row, size), palette.muted, ref=ref)
    if len(rows) > most:
        words.add(width * 1.01, len(shown) + 0.5, t("figure.more_requests", lang, n=len(rows) - most), palette.muted)
    for row in rows:
        faded = bright is not None and row.view.id not in bright
        left, share = row.query_start / total, row.query_len / total
        fill, pattern = _fill(row.view, palette)
        hover, ref = _sentence(row, size, lang), request_ref(row.view.id)
        strip.add(
            left * width, 0.1, share * width, 0.5, fill, line=palette.card, faded=faded, pattern=pattern, ref=ref,
            hover=hover,
        )  # fmt: skip
    for start in _spaced([*(row.query_start for row in rows), total] if rows else [], total * LABEL_SHARE):
        numbers.add(start / total * width, 0.84, str(start), palette.muted)
    edges: list[float | None] = [edge for start in range(0, width + 1, size) for edge in (start, start, None)]
    depth: list[float | None] = [y for _ in range(0, width + 1, size) for y in (0, height, None)]
    few = width // size <= 16
    return {
        "data": [
            contexts.trace(),
            queries.trace(palette.card),
            words.trace(),
            lines("block edges", edges if few else [], depth if few else [], palette.line, width=1),
            strip.trace(palette.card, yaxis="y2"),
            numbers.trace(yaxis="y2"),
        ],
        "layout": layout(
            palette,
            hidden_axis(-0.01 * width, width * 1.01 + gutter(width, SLOT_CHARACTERS)),
            label_axis(
                height,
                0,
                [place + 0.37 for place in range(len(shown))],
                [short(row.view.id) for row in shown],
                palette.text,
                palette.px(12.5),
                palette.sans,
            )
            | {"domain": [0, STRIP]},
            (24 + 8 * max(4, max((len(short(row.view.id)) for row in shown), default=0)), 10, 2, 6),
            yaxis2=label_axis(1, 0, [0.35], [t("figure.queries", lang)], palette.muted, palette.px(12.5), palette.sans)
            | {"domain": [STRIP + 0.02, 1], "anchor": "x"},
        ),
    }


def batch_alt(in_flight: Snapshot, order: Sequence[str], lang: Lang) -> str:
    """The launch in words, for those who do not see the diagram."""
    rows = [
        t("alt.batch_row", lang, id=row.view.id, query=row.query_len, context=row.context)
        for row in launch_rows(in_flight, order)[:MAX_ROWS]
    ]
    return t("alt.batch", lang, n=len(order), rows=" ".join(rows)) if rows else t("alt.batch_empty", lang)


def _fill(view: RequestView, palette: Palette) -> tuple[str, str]:
    """Colour and hatch of a row's query, as in the schedule."""
    return palette.decode if view.work == "decode" else palette.used, "\\" if view.work == "recompute" else ""


def _sentence(row: LaunchRow, block_size: int, lang: Lang) -> str:
    return t(
        "hover.batch",
        lang,
        id=escape(row.view.id),
        first=row.query_start,
        last=row.query_start + row.query_len - 1,
        start=row.start,
        end=row.context - 1,
        context=row.context,
        slots=_slots(row, block_size),
    )


def _slots(row: LaunchRow, block_size: int) -> str:
    runs = [f"{first}–{last}" if last > first else str(first) for first, last in slot_ranges(row, block_size)]
    more = [f"+{len(runs) - RANGES_SHOWN}"] if len(runs) > RANGES_SHOWN else []
    return " ".join([*runs[:RANGES_SHOWN], *more])


def _spaced(values: Sequence[int], distance: float) -> Iterator[int]:
    """Ascending values, without those too close to the one before; the last is always among them."""
    kept: list[int] = []
    for value in reversed(values):
        if not kept or kept[-1] - value >= distance:
            kept.append(value)
    yield from reversed(kept)

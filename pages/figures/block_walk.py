"""One program's walk along the block table, a picture a block: what is read, m and l, and the output so far."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from kernels.recorder import Visit
from pages.figures.primitives import Figure, Rects, Texts, block_ref, hidden_axis, layout
from pages.ui.text import Lang, t
from pages.ui.theme import Palette, blend

WINDOW = 12  # blocks shown at once, in type of the usual size
SHADES = 6  # of a number, each way
TABLE_TOP, ROWS_TOP = 0.0, 3.0  # of the two parts of the picture
LABELS = 2.3  # columns left of the blocks
COLUMNS = (0.09, 0.23, 0.36, 0.45)  # where m, l, their share and the output begin, of the width


@dataclass(frozen=True, slots=True)
class Walk:
    """One program's `visits` in order; `rows` of it are shown, named by `labels` (a query head of one token)."""

    visits: tuple[Visit, ...]
    rows: tuple[int, ...]
    labels: tuple[str, ...]
    block_size: int


def block_walk(walk: Walk, at: int, palette: Palette, lang: Lang) -> Figure:
    """After the visit number `at`. Traces, in this order: blocks, block words, output, words, numbers."""
    blocks, block_words = Rects("blocks", radius=4), Texts("block words", palette.px(14), palette.mono)
    output, words = Rects("output", radius=0), Texts("words", palette.px(13), palette.sans, "middle right")
    numbers = Texts("numbers", palette.px(14), palette.mono, "middle right")
    _table(walk, at, blocks, block_words, words, palette, lang)
    _state(walk, at, output, words, numbers, palette, lang)
    height = ROWS_TOP + 0.9 + max(1, len(walk.rows))
    return {
        "data": [blocks.trace(palette.card), block_words.trace(), output.trace(), words.trace(), numbers.trace()],
        "layout": layout(palette, hidden_axis(0, _width(palette)), hidden_axis(height, 0), (6, 6, 2, 4)),
    }


def walk_alt(walk: Walk, at: int, lang: Lang) -> str:
    """The same in words, for a screen reader."""
    visit = walk.visits[at]
    said = t(
        "alt.walk", lang, at=at + 1, of=len(walk.visits), logical=visit.logical_block, physical=visit.physical_block,
        lanes=visit.lanes,
    )  # fmt: skip
    heads = [
        f"{label}: m = {_number(m)}, l = {_number(total)}"
        for label, m, total in zip(walk.labels, *_numbers(walk, visit), strict=True)
    ]
    return " ".join([said, "; ".join(heads)])


def _width(palette: Palette) -> int | float:
    return LABELS + palette.fits(WINDOW)


def _table(walk: Walk, at: int, blocks: Rects, words: Texts, labels: Texts, palette: Palette, lang: Lang) -> None:
    window = palette.fits(WINDOW)
    first = max(0, min(at - window // 2, len(walk.visits) - window))
    labels.add(0, TABLE_TOP + 0.5, t("figure.logical", lang), palette.muted)
    labels.add(0, TABLE_TOP + 1.5, t("figure.physical", lang), palette.muted)
    labels.add(0, TABLE_TOP + 2.45, t("figure.slots_read", lang), palette.muted)
    for place, visit in enumerate(walk.visits[first : first + window]):
        now, done = first + place == at, first + place < at
        fill = palette.used if now else palette.cached if done else palette.free
        ink = palette.on_used if now else palette.on_cached if done else palette.muted
        left = LABELS + place
        words.add(
            left + 0.5,
            TABLE_TOP + 0.5,
            f"▼{visit.logical_block}" if now else str(visit.logical_block),
            _ink(now, palette),
        )
        blocks.add(
            left + 0.06, TABLE_TOP + 1.02, 0.88, 0.96, fill, line=palette.new if now else palette.free_line,
            line_width=3 if now else 1, ref=block_ref(visit.physical_block),
            hover=t("hover.visit", lang, logical=visit.logical_block, physical=visit.physical_block,
                    lanes=visit.lanes, size=walk.block_size),
        )  # fmt: skip
        words.add(left + 0.5, TABLE_TOP + 1.5, f"#{visit.physical_block}", ink)
        words.add(left + 0.5, TABLE_TOP + 2.45, f"{visit.lanes}/{walk.block_size}", palette.muted)


def _ink(now: bool, palette: Palette) -> str:
    return palette.text if now else palette.muted


def _state(walk: Walk, at: int, output: Rects, words: Texts, numbers: Texts, palette: Palette, lang: Lang) -> None:
    visit, last = walk.visits[at], walk.visits[-1]
    maxima, totals = _numbers(walk, visit)
    final = _partial(walk, last)
    largest = float(np.abs(final).max()) or 1.0
    head, width = ROWS_TOP + 0.4, _width(palette)
    columns = [share * width for share in COLUMNS]
    for x, key in zip(columns, ("running_max", "running_sum", "share", "output_so_far"), strict=True):
        words.add(x, head, t(f"figure.{key}", lang), palette.muted)
    for place, label in enumerate(walk.labels):
        middle = ROWS_TOP + 1.3 + place
        said = (_number(maxima[place]), _number(totals[place]), f"{_seen(walk, visit, place):.0%}")
        for x, text in zip((0, *columns), (label, *said), strict=False):
            numbers.add(x, middle, text, palette.text)
        row = _partial(walk, visit)[place].tolist()
        step = (width - columns[-1]) / len(row)
        for index, value in enumerate(row):
            output.add(
                columns[-1] + index * step, middle - 0.36, step, 0.72, shade(value / largest, palette),
                line_width=0, hover=t("hover.output", lang, dim=index, value=f"{value:+.4f}",
                                      final=f"{float(final[place, index]):+.4f}"),
            )  # fmt: skip


def _numbers(walk: Walk, visit: Visit) -> tuple[list[float], list[float]]:
    assert visit.running_max is not None and visit.running_sum is not None
    rows = list(walk.rows)
    return visit.running_max[rows].tolist(), visit.running_sum[rows].tolist()


def _partial(walk: Walk, visit: Visit) -> NDArray[np.float32]:
    assert visit.partial is not None
    return visit.partial[list(walk.rows)]


def _seen(walk: Walk, visit: Visit, place: int) -> float:
    """Share of the whole walk's sum of exponentials that the blocks so far have."""
    (m, total), (m_end, total_end) = (
        (numbers[0][place], numbers[1][place]) for numbers in (_numbers(walk, visit), _numbers(walk, walk.visits[-1]))
    )
    return float(np.exp(m - m_end) * total / total_end) if total_end > 0 else 0.0


def _number(value: float) -> str:
    return "−∞" if value == -np.inf else f"{value:.3f}" if abs(value) < 100 else f"{value:.1f}"


def shade(share: float, palette: Palette) -> str:
    """A number from -1 to 1: orange below zero, blue above, the card's colour at zero."""
    step = round(min(1.0, abs(share)) * SHADES) / SHADES
    return blend(palette.card, palette.used if share > 0 else palette.evicted, step)

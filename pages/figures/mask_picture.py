"""A mask as a picture: a line for each query token, the positions it may see filled."""

from __future__ import annotations

from torch import Tensor

from pages.figures.primitives import Figure, Rects, label_axis, layout, lines
from pages.ui.text import Lang, t
from pages.ui.theme import Palette

MAX_ROWS = 24


def mask_picture(
    visible: Tensor, first_token: int, start: int, context: int, block_size: int, palette: Palette, lang: Lang
) -> Figure:
    """Traces, in this order: hidden, visible, block edges, the line between context and this step's tokens.

    visible: bool [tokens, positions]; the picture's tokens are the batch's from `first_token` on, its positions those
    from `start` on, and positions from `context` on are this step's.
    """
    tokens, positions = min(visible.shape[0], MAX_ROWS), visible.shape[1]
    hidden, seen = Rects("hidden", radius=0), Rects("visible", radius=1)
    for row in range(tokens):
        hidden.add(start, row + 0.08, positions, 0.84, palette.free, pattern="/", line_width=0)
        for low, high in runs(visible[row].tolist()):
            text = t("hover.mask", lang, token=first_token + row, low=start + low, high=start + high - 1)
            new = max(low, min(high, context - start))
            for left, right, fill in ((low, new, palette.cached), (new, high, palette.used)):
                if left < right:
                    seen.add(start + left, row + 0.08, right - left, 0.84, fill, line_width=0, hover=text)
    stop = start + positions
    first_edge = -(-start // block_size) * block_size
    edges: list[float | None] = [x for edge in range(first_edge, stop + 1, block_size) for x in (edge, edge, None)]
    depth: list[float | None] = [y for _ in range(first_edge, stop + 1, block_size) for y in (0, tokens, None)]
    every = max(block_size, -(-positions // 8 // block_size) * block_size)
    ticks = list(range(first_edge, stop, every))
    rows = sorted({0, tokens // 2, tokens - 1})
    return {
        "data": [
            hidden.trace(palette.free_line),
            seen.trace(),
            lines("edges", edges, depth, palette.line, width=1),
            lines("context", [context, context], [0, tokens], palette.text, width=2, dash="dot"),
        ],
        "layout": layout(
            palette,
            label_axis(start, stop, ticks, list(map(str, ticks)), palette.muted, palette.px(12.5), palette.mono),
            label_axis(
                tokens, 0, [row + 0.5 for row in rows], [f"q{first_token + row}" for row in rows], palette.muted,
                palette.px(12.5), palette.mono,
            ),
            (44, 10, 4, 22),
        ),
    }  # fmt: skip


def runs(values: list[bool]) -> list[tuple[int, int]]:
    """Stretches of True as (start, end)."""
    found: list[tuple[int, int]] = []
    for index, value in enumerate(values):
        if not value:
            continue
        if found and found[-1][1] == index:
            found[-1] = (found[-1][0], index + 1)
        else:
            found.append((index, index + 1))
    return found

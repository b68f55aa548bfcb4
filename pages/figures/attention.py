"""Where the selected request's last token looked: attention mass, heads by blocks of its table."""

from __future__ import annotations

import math

from engine.timeline import KernelRow
from pages.figures.block_tables import short
from pages.figures.primitives import Figure, Rects, Texts, block_ref, escape, label_axis, layout, slots
from pages.ui.text import Lang, t
from pages.ui.theme import Palette, blend

MAX_COLUMNS = 16
SINK_SHOWN = 4
SHADES = 8


def shades(palette: Palette) -> list[str]:
    """From nothing to everything in `SHADES` steps; the eye tells steps apart better than a ramp."""
    middle = round((SHADES - 1) * 0.7)
    return [
        blend(palette.free, palette.used, step / middle)
        if step <= middle
        else blend(palette.used, palette.text, (step - middle) / (SHADES - 1 - middle))
        for step in range(SHADES)
    ]


def shade_of(mass: float) -> int:
    """Index of the shade of a mass in 0..1; the square root keeps small shares visible."""
    return min(SHADES - 1, round(math.sqrt(min(1.0, max(0.0, mass))) * (SHADES - 1)))


def attention(row: KernelRow | None, palette: Palette, lang: Lang) -> Figure:
    """Traces, in this order: cells, gap marks."""
    cells, gaps = Rects("cells", radius=2), Texts("gaps", palette.px(12.5), palette.mono)
    blocks: tuple[int, ...] = ()
    heads = 0
    if row is not None:
        # A block of the table that this step does not read yet has no column of mass.
        blocks = row.block_table[: row.attention_mass.shape[1]]
        heads = row.attention_mass.shape[0]
    positions = _visible(len(blocks))
    colors = shades(palette)
    places = slots(0, "head", "position", "block", "percent")
    template = t("hover.attention", lang, id=escape(row.request) if row is not None else "", **places)
    if row is not None:
        mass = row.attention_mass.tolist()
        for column, position in enumerate(positions):
            if position is None:
                gaps.add(column + 0.5, heads / 2, "…", palette.muted)
                continue
            block = blocks[position]
            for head in range(heads):
                share = mass[head][position]
                cells.add(
                    column + 0.03,
                    head + 0.05,
                    0.94,
                    0.9,
                    colors[shade_of(share)],
                    ref=block_ref(block),
                    values=(head, position, block, f"{share * 100:.1f}"),
                )
    every = 1 if len(positions) <= 8 else 2 if len(positions) <= 12 else 3
    ticks = [
        (column + 0.5, f"#{blocks[position]}")
        for column, position in enumerate(positions)
        if position is not None and (column % every == 0)
    ]
    head_ticks = sorted({0, heads // 2, heads - 1}) if heads else []
    return {
        "data": [cells.trace(template=template), gaps.trace()],
        "layout": layout(
            palette,
            label_axis(
                0,
                max(len(positions), 4),
                [value for value, _ in ticks],
                [label for _, label in ticks],
                palette.muted,
                palette.px(12.5),
                palette.mono,
            ),
            label_axis(
                max(heads, 1),
                0,
                [head + 0.5 for head in head_ticks],
                [f"h{head}" for head in head_ticks],
                palette.muted,
                palette.px(12.5),
                palette.mono,
            ),
            (30, 6, 2, 20),
        ),
    }


def attention_alt(row: KernelRow | None, lang: Lang) -> str:
    """The diagram in one sentence: which block most of the attention went to, over all heads."""
    if row is None or row.attention_mass.size == 0:
        return t("alt.attention_none", lang)
    mean = row.attention_mass.mean(axis=0)
    top = int(mean.argmax())
    return t(
        "alt.attention",
        lang,
        id=short(row.request),
        heads=row.attention_mass.shape[0],
        n=row.attention_mass.shape[1],
        block=row.block_table[top],
        percent=f"{float(mean[top]) * 100:.0f}",
    )


def _visible(count: int) -> list[int | None]:
    """Columns drawn: the first blocks (attention sinks) and the latest; None is the gap between."""
    if count <= MAX_COLUMNS:
        return list(range(count))
    tail = MAX_COLUMNS - SINK_SHOWN - 1
    return [*range(SINK_SHOWN), None, *range(count - tail, count)]

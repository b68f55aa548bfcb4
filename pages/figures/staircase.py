"""The hit staircase: how much of a prompt a hash cache can give at most, and what each lookup got."""

from __future__ import annotations

from collections.abc import Sequence

from engine.events import PrefixLookup
from engine.timeline import Step
from pages.figures.primitives import Figure, escape, label_axis, layout, lines
from pages.ui.text import Lang, t
from pages.ui.theme import Palette

MIN_LENGTH = 32


def usable_hit(length: int, block_size: int) -> int:
    """Full blocks of a prompt with one token left to compute (vLLM 0.33 `get_computed_blocks`)."""
    return (length - 1) // block_size * block_size


def first_lookups(steps: Sequence[Step]) -> list[PrefixLookup]:
    """For each request the lookup that admitted it at first; those after a preemption are left out."""
    found: dict[str, PrefixLookup] = {}
    for step in steps:
        for event in step.events:
            if isinstance(event, PrefixLookup) and not event.resumed:
                found[event.request] = event
    return list(found.values())


def staircase(lookups: Sequence[PrefixLookup], block_size: int, palette: Palette, lang: Lang) -> Figure:
    """Traces, in this order: all of the prompt, the stairs, what lookups found."""
    longest = max(MIN_LENGTH, *(lookup.tokens for lookup in lookups)) if lookups else MIN_LENGTH
    longest = -(-longest // block_size) * block_size + 2
    xs: list[float] = []
    ys: list[float] = []
    for low in range(0, longest, block_size):
        xs += [low + 1, min(low + block_size + 1, longest)]
        ys += [usable_hit(low + 1, block_size)] * 2
    ticks = list(range(0, longest, max(block_size, -(-longest // 8 // block_size) * block_size)))
    dots = {
        "type": "scatter",
        "mode": "markers",
        "name": "lookups",
        "x": [lookup.tokens for lookup in lookups],
        "y": [lookup.hit_tokens for lookup in lookups],
        "marker": {"size": 10, "color": palette.hit, "line": {"color": palette.card, "width": 1.5}},
        "hovertext": [
            t("hover.stairs", lang, id=escape(lookup.request), tokens=lookup.tokens, hit=lookup.hit_tokens,
              limit=lookup.limit)
            for lookup in lookups
        ],
        "hovertemplate": "%{hovertext}<extra></extra>",
        "cliponaxis": False,
    }  # fmt: skip
    labels = [str(tick) for tick in ticks[:-1]] + [t("figure.tokens", lang, n=ticks[-1])]
    return {
        "data": [
            lines("prompt", [0, longest], [0, longest], palette.free_line, width=1, dash="dot"),
            lines("stairs", xs, ys, palette.used, width=2.5),
            dots,
        ],
        "layout": layout(
            palette,
            label_axis(0, longest * 1.02, ticks, labels, palette.muted, palette.px(12.5), palette.sans),
            label_axis(
                -longest * 0.03, longest, ticks, list(map(str, ticks)), palette.muted, palette.px(12.5), palette.sans
            ),
            (40, 24, 6, 22),
        ),
    }

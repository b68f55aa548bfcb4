"""Memory over time: every slot of the pool by what it is good for, a stacked bar a step."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, get_args

from engine.timeline import Step
from engine.usage import SlotUse, slot_use
from pages.figures.primitives import Figure, Rects, label_axis, layout
from pages.ui.text import Lang, t
from pages.ui.theme import Palette

MAX_BARS = 130  # past that a bar stands for several steps, and shows the first of them
Kind = Literal["written", "reserved", "internal", "external", "free"]
KINDS: tuple[Kind, ...] = get_args(Kind)
_PATTERN: dict[Kind, str] = {"reserved": "/", "internal": "x", "external": "\\"}
Bars = tuple[tuple[int, SlotUse], ...]


def uses(steps: Sequence[Step], contiguous: bool) -> Bars:
    """(step, its slots) of every step that computed something."""
    return tuple((step.index, slot_use(step, contiguous)) for step in steps if not step.is_idle)


def kind_color(kind: Kind, palette: Palette) -> str:
    return {
        "written": palette.used,
        "reserved": palette.decode,
        "internal": palette.shared,
        "external": palette.evicted,
        "free": palette.free,
    }[kind]


def slot_bars(bars: Bars, last: int, palette: Palette, lang: Lang) -> Figure:
    """A trace for each kind, from the bottom up. `last`: the step the axis reaches, so that two sides compare."""
    total = sum(getattr(bars[0][1], kind) for kind in KINDS) if bars else 1
    every = max(1, -(-len(bars) // MAX_BARS))
    rects = {kind: Rects(kind, radius=0) for kind in KINDS}
    for step, use in bars[::every]:
        low = 0
        for kind in KINDS:
            slots = getattr(use, kind)
            if slots:
                line = palette.free_line if kind == "free" else palette.card
                hover = t("hover.slots", lang, step=step, n=slots, total=total, kind=t(f"memory.{kind}", lang))
                rects[kind].add(
                    step + 0.04, low, every - 0.08, slots, kind_color(kind, palette), line=line, line_width=0.5,
                    pattern=_PATTERN.get(kind, ""), hover=hover,
                )  # fmt: skip
            low += slots
    width = last + every
    pace = next(pace for pace in (1, 2, 5, 10, 20, 50, 100, 200, 500, 10_000) if width <= 16 * pace)
    steps = list(range(0, last + 1, pace))
    return {
        "data": [rects[kind].trace(palette.card) for kind in KINDS],
        "layout": layout(
            palette,
            label_axis(
                -0.2, width + 0.2, [step + 0.5 for step in steps], list(map(str, steps)), palette.muted,
                palette.px(12.5), palette.sans,
            ),
            label_axis(
                0, total * 1.02, [0, total / 2, total],
                ["0", f"{total / 2:g}", t("figure.slots", lang, n=total)], palette.muted, palette.px(12.5),
                palette.sans,
            ),
            (74, 8, 6, 22),
        ),
    }  # fmt: skip


def slots_alt(bars: Bars, lang: Lang) -> str:
    """The diagram in one sentence."""
    if not bars:
        return t("memory.nothing", lang)
    return t("alt.slots", lang, steps=len(bars), **{kind: getattr(bars[-1][1], kind) for kind in KINDS})

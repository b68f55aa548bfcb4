"""A prompt as a ruler: what a cache matched of it, what of that is usable, and what was left to compute."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from pages.figures.primitives import Figure, Rects, Texts, escape, label_axis, layout, lines
from pages.ui.text import Lang, t
from pages.ui.theme import Palette

LABEL_PX = 8  # a character of the bars' labels at 12.5 px, a little room included
RULER_PX = 500  # width of the bars at 1280 px
TICKS = 8


@dataclass(frozen=True, slots=True)
class Ruler:
    """One cache's part of a prompt of `prompt` tokens; whole pages of `size` tokens are usable.

    The last token is not even looked up: it is computed in any case, since its output is what is sampled from.
    """

    label: str
    size: int
    prompt: int
    matched: int
    usable: int

    @property
    def computed(self) -> int:
        return self.prompt - self.usable


def match_ruler(rulers: Sequence[Ruler], palette: Palette, lang: Lang) -> Figure:
    """Traces, in this order: usable, matched but not usable, computed, last token, page edges (notches), labels."""
    longest = max((ruler.prompt for ruler in rulers), default=1)
    usable, lost, computed, last = (Rects(name, radius=3) for name in ("usable", "lost", "computed", "last"))
    labels = Texts("labels", palette.px(12.5), palette.sans)
    edge_x: list[float | None] = []
    edge_y: list[float | None] = []
    for row, ruler in enumerate(rulers):
        hover = t("hover.ruler", lang, name=escape(ruler.label), **_numbers(ruler))
        low = 0
        for rects, kind, length, fill, ink in (
            (usable, "usable", ruler.usable, palette.used, palette.on_used),
            (lost, "lost", ruler.matched - ruler.usable, palette.shared, palette.on_shared),
            (computed, "computed", ruler.prompt - 1 - ruler.matched, palette.free, palette.text),
            (last, "last", 1, palette.decode, palette.text),
        ):
            if length:
                outline = palette.muted if kind == "computed" else fill
                pattern = {"lost": "/", "last": "x"}.get(kind, "")
                rects.add(low, row + 0.14, length, 0.66, fill, line=outline, pattern=pattern, hover=hover)
                if kind != "last":
                    labels.add(low + length / 2, row + 0.47, _fitting(kind, length, longest, lang), ink)
            low += length
        for edge in range(ruler.size, ruler.prompt, ruler.size) if ruler.size > 1 else ():
            edge_x += [edge, edge, None]
            edge_y += [row + 0.72, row + 0.94, None]
    pace = next(pace for pace in (1, 2, 4, 8, 16, 32, 64, 128, 10**6) if longest <= TICKS * pace)
    ticks = list(range(0, longest - pace // 2, pace))
    names = [ruler.label for ruler in rulers]
    return {
        "data": [
            usable.trace(),
            lost.trace(palette.card),
            computed.trace(),
            last.trace(palette.card),
            lines("page edges", edge_x, edge_y, palette.text, width=1.4),
            labels.trace(),
        ],
        "layout": layout(
            palette,
            label_axis(
                -0.002 * longest, longest * 1.002, [*ticks, longest],
                [*map(str, ticks), t("figure.tokens", lang, n=longest)], palette.muted, palette.px(12.5), palette.sans,
            ),
            label_axis(
                len(rulers), 0, [row + 0.47 for row in range(len(rulers))], names, palette.text, palette.px(13),
                palette.sans,
            ),
            (16 + 8 * max((len(name) for name in names), default=4), 40, 2, 22),
        ),
    }  # fmt: skip


def ruler_alt(rulers: Sequence[Ruler], lang: Lang) -> str:
    """The diagram in words, a sentence a ruler."""
    return " ".join(t("alt.ruler", lang, name=ruler.label, **_numbers(ruler)) for ruler in rulers)


def _numbers(ruler: Ruler) -> dict[str, int]:
    return {
        "prompt": ruler.prompt, "matched": ruler.matched, "usable": ruler.usable, "computed": ruler.computed,
        "size": ruler.size,
    }  # fmt: skip


def _fitting(kind: str, length: int, longest: int, lang: Lang) -> str:
    """The bar's words, or its number alone, or nothing, as there is room."""
    room = RULER_PX * length / longest
    words = t(f"ruler.{kind}", lang, n=length)
    wide = sum(2 if ord(character) > 0x2E7F else 1 for character in words)
    if LABEL_PX * wide <= room:
        return words
    return str(length) if LABEL_PX * len(str(length)) <= room else ""

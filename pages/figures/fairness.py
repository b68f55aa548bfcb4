"""Fairness: how old each wait grows step by step, and how many that came later went before it."""

from __future__ import annotations

from collections.abc import Sequence

from engine.waits import Wait
from pages.figures.block_tables import short
from pages.figures.marks import Selection
from pages.figures.primitives import Figure, Texts, Trace, escape, label_axis, layout, lines, request_ref
from pages.ui.text import Lang, plural, t
from pages.ui.theme import Palette

SPANS = (12, 24, 36, 72, 144, 288, 576)  # steps across; the scale changes only when more are needed
AGES = (8, 16, 24, 36, 72, 144, 288, 576)
LABELS = 6  # of those that wait now, the oldest
LABEL_SHARE = 0.3  # of the width, right of the steps, for the labels
LINE_SHARE = 0.11  # of the height, for one label
TICKS = 6


def fairness(found: Sequence[Wait], cursor: int, selection: Selection | None, palette: Palette, lang: Lang) -> Figure:
    """Traces: ended, after preemption, waiting, longest, selected, ends, labels, top label, cursor, words.

    A wait is a line that rises by one a step, from where it began to where the request computed.
    """
    chosen = selection.id if selection is not None and selection.kind == "request" else None
    shown = [wait for wait in found if wait.steps or wait.end is None]
    waiting = sorted((wait for wait in shown if wait.end is None), key=lambda wait: -wait.steps)
    top = longest(shown)
    across = _fitting(SPANS, cursor + 1)
    high = _fitting(AGES, max((wait.steps for wait in shown), default=0))
    labels, words = (
        Texts("labels", palette.px(12.5), palette.sans, "middle right"),
        Texts("words", palette.px(12.5), palette.sans),
    )
    over_line = Texts("top label", palette.px(12.5), palette.sans, "top left")
    said = list(waiting[:LABELS])
    said += [wait for wait in shown if (wait is top or wait.request == chosen) and wait not in said]
    if top is not None and _end(top, cursor) > across / 2:  # left of its end is room: nothing lies above the longest
        said.remove(top)
        over_line.add(
            _end(top, cursor) - across * 0.01,
            top.steps,
            _label(top, lang),
            palette.evicted,
            ref=request_ref(top.request),
        )
    for wait, y in _apart(said, high * LINE_SHARE):
        ink = palette.evicted if wait is top else palette.text if wait.end is None else palette.muted
        labels.add(_end(wait, cursor) + 0.3, y, _label(wait, lang), ink, ref=request_ref(wait.request))
    if len(waiting) > LABELS:
        more = t("figure.more_requests", lang, n=len(waiting) - LABELS)
        words.add(across * 0.12, high * 1.04, more, palette.muted)
    if not shown:
        words.add(across / 2, high / 2, t("figure.nobody_waits", lang), palette.muted)
    parts = {
        "ended": [wait for wait in shown if wait.end is not None and not wait.resumed],
        "again": [wait for wait in shown if wait.resumed],
        "waiting": [wait for wait in waiting if not wait.resumed],
        "longest": [top] if top is not None else [],
        "selected": [wait for wait in shown if wait.request == chosen],
    }
    steps = _ticks(across)
    return {
        "data": [
            _rising("ended", parts["ended"], cursor, palette.muted, width=1.2),
            _rising("after preemption", parts["again"], cursor, palette.preempted, width=1.6, dash="dot"),
            _rising("waiting", parts["waiting"], cursor, palette.accent, width=2.2),
            _rising("longest", parts["longest"], cursor, palette.evicted, width=4),
            _rising("selected", parts["selected"], cursor, palette.hit, width=3),
            _ends(shown, cursor, palette, lang),
            labels.trace(),
            over_line.trace(),
            lines("cursor", [cursor + 0.5] * 2, [0, high * 1.08], palette.accent, width=1.2, dash="dot"),
            words.trace(),
        ],
        "layout": layout(
            palette,
            label_axis(
                -0.1, across * (1 + LABEL_SHARE), [step + 0.5 for step in steps], list(map(str, steps)), palette.muted,
                palette.px(12.5), palette.sans,
            ),
            label_axis(
                -0.03 * high, high * 1.1, [0, high // 2, high],
                ["0", str(high // 2), t("figure.steps", lang, n=high)], palette.muted, palette.px(12.5), palette.sans,
            ),
            (66, 10, 4, 22),
        ),
    }  # fmt: skip


def longest(found: Sequence[Wait]) -> Wait | None:
    """The longest wait so far, the earlier of two; None if nobody has waited a step."""
    top = max(found, key=lambda wait: wait.steps, default=None)
    return top if top is not None and top.steps else None


def fairness_alt(found: Sequence[Wait], lang: Lang) -> str:
    """The diagram in words."""
    top = longest(found)
    if top is None:
        return t("figure.nobody_waits", lang)
    return t(
        "alt.fairness", lang, n=sum(1 for wait in found if wait.end is None), id=top.request, steps=top.steps,
        overtaken=top.overtaken, all=sum(wait.overtaken for wait in found),
    )  # fmt: skip


def _fitting(scales: Sequence[int], need: int) -> int:
    return next((scale for scale in scales if need <= scale), max(need, scales[-1]))


def _ticks(across: int) -> list[int]:
    pace = next(pace for pace in (1, 2, 5, 10, 20, 50, 100, 10**6) if across <= TICKS * pace * 2)
    return list(range(0, across, pace))


def _end(wait: Wait, cursor: int) -> float:
    return (cursor if wait.end is None else wait.end) + 0.5


def _rising(name: str, found: Sequence[Wait], cursor: int, color: str, **style: object) -> Trace:
    x: list[float | None] = []
    y: list[float | None] = []
    for wait in found:
        x += [wait.begin + 0.5, _end(wait, cursor), None]
        y += [0, wait.steps, None]
    return lines(name, x, y, color, **style)


def _ends(found: Sequence[Wait], cursor: int, palette: Palette, lang: Lang) -> Trace:
    """A dot where a wait has got to; hollow while it goes on."""
    return {
        "type": "scatter",
        "mode": "markers",
        "name": "ends",
        "x": [_end(wait, cursor) for wait in found],
        "y": [wait.steps for wait in found],
        "marker": {
            "size": 9,
            "color": [palette.card if wait.end is None else palette.muted for wait in found],
            "line": {"color": palette.text, "width": 1.5},
        },
        "customdata": [request_ref(wait.request) for wait in found],
        "hovertext": [_hover(wait, lang) for wait in found],
        "hovertemplate": "%{hovertext}<extra></extra>",
        "cliponaxis": False,
    }


def _apart(said: Sequence[Wait], least: float) -> list[tuple[Wait, float]]:
    """Heights for the labels, at least `least` apart: from the highest down, then up again off the floor."""
    order = sorted(said, key=lambda wait: -wait.steps)
    heights: list[float] = []
    for wait in order:
        heights.append(min(float(wait.steps), heights[-1] - least) if heights else float(wait.steps))
    floor = 0.0
    for place in range(len(heights) - 1, -1, -1):
        heights[place] = max(heights[place], floor)
        floor = heights[place] + least
    return list(zip(order, heights, strict=True))


def _label(wait: Wait, lang: Lang) -> str:
    key = "figure.wait_again" if wait.resumed else "figure.wait_overtaken" if wait.overtaken else "figure.wait"
    steps = plural("figure.steps_waited", wait.steps, lang)
    return t(key, lang, id=short(wait.request), steps=steps, overtaken=wait.overtaken)


def _hover(wait: Wait, lang: Lang) -> str:
    key = "hover.wait_again" if wait.resumed else "hover.wait"
    return t(key, lang, id=escape(wait.request), begin=wait.begin, steps=wait.steps, overtaken=wait.overtaken)

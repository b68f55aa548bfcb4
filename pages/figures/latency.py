"""Latency: each request from its arrival on, as it waits, computes its first token and then answers token by token."""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence

from engine.metrics import RequestMetrics, RunMetrics
from pages.figures.block_tables import row_count, short
from pages.figures.marks import Selection
from pages.figures.primitives import Figure, Rects, Texts, escape, gutter, label_axis, layout, request_ref
from pages.ui.text import Lang, number, t
from pages.ui.theme import Palette

MAX_ROWS = 12
GAPS_SHOWN = 60  # tokens per row that get a bar of their own
WIDEST = "0.0000"  # of the numbers beside the lanes
TICKS = 4


def latency(metrics: RunMetrics, selection: Selection | None, palette: Palette, lang: Lang) -> Figure:
    """Traces, in this order: queues, first tokens, gaps, words. Time runs from each request's own arrival."""
    most = palette.fits(MAX_ROWS)
    shown = _shown(metrics.requests, selection, most)
    rows = row_count(len(shown) + (len(shown) < len(metrics.requests)), most + 1)
    longest = max((_length(request) for request in shown), default=0.0) or 1.0
    chosen = selection.id if selection is not None and selection.kind == "request" else None
    queues, firsts, gaps = Rects("queues", radius=1), Rects("first tokens", radius=2), Rects("gaps", radius=1)
    words = Texts("words", palette.px(12.5), palette.sans, "middle right")
    for row, request in enumerate(shown):
        faded = chosen is not None and chosen != request.request
        ref, hover = request_ref(request.request), _hover(request, lang)
        queue, first = request.queue_ms or 0.0, request.ttft_ms
        queues.add(0, row + 0.42, queue, 0.16, palette.free_line, faded=faded, ref=ref, hover=hover)
        if first is not None:
            firsts.add(queue, row + 0.2, first - queue, 0.6, palette.used, faded=faded, ref=ref, hover=hover)
            at = first
            for gap in _merged(request.itl_ms):
                worst = gap == request.max_itl_ms and len(request.itl_ms) > 1
                gaps.add(
                    at, row + 0.26, gap, 0.48, palette.preempted if worst else palette.decode,
                    line=palette.card, faded=faded, pattern="/" if worst else "", ref=ref, hover=hover,
                )  # fmt: skip
                at += gap
        words.add(longest * 1.01, row + 0.5, _words(request, lang), palette.muted if faded else palette.text, ref=ref)
    if not shown:
        words.add(0, 0.5, t("table.empty", lang), palette.muted)
    if len(shown) < len(metrics.requests):
        left = len(metrics.requests) - len(shown)
        words.add(0, len(shown) + 0.5, t("figure.more_requests", lang, n=left), palette.muted)
    ticks = [longest * tick / TICKS for tick in range(TICKS + 1)]
    widest = max((len(short(request.request)) for request in shown), default=4)
    return {
        "data": [queues.trace(), firsts.trace(), gaps.trace(palette.card), words.trace()],
        "layout": layout(
            palette,
            label_axis(
                -0.005 * longest,
                longest * 1.01 + gutter(longest, _word_characters(lang)),
                ticks,
                [number(tick) for tick in ticks[:-1]] + [t("figure.ms", lang, ms=number(longest))],
                palette.muted,
                palette.px(12.5),
                palette.sans,
            ),
            label_axis(
                rows,
                0,
                [row + 0.5 for row in range(len(shown))],
                [short(request.request) for request in shown],
                palette.text,
                palette.px(12.5),
                palette.sans,
            ),
            (24 + 8 * max(4, widest), 10, 2, 22),
        ),
    }


def latency_alt(metrics: RunMetrics, lang: Lang) -> str:
    """The diagram in one sentence; what nobody has reached yet is "no data"."""
    none = t("metric.none", lang)
    values = {
        name: none if spread is None else number(spread.p50)
        for name, spread in (("ttft", metrics.ttft), ("tpot", metrics.tpot), ("itl", metrics.itl))
    }
    worst = none if metrics.itl is None else number(metrics.itl.max)
    return t("alt.latency", lang, clock=clock_label(metrics, lang), worst=worst, **values)


def clock_label(metrics: RunMetrics, lang: Lang) -> str:
    """Whose milliseconds these are: measured here, or modelled for a named model and GPU."""
    if metrics.clock == "measured":
        return t("clock.measured", lang)
    return t("clock.modelled", lang, name=metrics.clock_name)


def _shown(requests: Sequence[RequestMetrics], selection: Selection | None, most: int) -> list[RequestMetrics]:
    """The latest requests in order of arrival, the selected one among them."""
    if len(requests) <= most:
        return list(requests)
    chosen = selection.id if selection is not None and selection.kind == "request" else None
    kept = [request for request in requests[:-most] if request.request == chosen]
    return [*kept, *requests[len(requests) - most + len(kept) :]]


def _length(request: RequestMetrics) -> float:
    return (request.ttft_ms or request.queue_ms or 0.0) + sum(request.itl_ms)


def _merged(gaps: Sequence[float]) -> Sequence[float]:
    """Gaps as they are, or in groups of neighbours where there are more than can be told apart."""
    if len(gaps) <= GAPS_SHOWN:
        return gaps
    size = -(-len(gaps) // GAPS_SHOWN)
    return [sum(gaps[start : start + size]) for start in range(0, len(gaps), size)]


def _words(request: RequestMetrics, lang: Lang) -> str:
    if request.ttft_ms is None:
        return t("figure.no_token", lang)
    if request.tpot_ms is None:
        return t("figure.ttft", lang, ttft=number(request.ttft_ms))
    return t("figure.latency", lang, ttft=number(request.ttft_ms), tpot=number(request.tpot_ms))


def _word_characters(lang: Lang) -> int:
    """Room for the longest words, in characters as `gutter` counts them: a Chinese one is two, sans is narrower."""
    text = t("figure.latency", lang, ttft=WIDEST, tpot=WIDEST)
    columns = sum(2 if unicodedata.east_asian_width(sign) in "WF" else 1 for sign in text)
    return round(columns * 0.85)


def _hover(request: RequestMetrics, lang: Lang) -> str:
    none = t("metric.none", lang)
    times = {
        name: none if value is None else t("figure.ms", lang, ms=number(value))
        for name, value in (
            ("queue", request.queue_ms),
            ("ttft", request.ttft_ms),
            ("tpot", request.tpot_ms),
            ("worst", request.max_itl_ms),
            ("e2e", request.e2e_ms),
            ("suspended", request.suspended_ms),
        )
    }
    return t("hover.latency", lang, id=escape(request.request), tokens=request.output_tokens, **times)

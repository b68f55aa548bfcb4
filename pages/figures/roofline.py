"""A launch under a GPU's roof: FLOPs per byte against FLOP/s (Williams et al., CACM 2009)."""

from __future__ import annotations

from math import log10

from engine.roofline import GPU
from kernels.traffic import Traffic
from pages.figures.primitives import Figure, label_axis, layout, lines
from pages.ui.text import Lang, t
from pages.ui.theme import Palette

LOW, HIGH = 0.1, 10_000.0  # FLOPs per byte shown
TICKS = (0.1, 1, 10, 100, 1000, 10_000)


def attainable(gpu: GPU, intensity: float) -> float:
    """FLOP/s at most, at this intensity."""
    return min(gpu.flops, gpu.bandwidth * intensity)


def seconds(gpu: GPU, work: Traffic) -> float:
    """The launch's modelled time from below: bytes or FLOPs, whichever takes longer."""
    return gpu.seconds(work.bytes, work.flops)


def is_memory_bound(gpu: GPU, work: Traffic) -> bool:
    return work.bytes / gpu.bandwidth >= work.flops / gpu.flops


def roofline(work: Traffic, gpu: GPU, palette: Palette, lang: Lang) -> Figure:
    """Traces, in this order: the roof, down to the axis, the launch."""
    ridge = gpu.flops / gpu.bandwidth
    x = min(HIGH, max(LOW, work.intensity))
    y = attainable(gpu, x) / 1e12
    bottom = attainable(gpu, LOW) / 1e12 / 2
    point = {
        "type": "scatter",
        "mode": "markers+text",
        "name": "launch",
        "x": [x],
        "y": [y],
        "text": [t("figure.this_launch", lang)],
        "textposition": "bottom right" if x < ridge else "bottom left",
        "textfont": {"size": palette.px(14), "family": palette.sans, "color": palette.text},
        "marker": {
            "size": palette.px(14),
            "symbol": "diamond",
            "color": palette.hit,
            "line": {"color": palette.card, "width": 2},
        },
        "hovertemplate": t("hover.launch", lang, intensity=f"{work.intensity:.2f}", tflops=f"{y:.3g}")
        + "<extra></extra>",
        "cliponaxis": False,
    }
    values = [0.01, 0.1, 1, 10, 100, 1000]
    xaxis = label_axis(
        0, 0, list(TICKS), [f"{tick:g}" for tick in TICKS], palette.muted, palette.px(12.5), palette.mono
    )
    yaxis = label_axis(0, 0, values, [f"{value:g}" for value in values], palette.muted, palette.px(12.5), palette.mono)
    return {
        "data": [
            lines(
                "roof",
                [LOW, ridge, HIGH],
                [attainable(gpu, LOW) / 1e12, gpu.flops / 1e12, gpu.flops / 1e12],
                palette.used,
                width=3,
            ),
            lines("drop", [x, x], [bottom, y], palette.free_line, dash="dot"),
            point,
        ],
        "layout": layout(
            palette,
            {**xaxis, "type": "log", "range": [-1, 4], "title": _title("figure.intensity", palette, lang)},
            {**yaxis, "type": "log", "range": [log10(bottom), log10(gpu.flops / 1e12 * 2)],
             "title": _title("figure.tflops", palette, lang)},
            (58, 20, 8, 44),
        ),
    }  # fmt: skip


def _title(key: str, palette: Palette, lang: Lang) -> dict[str, object]:
    return {"text": t(key, lang), "font": {"size": palette.px(13), "color": palette.muted}, "standoff": 4}

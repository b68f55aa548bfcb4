"""Errors on a logarithmic axis: one mark a head or a layer, several kinds beside each other."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import floor, log10
from typing import Any

from pages.figures.primitives import Figure, label_axis, layout, lines
from pages.ui.theme import Palette

FLOOR = 1e-9  # what is smaller, zero included, is drawn here
SYMBOLS = ("circle", "diamond", "square", "triangle-up", "cross", "star")


def error_scale(
    series: Mapping[str, Sequence[float]], limit: float | None, prefix: str, template: str, palette: Palette
) -> Figure:
    """Traces, in this order: the limit, then the series in their order, each with a symbol of its own.

    series: name → a number for each head or layer; `template` of the hover may use %{x}, %{y}, %{text}.
    """
    longest = max((len(values) for values in series.values()), default=1)
    everything = [max(value, FLOOR) for values in series.values() for value in values]
    low = floor(log10(min([*everything, limit or 1.0]))) - 0.3
    high = log10(max([*everything, limit or FLOOR])) + 0.5
    colors = (palette.used, palette.evicted, palette.new, palette.hit, palette.shared, palette.muted)
    traces: list[dict[str, Any]] = [
        lines(
            "limit",
            [-0.5, longest - 0.5] if limit else [],
            [limit, limit] if limit else [],
            palette.evicted,
            dash="dash",
        )
    ]
    for place, (name, values) in enumerate(series.items()):
        traces.append(
            {
                "type": "scatter",
                "mode": "lines+markers" if longest > 1 else "markers",
                "name": name,
                "x": list(range(len(values))),
                "y": [max(value, FLOOR) for value in values],
                "text": [name] * len(values),
                "line": {"color": colors[place % len(colors)], "width": 1.5, "dash": "dot"},
                "marker": {"size": 10, "symbol": SYMBOLS[place % len(SYMBOLS)], "color": colors[place % len(colors)]},
                "hovertemplate": template + "<extra></extra>",
                "cliponaxis": False,
            }
        )
    every = max(1, -(-longest // 12))
    ticks = list(range(0, longest, every))
    powers = list(range(floor(low) + 1, floor(high) + 1))
    yaxis = label_axis(
        0,
        0,
        [10.0**power for power in powers],
        [f"1e{power}" for power in powers],
        palette.muted,
        palette.px(12.5),
        palette.mono,
    )
    return {
        "data": traces,
        "layout": layout(
            palette,
            label_axis(
                -0.6,
                longest - 0.4,
                ticks,
                [f"{prefix}{tick}" for tick in ticks],
                palette.muted,
                palette.px(12.5),
                palette.mono,
            ),
            {**yaxis, "type": "log", "range": [low, high], "showgrid": True, "gridcolor": palette.line},
            (52, 12, 8, 24),
            legend={"orientation": "h", "y": 1.12, "x": 0, "font": {"size": palette.px(13), "color": palette.text}},
        )
        | {"showlegend": len(series) > 1},
    }

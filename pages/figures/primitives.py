"""The few Plotly marks that every diagram is made of: rectangles, texts, lines, and one layout."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from pages.ui.theme import Palette

Trace = dict[str, Any]
Figure = dict[str, Any]

CLEAR = "rgba(0,0,0,0)"
FADED = 0.25
PANEL_PX = 430  # width of a narrow panel at 1280 px, the smallest the labels must fit in


def escape(text: str) -> str:
    """Plotly reads text as pseudo-HTML; names from an upload must not."""
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def request_ref(request_id: str) -> str:
    """What a click on a request's mark reports; the stage splits it at the first colon."""
    return f"request:{request_id}"


def block_ref(block: int) -> str:
    return f"block:{block}"


def node_ref(node: int) -> str:
    """A node of the radix tree."""
    return f"node:{node}"


def slots(first: int, *names: str) -> dict[str, str]:
    """For each name the place in a hover template that the `Rects.add(values=…)` number `first`, … fill."""
    return {name: f"%{{customdata[{place + 1}]}}" for place, name in enumerate(names, first)}


def _compact(values: list[Any]) -> Any:
    """One value instead of n equal ones, where Plotly takes either."""
    return values[0] if values and all(value == values[0] for value in values) else values


@dataclass(slots=True)
class Rects:
    """Many rectangles as one bar trace: it scales with the panel, is clickable and fades by CSS."""

    name: str
    radius: int = 3
    _x: list[float] = field(default_factory=list)
    _base: list[float] = field(default_factory=list)
    _width: list[float] = field(default_factory=list)
    _height: list[float] = field(default_factory=list)
    _fill: list[str] = field(default_factory=list)
    _line: list[str] = field(default_factory=list)
    _line_width: list[float] = field(default_factory=list)
    _opacity: list[float] = field(default_factory=list)
    _pattern: list[str] = field(default_factory=list)
    _ref: list[str] = field(default_factory=list)
    _hover: list[str] = field(default_factory=list)
    _values: list[tuple[object, ...]] = field(default_factory=list)

    def add(
        self,
        x: float,
        y: float,
        width: float,
        height: float,
        fill: str,
        *,
        line: str | None = None,
        line_width: float = 1,
        faded: bool = False,
        pattern: str = "",
        ref: str = "",
        hover: str = "",
        values: tuple[object, ...] = (),
    ) -> None:
        """`hover` is a whole sentence; `values` fill the trace's one template instead, which is much smaller."""
        self._x.append(round(x, 3))
        self._base.append(round(y, 3))
        self._width.append(round(width, 3))
        self._height.append(round(height, 3))
        self._fill.append(fill)
        self._line.append(line or fill)
        self._line_width.append(line_width)
        self._opacity.append(FADED if faded else 1)
        self._pattern.append(pattern)
        self._ref.append(ref)
        self._hover.append(hover)
        self._values.append(values)

    def trace(self, pattern_color: str = CLEAR, yaxis: str = "y", template: str = "") -> Trace:
        fill = _compact(self._fill)
        marker: Trace = {
            "color": fill,
            "line": {"color": _compact(self._line), "width": _compact(self._line_width)},
            "opacity": _compact(self._opacity),
            "cornerradius": self.radius,
        }
        if any(self._pattern):
            marker["pattern"] = {
                "shape": self._pattern,
                "fgcolor": pattern_color,
                # Of many fills each takes this one's place; plotly.js warns, slowly, if it has to start from many.
                "bgcolor": fill if isinstance(fill, str) else pattern_color,
                "size": 5,
                "solidity": 0.3,
                "fillmode": "overlay",
            }
        trace: Trace = {
            "type": "bar",
            "name": self.name,
            "x": self._x,
            "y": self._height,
            "base": self._base,
            "width": _compact(self._width),
            "offset": 0,
            "marker": marker,
            "textposition": "none",
            "cliponaxis": False,
            "yaxis": yaxis,
        }
        if template:
            trace["customdata"] = [[ref, *values] for ref, values in zip(self._ref, self._values, strict=True)]
            trace["hovertemplate"] = template + "<extra></extra>"
            return trace
        if any(self._ref):
            trace["customdata"] = self._ref
        if any(self._hover):
            trace["hovertext"] = self._hover
            trace["hovertemplate"] = "%{hovertext}<extra></extra>"
        else:
            trace["hoverinfo"] = "skip"
        return trace


@dataclass(slots=True)
class Texts:
    """Labels as one scatter trace, so that no bar carries inline text (three times slower)."""

    name: str
    size: float
    font: str
    anchor: str = "middle center"
    _x: list[float] = field(default_factory=list)
    _y: list[float] = field(default_factory=list)
    _text: list[str] = field(default_factory=list)
    _color: list[str] = field(default_factory=list)
    _ref: list[str] = field(default_factory=list)

    def add(self, x: float, y: float, text: str, color: str, *, ref: str = "") -> None:
        self._x.append(round(x, 3))
        self._y.append(round(y, 3))
        self._text.append(escape(text))
        self._color.append(color)
        self._ref.append(ref)

    def trace(self, yaxis: str = "y") -> Trace:
        trace: Trace = {
            "type": "scatter",
            "mode": "text",
            "name": self.name,
            "x": self._x,
            "y": self._y,
            "text": self._text,
            "textposition": self.anchor,
            "textfont": {"size": self.size, "family": self.font, "color": _compact(self._color)},
            "hoverinfo": "skip",
            "cliponaxis": False,
            "yaxis": yaxis,
        }
        if any(self._ref):
            # hoverinfo "skip" would also swallow the click; "none" keeps the click and shows no label.
            trace |= {"customdata": self._ref, "hoverinfo": "none"}
        return trace


def lines(name: str, x: Sequence[float | None], y: Sequence[float | None], color: str, **style: object) -> Trace:
    """A polyline; None starts a new piece."""
    axis = style.pop("yaxis", "y")
    return {
        "type": "scatter",
        "mode": "lines",
        "name": name,
        "x": list(x),
        "y": list(y),
        "line": {"color": color, "width": 1.5, **style},
        "hoverinfo": "skip",
        "cliponaxis": False,
        "yaxis": axis,
    }


def gutter(units: float, characters: int) -> float:
    """Room left of `units` columns for labels, in columns.

    Plotly drops texts outside the axis range, so that labels need room on the axis instead of a margin.
    """
    pixels = 12 + 8 * characters
    return units * pixels / (PANEL_PX - pixels)


def hidden_axis(low: float, high: float) -> dict[str, Any]:
    return {"visible": False, "range": [low, high], "fixedrange": True, "zeroline": False, "showgrid": False}


def label_axis(
    low: float, high: float, values: Sequence[float], labels: Sequence[str], color: str, size: float, font: str
) -> dict[str, Any]:
    """An axis without line or grid whose ticks are given labels."""
    return {
        "range": [low, high],
        "fixedrange": True,
        "zeroline": False,
        "showgrid": False,
        "ticks": "",
        "tickangle": 0,
        "tickvals": list(values),
        "ticktext": [escape(label) for label in labels],
        "tickfont": {"size": size, "color": color, "family": font},
    }


def layout(
    palette: Palette,
    xaxis: dict[str, Any],
    yaxis: dict[str, Any],
    margin: tuple[int, int, int, int] = (8, 8, 4, 6),
    **extra: Any,
) -> dict[str, Any]:
    """The common layout; margin is left, right, top, bottom in pixels at the palette's scale 1."""
    left, right, top, bottom = (round(pixels * palette.scale) for pixels in margin)
    return {
        "autosize": True,
        "margin": {"l": left, "r": right, "t": top, "b": bottom},
        "paper_bgcolor": CLEAR,
        "plot_bgcolor": CLEAR,
        "font": {"family": palette.sans, "size": palette.px(13), "color": palette.text},
        "showlegend": False,
        "barmode": "overlay",
        "hovermode": "closest",
        "hoverlabel": {
            "bgcolor": palette.card,
            "bordercolor": palette.line,
            "font": {"family": palette.sans, "size": palette.px(13), "color": palette.text},
            "align": "left",
        },
        "dragmode": False,
        "uirevision": "stage",
        "xaxis": xaxis,
        "yaxis": yaxis,
        **extra,
    }

"""A figure as a picture that stays still: the few marks of `primitives` as SVG, for thumbnails without Plotly."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from pages.figures.primitives import CLEAR, Figure, Trace

HATCH_PX = 5
_ANCHORS = {"left": "end", "center": "middle", "right": "start"}  # Plotly names the side of the point the text is on
_DASHES = {"dash": "6 4", "dot": "2 3"}


def svg(figure: Figure, width: int, height: int) -> str:
    """The figure in `width` × `height` pixels. Texts keep their size, so that small pictures want small figures."""
    frame = _Frame.of(figure["layout"], width, height)
    marks = [mark for trace in figure["data"] for mark in _marks(trace, frame)]
    marks += _ticks(figure["layout"], frame)
    font = figure["layout"]["font"]["family"]
    hatches = "".join(_hatch(*name) for name in sorted(_hatches(figure["data"])))
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" viewBox="0 0 {width} {height}" '
        f'font-family="{font}"><defs>{hatches}</defs>{"".join(marks)}</svg>'
    )


@dataclass(frozen=True, slots=True)
class _Axis:
    """Maps values to pixels: `low` and `high` of the range lie at `start` and `end`."""

    low: float
    high: float
    start: float
    end: float

    def pixel(self, value: float) -> float:
        return round(self.start + (value - self.low) / (self.high - self.low) * (self.end - self.start), 2)


@dataclass(frozen=True, slots=True)
class _Frame:
    x: _Axis
    ys: dict[str, _Axis]

    @staticmethod
    def of(layout: dict[str, Any], width: int, height: int) -> _Frame:
        margin = layout["margin"]
        bottom, tall = height - margin["b"], height - margin["t"] - margin["b"]
        ys = {}
        for name in [key for key in layout if key.startswith("yaxis")]:
            low, high = layout[name]["range"]
            first, last = layout[name].get("domain", (0, 1))
            ys[name.replace("axis", "")] = _Axis(low, high, bottom - first * tall, bottom - last * tall)
        low, high = layout["xaxis"]["range"]
        return _Frame(_Axis(low, high, margin["l"], width - margin["r"]), ys)


def _marks(trace: Trace, frame: _Frame) -> Iterator[str]:
    axis = frame.ys[trace["yaxis"]] if "yaxis" in trace else frame.ys["y"]
    if trace["type"] == "bar":
        yield from _bars(trace, frame.x, axis)
    elif trace["mode"] == "text":
        yield from _texts(trace, frame.x, axis)
    elif trace["mode"] == "markers":
        draw = _arrows if trace["marker"].get("symbol") == "triangle-right" else _dots
        yield from draw(trace, frame.x, axis)
    elif trace["mode"] == "lines":
        yield _path(trace, frame.x, axis)


def _each(value: object, count: int) -> Sequence[Any]:
    """Plotly takes one value for all marks as well as one for each."""
    return value if isinstance(value, list) else [value] * count


def _bars(trace: Trace, x: _Axis, y: _Axis) -> Iterator[str]:
    count, marker = len(trace["x"]), trace["marker"]
    pattern = marker.get("pattern", {})
    columns = zip(
        trace["x"], trace["base"], _each(trace["width"], count), trace["y"], _each(marker["color"], count),
        _each(marker["line"]["color"], count), _each(marker["line"]["width"], count), _each(marker["opacity"], count),
        _each(pattern.get("shape", ""), count), strict=True,
    )  # fmt: skip
    for left, base, wide, tall, fill, line, line_width, opacity, shape in columns:
        x1, x2 = sorted((x.pixel(left), x.pixel(left + wide)))
        y1, y2 = sorted((y.pixel(base), y.pixel(base + tall)))
        place = f'x="{x1}" y="{y1}" width="{x2 - x1:.2f}" height="{y2 - y1:.2f}" rx="{marker["cornerradius"]}"'
        shown = "" if opacity == 1 else f' opacity="{opacity}"'
        color = "none" if fill == CLEAR else fill
        yield f'<rect {place} fill="{color}" stroke="{line}" stroke-width="{line_width}"{shown}/>'
        if shape:
            yield f'<rect {place} fill="url(#{_name(shape, pattern["fgcolor"])})"{shown}/>'


def _texts(trace: Trace, x: _Axis, y: _Axis) -> Iterator[str]:
    font, (vertical, side) = trace["textfont"], trace["textposition"].split()
    shift = {"top": -4, "middle": 0.35 * font["size"], "bottom": font["size"]}[vertical]
    aside = {"left": -3, "center": 0, "right": 3}[side]
    for left, top, text, color in zip(
        trace["x"], trace["y"], trace["text"], _each(font["color"], len(trace["x"])), strict=True
    ):
        place = f'x="{x.pixel(left) + aside:.2f}" y="{y.pixel(top) + shift:.2f}" text-anchor="{_ANCHORS[side]}"'
        yield f'<text {place} font-size="{font["size"]}" font-family="{font["family"]}" fill="{color}">{text}</text>'


def _arrows(trace: Trace, x: _Axis, y: _Axis) -> Iterator[str]:
    """Triangles that point right."""
    half = trace["marker"]["size"] / 2
    for left, top in zip(trace["x"], trace["y"], strict=True):
        px, py = x.pixel(left), y.pixel(top)
        points = f"{px - half},{py - half} {px + half},{py} {px - half},{py + half}"
        yield f'<polygon points="{points}" fill="{trace["marker"]["color"]}"/>'


def _dots(trace: Trace, x: _Axis, y: _Axis) -> Iterator[str]:
    marker, count = trace["marker"], len(trace["x"])
    line, radius = marker["line"], marker["size"] / 2
    for left, top, fill in zip(trace["x"], trace["y"], _each(marker["color"], count), strict=True):
        place = f'cx="{x.pixel(left)}" cy="{y.pixel(top)}" r="{radius}"'
        yield f'<circle {place} fill="{fill}" stroke="{line["color"]}" stroke-width="{line["width"]}"/>'


def _path(trace: Trace, x: _Axis, y: _Axis) -> str:
    steps, pen = [], "M"
    for left, top in zip(trace["x"], trace["y"], strict=True):
        if left is None or top is None:
            pen = "M"
            continue
        steps.append(f"{pen}{x.pixel(left)} {y.pixel(top)}")
        pen = "L"
    line = trace["line"]
    dash = f' stroke-dasharray="{_DASHES[line["dash"]]}"' if line.get("dash") in _DASHES else ""
    return f'<path d="{" ".join(steps)}" fill="none" stroke="{line["color"]}" stroke-width="{line["width"]}"{dash}/>'


def _ticks(layout: dict[str, Any], frame: _Frame) -> list[str]:
    """Labels below and left of the axes that have some."""
    marks = []
    for name in [key for key in layout if re.fullmatch(r"[xy]axis\d?", key)]:
        font = layout[name].get("tickfont", {})
        for value, text in zip(layout[name].get("tickvals", ()), layout[name].get("ticktext", ()), strict=True):
            if name == "xaxis":
                place = f'x="{frame.x.pixel(value)}" y="{frame.ys["y"].start + 15:.2f}" text-anchor="middle"'
            else:
                top = frame.ys[name.replace("axis", "")].pixel(value) + 0.35 * font["size"]
                place = f'x="{frame.x.start - 5:.2f}" y="{top:.2f}" text-anchor="end"'
            marks.append(f'<text {place} font-size="{font["size"]}" fill="{font["color"]}">{text}</text>')
    return marks


def _hatches(traces: Sequence[Trace]) -> set[tuple[str, str]]:
    patterns = [trace["marker"]["pattern"] for trace in traces if "pattern" in trace.get("marker", {})]
    return {(shape, pattern["fgcolor"]) for pattern in patterns for shape in _each(pattern["shape"], 1) if shape}


def _name(shape: str, color: str) -> str:
    return "hatch" + "".join(f"{ord(char):x}" for char in shape) + re.sub(r"\W", "", color)


def _hatch(shape: str, color: str) -> str:
    size = HATCH_PX
    strokes = {"/": f"M0 {size}L{size} 0", "\\": f"M0 0L{size} {size}", "x": f"M0 {size}L{size} 0M0 0L{size} {size}"}
    return (
        f'<pattern id="{_name(shape, color)}" width="{size}" height="{size}" patternUnits="userSpaceOnUse">'
        f'<path d="{strokes[shape]}" stroke="{color}" stroke-width="1.4"/></pattern>'
    )

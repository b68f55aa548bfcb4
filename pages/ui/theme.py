"""Colours and fonts, in one place for figures and for the stage's style sheet."""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from string import Template
from typing import Literal, get_args

ThemeName = Literal["light", "dark"]
Look = Literal["desk", "projector"]
LOOKS: tuple[Look, ...] = get_args(Look)
PROJECTOR_SCALE = 1.35  # of all type: the smallest is then 17 px

SANS = (
    "'Source Sans', 'Source Sans 3', 'Noto Sans SC', 'Noto Sans CJK SC', 'PingFang SC', 'Microsoft YaHei', sans-serif"
)
MONO = "'Source Code Pro', ui-monospace, Menlo, Consolas, 'Noto Sans Mono CJK SC', monospace"


@dataclass(frozen=True, slots=True)
class Palette:
    """Hex colours by meaning; each was checked against its neighbours under three kinds of colour blindness.

    `on_x` is the text colour on a fill of `x`. `recompute` shares prefill's fill and differs by its hatch.
    """

    name: ThemeName
    page: str
    card: str
    line: str
    text: str
    muted: str
    accent: str
    used: str
    on_used: str
    shared: str
    on_shared: str
    cached: str
    on_cached: str
    free: str
    free_line: str
    new: str
    evicted: str
    hit: str
    decode: str
    preempted: str
    sans: str = SANS
    mono: str = MONO
    scale: float = 1.0

    def px(self, size: float) -> float:
        """A size of type or of a marker, in pixels, for those who look on from where this palette is meant for."""
        return round(size * self.scale, 1)

    def fits(self, count: int) -> int:
        """How many of `count` rows or columns there is room for with type of this size."""
        return int(count / self.scale)


LIGHT = Palette(
    name="light",
    page="#F6F8FB",
    card="#FFFFFF",
    line="#E1E6ED",
    text="#1B2430",
    muted="#5F6B7A",
    accent="#2F6DB5",
    used="#2F6DB5",
    on_used="#FFFFFF",
    shared="#E69F00",
    on_shared="#1B2430",
    cached="#A9D3EE",
    on_cached="#16384F",
    free="#EEF1F5",
    free_line="#D5DBE3",
    new="#009E73",
    evicted="#D55E00",
    hit="#B0468B",
    decode="#8DB8E2",
    preempted="#D55E00",
)

DARK = Palette(
    name="dark",
    page="#0F141B",
    card="#161D27",
    line="#2C3644",
    text="#E6EBF2",
    muted="#97A3B3",
    accent="#5A9BE6",
    used="#2F74C4",
    on_used="#FFFFFF",
    shared="#F0B429",
    on_shared="#1B2430",
    cached="#234A66",
    on_cached="#B9DDF4",
    free="#18202A",
    free_line="#36424F",
    new="#2BC298",
    evicted="#F0743A",
    hit="#D67BB5",
    decode="#2A5480",
    preempted="#F0743A",
)


def theme_name(name: str | None) -> ThemeName:
    """What Streamlit says of the browser's colours, and light if it does not know."""
    return "dark" if name == "dark" else "light"


def palette(name: ThemeName, look: Look = "desk") -> Palette:
    """The colours, and for a projector larger type."""
    colors = DARK if name == "dark" else LIGHT
    return replace(colors, scale=PROJECTOR_SCALE) if look == "projector" else colors


def filled(css: str, palette: Palette, **more: object) -> str:
    """A style sheet whose `$text`, `$card` … are the palette's, and further names `more`."""
    return Template(css).substitute(asdict(palette), **more)


def blend(low: str, high: str, share: float) -> str:
    """The colour `share` of the way from `low` to `high`."""
    pairs = ((int(low[i : i + 2], 16), int(high[i : i + 2], 16)) for i in (1, 3, 5))
    return "#" + "".join(f"{round(a + (b - a) * share):02X}" for a, b in pairs)

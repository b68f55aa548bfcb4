"""The picture of a scenario in the library: a diagram of its most telling step, drawn from a replay."""

from __future__ import annotations

import base64
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from engine.timeline import Step
from pages.figures.svg import svg
from pages.ui.figure_panels import fairness_panel, pool_panel, queue_panel, schedule_panel, tables_panel
from pages.ui.scene import Scene
from pages.ui.text import Lang
from pages.ui.theme import Palette
from scenarios import load, recording

# Texts in diagrams are at least 12.5 px; a card is about 400 px wide.
WIDTH, HEIGHT = 420, 180

_PANELS: dict[str, Callable[[Scene], dict[str, Any]]] = {
    "pool": pool_panel,
    "tables": tables_panel,
    "queue": queue_panel,
    "schedule": schedule_panel,
    "fairness": fairness_panel,
}


@dataclass(frozen=True, slots=True)
class Cover:
    """`source` for an `img`, and the same in words."""

    source: str
    alt: str


@lru_cache(maxsize=128)
def cover(name: str, palette: Palette, lang: Lang) -> Cover | None:
    """The cover of a library scenario, or None if it names none."""
    scenario = load.load(name)
    if scenario.cover is None:
        return None
    steps = recording.replay(name, most=scenario.cover.step + 1)
    panel = _PANELS[scenario.cover.figure](_scene(steps, scenario.config, palette, lang))
    picture = svg(panel["figure"], WIDTH, HEIGHT)
    return Cover("data:image/svg+xml;base64," + base64.b64encode(picture.encode()).decode(), panel["alt"])


def _scene(steps: tuple[Step, ...], config: Any, palette: Palette, lang: Lang) -> Scene:
    return Scene(steps, len(steps) - 1, steps[0].snapshot, config, palette, lang)

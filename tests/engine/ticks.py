"""A clock of 10 ms a step and one byte a slot, so that what is derived from it can be worked out by hand."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from engine.clock import ClockKind
from engine.events import SwappedIn, SwappedOut
from engine.swap import SwapCost
from engine.timeline import Step


@dataclass(frozen=True)
class Ticks:
    kv_bytes_per_token: int | None = None
    kind: ClassVar[ClockKind] = "modelled"
    name: ClassVar[str] = "ticks"

    def step_ms(self, step: Step) -> float:
        return 10.0

    def swap(self, event: SwappedOut | SwappedIn, block_size: int) -> SwapCost:
        return SwapCost(len(event.pairs) * block_size, 1.5)

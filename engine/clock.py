"""How long a step takes: measured on this machine, or modelled for a named one. A metric says whose time it is."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal, Protocol

from engine.events import SwappedIn, SwappedOut
from engine.swap import SwapCost
from engine.timeline import Step

ClockKind = Literal["measured", "modelled"]


class Clock(Protocol):
    """One source of time for a whole run, so that measured and modelled milliseconds cannot be mixed.

    `kv_bytes_per_token`: K and V of one position over all layers of the model that the time is about; None without one.
    """

    @property
    def kind(self) -> ClockKind: ...

    @property
    def name(self) -> str: ...

    @property
    def kv_bytes_per_token(self) -> int | None: ...

    def step_ms(self, step: Step) -> float: ...

    def swap(self, event: SwappedOut | SwappedIn, block_size: int) -> SwapCost | None:
        """Bytes and time of one swap, which `step_ms` contains; None where no KV was copied."""
        ...


@dataclass(frozen=True, slots=True)
class Measured:
    """Wall time of the steps as they ran here."""

    kv_bytes_per_token: int | None = None
    kind: ClassVar[ClockKind] = "measured"
    name: ClassVar[str] = "measured"

    def step_ms(self, step: Step) -> float:
        return step.timings.total_ms

    def swap(self, event: SwappedOut | SwappedIn, block_size: int) -> SwapCost | None:
        return None if event.ms is None else SwapCost(event.bytes, event.ms)

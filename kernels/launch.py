"""One kernel launch as data: run now, or looked at (`offline` compiles it for a GPU that is not there)."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True)
class Launch:
    """kernel: a triton.jit function; grid: programs along x, y, z; options: num_warps and the like."""

    kernel: Any
    grid: tuple[int, ...]
    arguments: dict[str, Any]
    options: dict[str, Any] = field(default_factory=dict)

    def run(self) -> None:
        self.kernel[self.grid](**self.arguments, **self.options)

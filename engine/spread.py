"""How values are spread: what a table shows of many latencies or levels."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True, slots=True)
class Spread:
    """Percentiles are interpolated linearly between ranks, as in `vllm bench serve` (numpy's default)."""

    count: int
    mean: float
    p50: float
    p90: float
    p99: float
    max: float


def spread(values: Sequence[float]) -> Spread | None:
    """None of no values: there is no data, which is not zero."""
    if not values:
        return None
    p50, p90, p99 = (float(each) for each in np.percentile(values, (50, 90, 99)))
    return Spread(len(values), sum(values) / len(values), p50, p90, p99, max(values))

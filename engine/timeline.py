"""The list of steps: what a page walks back and forth over."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from engine.events import Event
from engine.snapshot import Snapshot


@dataclass(frozen=True, slots=True)
class NextToken:
    """A candidate for the next token with its probability under the model (temperature 1)."""

    token: int
    text: str
    probability: float


@dataclass(frozen=True, slots=True)
class KernelRow:
    """What one launch computed for one request, at the layer under the lens.

    `attention_mass`: float32 [query heads, blocks], the softmax weight of the last query row summed over each
    block of `block_table` (rows sum to 1). `max_abs_diff`: paged against dense attention, or None if not checked.
    """

    request: str
    query_start: int
    query_len: int
    context_len: int
    block_table: tuple[int, ...]
    slot_mapping: tuple[int, ...]
    attention_mass: NDArray[np.float32]
    max_abs_diff: float | None
    top: tuple[NextToken, ...]


@dataclass(frozen=True, slots=True)
class KernelRecord:
    """One step's attention launch, seen at layer `layer` of `num_layers`."""

    implementation: str
    layer: int
    num_layers: int
    num_query_heads: int
    num_kv_heads: int
    head_dim: int
    rows: tuple[KernelRow, ...]
    tolerance: float

    @property
    def max_abs_diff(self) -> float | None:
        """Largest difference of the step, or None if no row was checked."""
        return max((row.max_abs_diff for row in self.rows if row.max_abs_diff is not None), default=None)

    def row(self, request_id: str) -> KernelRow | None:
        return next((row for row in self.rows if row.request == request_id), None)


@dataclass(frozen=True, slots=True)
class LawResult:
    """One invariant after one step. `broken_by` names the block or request, empty when it holds.

    `checked` is False where the law had nothing to look at (no model, no launch), which is not the same as holding.
    """

    law: int
    holds: bool
    checked: bool = True
    broken_by: str = ""


@dataclass(frozen=True, slots=True)
class Timings:
    """Measured wall time of the step's phases in milliseconds, on this machine."""

    schedule_ms: float
    execute_ms: float
    commit_ms: float

    @property
    def total_ms(self) -> float:
        return self.schedule_ms + self.execute_ms + self.commit_ms


@dataclass(frozen=True, slots=True)
class Step:
    """One iteration of the engine: the only thing pages know.

    `scheduled_tokens`: request id → tokens, in batch order. `scheduled`: the picture while the kernels run;
    `snapshot`: the picture after the commit. `text`: request id → text generated so far.
    """

    index: int
    scheduled_tokens: Mapping[str, int]
    events: tuple[Event, ...]
    sampled: Mapping[str, int]
    scheduled: Snapshot
    snapshot: Snapshot
    kernel: KernelRecord | None
    laws: tuple[LawResult, ...]
    timings: Timings
    text: Mapping[str, str] = field(default_factory=dict)

    @property
    def is_idle(self) -> bool:
        """Nothing was scheduled: every known request is over or has not arrived yet."""
        return not self.scheduled_tokens

"""What a trace is like: its span, its lengths, and how much of it an infinite prefix cache would save."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from scenarios.traces.record import Trace, TraceRecord


@dataclass(frozen=True, slots=True)
class Lengths:
    """Sum and nearest-rank quantiles of a number of tokens."""

    total: int
    least: int
    p50: int
    p90: int
    p99: int
    most: int


@dataclass(frozen=True, slots=True)
class TraceStats:
    """`infinite_cache_hit_rate`: share of prompt blocks whose whole prefix came before; None without block ids."""

    requests: int
    span_s: float
    prompt: Lengths
    output: Lengths
    infinite_cache_hit_rate: float | None


def stats(trace: Trace) -> TraceStats:
    records = trace.records
    return TraceStats(
        requests=len(records),
        span_s=records[-1].arrival_s,
        prompt=_lengths([record.prompt_tokens for record in records]),
        output=_lengths([record.output_tokens for record in records]),
        infinite_cache_hit_rate=_hit_rate(records),
    )


def _lengths(values: Sequence[int]) -> Lengths:
    ordered = sorted(values)

    def quantile(percent: int) -> int:
        return ordered[max(0, -(-percent * len(ordered) // 100) - 1)]

    return Lengths(sum(ordered), ordered[0], quantile(50), quantile(90), quantile(99), ordered[-1])


def _hit_rate(records: Sequence[TraceRecord]) -> float | None:
    """Only the leading run of known ids counts: an id after a miss cannot be reached by a prefix lookup."""
    seen: set[int] = set()
    hits = total = 0
    for record in records:
        ids = record.block_ids
        if not ids:
            continue
        total += len(ids)
        for block_id in ids:
            if block_id not in seen:
                break
            hits += 1
        seen.update(ids)
    return hits / total if total else None

"""A run's metrics as tables for a terminal: what each is called, in which unit, and "no data" where there is none."""

from __future__ import annotations

from collections.abc import Iterator
from operator import attrgetter
from typing import NamedTuple

from rich.table import Table

from engine.metrics import RequestMetrics, RunMetrics
from engine.spread import Spread
from scenarios.errors import notice

Number = float | int | None


class Row(NamedTuple):
    """One metric: key of its name in the message catalogue, where it stands in RunMetrics, and its unit."""

    key: str
    path: str
    unit: str = ""


SPREADS = (
    Row("metric.queue", "queue", "ms"),
    Row("metric.ttft", "ttft", "ms"),
    Row("metric.tpot", "tpot", "ms"),
    Row("metric.itl", "itl", "ms"),
    Row("metric.e2e", "e2e", "ms"),
    Row("metric.suspended", "suspended", "ms"),
    Row("metric.wait_steps", "fairness.wait_steps"),
    Row("metric.owned_blocks", "usage.owned_blocks"),
    Row("metric.written_slots", "usage.written_slots"),
    Row("metric.internal_waste", "usage.internal_waste_slots"),
    Row("metric.reserved", "usage.reserved_slots"),
    Row("metric.external_waste", "usage.external_waste_slots"),
)

NUMBERS = (
    Row("metric.steps", "steps"),
    Row("metric.duration", "duration_ms", "ms"),
    Row("metric.computed", "computed_tokens"),
    Row("metric.useful", "useful_tokens"),
    Row("metric.recomputed", "recomputed_tokens"),
    Row("metric.output", "output_tokens"),
    Row("metric.output_rate", "output_tokens_per_second", "/s"),
    Row("metric.first_hits", "first_hit_tokens"),
    Row("metric.hit_rate", "hit_rate", "%"),
    Row("metric.resumed_hits", "resumed_hit_tokens"),
    Row("metric.preemptions", "preemptions"),
    Row("metric.swap_blocks_out", "usage.swapped.blocks_out"),
    Row("metric.swap_blocks_in", "usage.swapped.blocks_in"),
    Row("metric.swap_bytes", "usage.swapped.bytes", "B"),
    Row("metric.swap_ms", "usage.swapped.ms", "ms"),
    Row("metric.peak_kv", "usage.peak_kv_bytes", "B"),
    Row("metric.idle_row_steps", "usage.idle_row_steps"),
    Row("metric.idle_row_share", "usage.idle_row_share", "%"),
    Row("metric.goodput_met", "goodput.met"),
    Row("metric.goodput_share", "goodput.share", "%"),
    Row("metric.goodput_rate", "goodput.per_second", "/s"),
    Row("metric.largest_gap", "fairness.largest_gap_steps"),
    Row("metric.overtaken", "fairness.overtaken"),
    Row("metric.jain_service", "fairness.jain_service"),
    Row("metric.jain_rate", "fairness.jain_rate"),
    Row("metric.vtc_difference", "fairness.max_service_difference"),
    Row("metric.vtc_bound", "fairness.service_bound"),
)

_OF_A_REQUEST = (
    Row("metric.queue", "queue_ms", "ms"),
    Row("metric.ttft", "ttft_ms", "ms"),
    Row("metric.tpot", "tpot_ms", "ms"),
    Row("metric.itl_max", "max_itl_ms", "ms"),
    Row("metric.e2e", "e2e_ms", "ms"),
    Row("metric.suspended", "suspended_ms", "ms"),
    Row("metric.computed", "computed_tokens"),
    Row("metric.recomputed", "recomputed_tokens"),
    Row("metric.output", "output_tokens"),
)
_QUANTITIES = ("mean", "p50", "p90", "p99", "max")
_COMPARED = ("mean", "max")  # of a spread, where two runs stand side by side


def value(metrics: RunMetrics, path: str) -> Number:
    """The number at `path`; None if it, or what holds it, has no data."""
    found: object = metrics
    for name in path.split("."):
        found = None if found is None else getattr(found, name)
    return found if isinstance(found, (int, float)) else None


def compared_rows() -> Iterator[Row]:
    """Every number that two runs are compared by; of a spread its mean and maximum."""
    yield from (Row(row.key, f"{row.path}.{part}", row.unit) for row in SPREADS for part in _COMPARED)
    yield from NUMBERS


def name(row: Row) -> str:
    """What a reader calls it: "TTFT, mean"."""
    part = row.path.rpartition(".")[2]
    label = str(notice(row.key))
    return f"{label}, {part}" if part in _COMPARED else label


def shown(number: Number, unit: str = "") -> str:
    """A number with its unit, or the words for no data."""
    if number is None:
        return str(notice("metric.none"))
    if unit == "%":
        return f"{number:.1%}"
    if unit == "B":
        return _bytes(number)
    text = f"{number:,}" if isinstance(number, int) else f"{number:,.4g}" if abs(number) < 1000 else f"{number:,.0f}"
    return f"{text} {unit}".rstrip().replace(" /s", "/s")


def _bytes(number: float) -> str:
    for unit in ("B", "KiB", "MiB"):
        if abs(number) < 1024:
            return f"{number:.4g} {unit}"
        number /= 1024
    return f"{number:.4g} GiB"


def clock_line(metrics: RunMetrics) -> str:
    """Whose time the milliseconds are."""
    if metrics.clock == "measured":
        return str(notice("metric.clock_measured"))
    return str(notice("metric.clock_modelled", name=metrics.clock_name))


def tables(metrics: RunMetrics) -> tuple[Table, ...]:
    """Spreads, single numbers, and the requests one by one."""
    return _spreads(metrics), _numbers(metrics), _requests(metrics)


def _spreads(metrics: RunMetrics) -> Table:
    result = _table(*_QUANTITIES)
    for row in SPREADS:
        found: Spread | None = attrgetter(row.path)(metrics)
        if found is None:
            result.add_row(str(notice(row.key)), shown(None))
        else:
            result.add_row(str(notice(row.key)), *(shown(getattr(found, part), row.unit) for part in _QUANTITIES))
    return result


def _numbers(metrics: RunMetrics) -> Table:
    result = _table(str(notice("metric.value")))
    for row in NUMBERS:
        if metrics.goodput is not None or not row.path.startswith("goodput."):
            result.add_row(str(notice(row.key)), shown(value(metrics, row.path), row.unit))
    return result


def _requests(metrics: RunMetrics) -> Table:
    result = _table(*(str(notice(row.key)) for row in _OF_A_REQUEST), first=str(notice("metric.request")))
    for request in metrics.requests:
        result.add_row(request.request, *(_of_request(request, row) for row in _OF_A_REQUEST))
    return result


def _of_request(request: RequestMetrics, row: Row) -> str:
    return shown(getattr(request, row.path), row.unit)


def _table(*columns: str, first: str = "") -> Table:
    result = Table(first, pad_edge=False)
    for column in columns:
        result.add_column(column, justify="right")
    return result

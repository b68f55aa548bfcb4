"""One cell → a value, or a RowError that names the column."""

from __future__ import annotations

import datetime
import math
import re
from functools import lru_cache

from scenarios.errors import notice
from scenarios.traces.table import RowError

MAX_TOKENS = 10_000_000
MAX_SECONDS = 1e12
_SHOWN = 40

_DATE_TIME = re.compile(
    r"(\d{4}-\d\d-\d\d)[ T](\d\d):(\d\d):(\d\d)(?:[.,](\d+))?\s*(Z|[+-]\d\d(?::?\d\d)?)?", re.ASCII | re.IGNORECASE
)
_NANOSECOND = 1_000_000_000


def tokens(cell: object, column: str) -> int:
    """A number of tokens, at least 1: a call with none has failed and is no request."""
    count = whole(cell, column)
    if count == 0:
        raise RowError(notice("trace.row.zero_tokens", column=column))
    return count


def whole(cell: object, column: str) -> int:
    """A whole number from 0 to MAX_TOKENS; 12.0 is one, as tables with gaps write it."""
    if isinstance(cell, str) and cell.isascii() and cell.isdigit() and len(cell) < 8:
        return int(cell)
    number = _number(cell, column)
    if number != int(number):
        raise RowError(notice("trace.row.not_whole", column=column, value=_shown(cell)))
    if not 0 <= number <= MAX_TOKENS:
        raise RowError(notice("trace.row.range", column=column, value=_shown(cell), limit=MAX_TOKENS))
    return int(number)


def seconds(cell: object, column: str, unit: float = 1.0) -> float:
    """A point in time as a number of `unit` seconds."""
    value = _number(cell, column)
    if unit != 1.0:
        value = round(value * unit, 9)
    if abs(value) > MAX_SECONDS:
        raise RowError(notice("trace.row.not_number", column=column, value=_shown(cell)))
    return value


def wall_clock_ns(cell: object, column: str) -> int:
    """An ISO date and time as nanoseconds since 1970, with any number of fraction digits; UTC if no zone is given."""
    _require(cell, column)
    match = _DATE_TIME.fullmatch(cell) if isinstance(cell, str) else None
    if match is None:
        raise RowError(notice("trace.row.not_time", column=column, value=_shown(cell)))
    date, hour, minute, second, fraction, zone = match.groups()
    try:
        midnight = _midnight(date) - _zone_seconds(zone)
    except ValueError:
        raise RowError(notice("trace.row.not_time", column=column, value=_shown(cell))) from None
    if not (int(hour) < 24 and int(minute) < 60 and int(second) <= 60):
        raise RowError(notice("trace.row.not_time", column=column, value=_shown(cell)))
    whole_seconds = midnight + int(hour) * 3600 + int(minute) * 60 + int(second)
    return whole_seconds * _NANOSECOND + (int(fraction[:9].ljust(9, "0")) if fraction else 0)


@lru_cache(maxsize=1024)
def _midnight(date: str) -> int:
    return (datetime.date.fromisoformat(date).toordinal() - datetime.date(1970, 1, 1).toordinal()) * 86_400


@lru_cache(maxsize=128)
def _zone_seconds(zone: str | None) -> int:
    if zone is None or zone in "Zz":
        return 0
    digits = zone[1:].replace(":", "").ljust(4, "0")
    offset = int(digits[:2]) * 3600 + int(digits[2:]) * 60
    return -offset if zone[0] == "-" else offset


def optional_text(cell: object) -> str | None:
    """An id of any kind as text; an empty cell is none."""
    return None if cell is None or cell == "" else str(cell)


def block_ids(cell: object, column: str) -> tuple[int, ...] | None:
    """A list of whole numbers, or None where the row has none."""
    if cell is None:
        return None
    if not isinstance(cell, list) or not all(type(item) is int for item in cell):
        raise RowError(notice("trace.row.not_ids", column=column, value=_shown(cell)))
    return tuple(cell)


def _number(cell: object, column: str) -> float:
    _require(cell, column)
    if isinstance(cell, bool) or not isinstance(cell, (int, float, str)):
        raise RowError(notice("trace.row.not_number", column=column, value=_shown(cell)))
    try:
        number = float(cell) if "_" not in str(cell) else math.nan
    except (ValueError, OverflowError):
        number = math.nan
    if not math.isfinite(number):
        raise RowError(notice("trace.row.not_number", column=column, value=_shown(cell)))
    return number


def _require(cell: object, column: str) -> None:
    if cell is None or cell == "":
        raise RowError(notice("trace.row.missing", column=column))


def _shown(cell: object) -> str:
    text = str(cell)
    return text if len(text) <= _SHOWN else text[: _SHOWN - 1] + "…"

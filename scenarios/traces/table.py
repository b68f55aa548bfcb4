"""Text → rows with named columns, from CSV, JSON lines or a JSON array."""

from __future__ import annotations

import csv
import io
import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from scenarios.errors import Notice, TraceError, notice
from scenarios.traces.record import Skipped

MAX_ROWS = 200_000
_SHOWN_COLUMNS = 12
_DELIMITERS = ",;\t"

Cells = tuple[object, ...]
RawRow = Sequence[str] | Mapping[str, object]


def plain_name(column: str) -> str:
    """A column's name without case, spaces and underscores, which is how columns are compared."""
    return re.sub(r"[\s_]", "", column).casefold()


@dataclass(frozen=True, slots=True)
class Table:
    """Rows with their line numbers. `columns` are named as in the file; `broken` are lines that are no row at all."""

    columns: tuple[str, ...]
    rows: list[tuple[int, RawRow]]
    broken: list[Skipped]

    def has(self, column: str) -> bool:
        return plain_name(column) in {plain_name(name) for name in self.columns}

    def select(self, columns: Sequence[str]) -> Iterator[tuple[int, Cells]]:
        """Each row's cells under the given names, in that order; None where a row has nothing there."""
        pick = self._picker(columns)
        for line, row in self.rows:
            yield line, pick(row)

    def _picker(self, columns: Sequence[str]) -> Callable[[RawRow], Cells]:
        places: dict[str, int] = {}
        for place, name in enumerate(self.columns):
            places.setdefault(plain_name(name), place)
        found = [places.get(plain_name(column)) for column in columns]
        names = [None if place is None else self.columns[place] for place in found]

        def pick(row: RawRow) -> Cells:
            if isinstance(row, Mapping):
                return tuple([None if name is None else row.get(name) for name in names])
            cells = [None if place is None or place >= len(row) else row[place] for place in found]
            return tuple([None if cell is None else cell.strip(" \t") or None for cell in cells])

        return pick


def read_table(text: str, name: str) -> Table:
    """CSV or JSON, told apart by the first character."""
    start = text.lstrip()[:1]
    if start == "[":
        return _from_items(_json(text, name), name)
    if start == "{":
        return _from_json_lines(text, name)
    return _from_csv(text, name)


def _from_json_lines(text: str, name: str) -> Table:
    # Not splitlines(): it also cuts at U+2028, which JSON allows inside a string.
    lines = text.split("\n")
    _check_rows(len(lines), name)
    rows: list[tuple[int, RawRow]] = []
    broken: list[Skipped] = []
    for number, line in enumerate(lines, start=1):
        if line.strip():
            _keep(number, line, rows, broken)
    if not rows:  # one object, written over several lines?
        try:
            rows.append((1, _as_row(json.loads(text))))
            broken.clear()
        except (ValueError, RecursionError):
            raise TraceError("trace.no_json_rows", file=name, line=broken[0].line) from None
    return Table(_keys(row for _, row in rows), rows, broken)


def _keep(number: int, line: str, rows: list[tuple[int, RawRow]], broken: list[Skipped]) -> None:
    try:
        rows.append((number, _as_row(json.loads(line))))
    except (ValueError, RecursionError):
        broken.append(Skipped(number, notice("trace.row.not_json")))


def _from_items(items: object, name: str) -> Table:
    if not isinstance(items, list) or not items:
        raise TraceError("trace.empty", file=name)
    _check_rows(len(items), name)
    rows: list[tuple[int, RawRow]] = []
    broken: list[Skipped] = []
    for number, item in enumerate(items, start=1):
        if isinstance(item, dict):
            rows.append((number, item))
        else:
            broken.append(Skipped(number, notice("trace.row.not_object")))
    if not rows:
        raise TraceError("trace.no_objects", file=name)
    return Table(_keys(row for _, row in rows), rows, broken)


def _as_row(value: object) -> Mapping[str, object]:
    if not isinstance(value, dict):
        raise ValueError("not an object")
    return value


def _json(text: str, name: str) -> object:
    try:
        return json.loads(text)
    except json.JSONDecodeError as error:
        raise TraceError("trace.bad_json", file=name, line=error.lineno, column=error.colno) from error
    except (ValueError, RecursionError) as error:  # digits without end, brackets without end
        raise TraceError("trace.bad_json", file=name, line=1, column=1) from error


def _keys(rows: Iterator[RawRow]) -> tuple[str, ...]:
    """Every key of every row, in order of appearance: rows need not all have the same ones."""
    seen: dict[str, None] = {}
    for row in rows:
        if isinstance(row, Mapping):
            seen.update(dict.fromkeys(row))
    return tuple(seen)


def _from_csv(text: str, name: str) -> Table:
    _check_rows(text.count("\n") + 1, name)
    head = text.lstrip().split("\n", 1)[0]
    delimiter = max(_DELIMITERS, key=head.count)
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter, skipinitialspace=True)
    rows: list[tuple[int, RawRow]] = []
    columns: tuple[str, ...] = ()
    try:
        for row in reader:
            if not any(map(str.strip, row)):
                continue
            if columns:
                rows.append((reader.line_num, row))
            else:
                columns = tuple(cell.strip() for cell in row)
    except csv.Error as error:
        raise TraceError("trace.bad_csv", file=name, line=reader.line_num) from error
    return Table(columns, rows, [])


def _check_rows(rows: int, name: str) -> None:
    if rows > MAX_ROWS + 2:  # a header and a blank last line are no rows
        raise TraceError("trace.too_many_rows", file=name, rows=rows, limit=MAX_ROWS)


def shown(columns: Sequence[str]) -> str:
    """Column names for a sentence: few, and each short, since a file may hold anything."""
    names = [name if len(name) <= 40 else name[:39] + "…" for name in columns[:_SHOWN_COLUMNS]]
    return ", ".join(names) + (", …" if len(columns) > _SHOWN_COLUMNS else "")


class RowError(Exception):
    """This row is no request; the rest of the file may be."""

    def __init__(self, reason: Notice) -> None:
        self.reason = reason
        super().__init__(str(reason))

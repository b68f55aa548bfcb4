"""A trace file → its requests: what it is, which rows are none, and what the reader had to decide."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from pathlib import Path

from scenarios.errors import Notice, TraceError, notice
from scenarios.traces.azure import AZURE
from scenarios.traces.burstgpt import BURSTGPT
from scenarios.traces.content import MAX_BYTES, to_text
from scenarios.traces.format import Format
from scenarios.traces.mooncake import BAILIAN, MOONCAKE
from scenarios.traces.plain import PLAIN
from scenarios.traces.record import Skipped, Trace, TraceRecord
from scenarios.traces.table import RowError, Table, plain_name, read_table, shown
from scenarios.traces.vidur import VIDUR

FORMATS: dict[str, Format] = {format.name: format for format in (AZURE, MOONCAKE, BAILIAN, BURSTGPT, VIDUR, PLAIN)}


def read(data: bytes, name: str, format_name: str | None = None) -> Trace:
    """The trace in `data`; `name` is for messages only. `format_name` (a key of FORMATS) overrules detection.

    Raises TraceError, one sentence, for a file without a single usable request.
    """
    table = read_table(to_text(data, name), name)
    format = _named(format_name, table, name) if format_name else detect(table, name)
    records, skipped = _parse(table, format)
    if not records:
        if not skipped:
            raise TraceError("trace.no_rows", file=name, columns=shown(table.columns))
        first = skipped[0]
        raise TraceError("trace.all_bad", file=name, rows=len(skipped), line=first.line, reason=first.reason)
    ordered, moved = _ordered(records)
    notices = (*format.remarks(table, ordered), *moved)
    return Trace(name, format.name, ordered, tuple(skipped), notices)


def read_path(path: Path, format_name: str | None = None) -> Trace:
    """`read` of a file on disk, which is not read whole if it is too big."""
    try:
        with path.open("rb") as stream:
            data = stream.read(MAX_BYTES + 1)
    except OSError as error:
        raise TraceError("trace.unreadable", file=path, reason=error.strerror or error) from error
    return read(data, path.name, format_name)


def detect(table: Table, name: str) -> Format:
    """The format whose columns are all there, the one with most columns first; else an error naming what is missing."""
    complete = [format for format in FORMATS.values() if not format.missing(table)]
    if complete:
        return max(complete, key=lambda format: len(format.required))
    near = max(FORMATS.values(), key=lambda format: _likeness(format, table))
    if _likeness(near, table) > 0:
        raise _missing(near, table, name)
    raise TraceError(
        "trace.unknown_columns",
        file=name,
        prompt_columns=", ".join(dict.fromkeys(format.prompt_column for format in FORMATS.values())),
        columns=shown(table.columns),
    )


def _likeness(format: Format, table: Table) -> int:
    """Columns in common that tell formats apart: a time stamp does not."""
    return sum(1 for column in format.required if plain_name(column) != "timestamp" and table.has(column))


def _named(format_name: str, table: Table, name: str) -> Format:
    if format_name not in FORMATS:
        raise TraceError("trace.unknown_format", format=format_name, known=", ".join(FORMATS))
    format = FORMATS[format_name]
    if format.missing(table):
        raise _missing(format, table, name)
    return format


def _missing(format: Format, table: Table, name: str) -> TraceError:
    missing = ", ".join(format.missing(table))
    return TraceError(
        "trace.missing_column", file=name, format=format.name, missing=missing, columns=shown(table.columns)
    )


def _parse(table: Table, format: Format) -> tuple[list[TraceRecord], list[Skipped]]:
    parse = format.parser()
    records: list[TraceRecord] = []
    skipped = list(table.broken)
    for line, cells in table.select(format.columns):
        try:
            records.append(parse(line, cells))
        except RowError as error:
            skipped.append(Skipped(line, error.reason))
    skipped.sort(key=lambda row: row.line)
    return records, skipped


def _ordered(records: list[TraceRecord]) -> tuple[tuple[TraceRecord, ...], tuple[Notice, ...]]:
    """Records by arrival, counted from the first; rows that arrive together keep the file's order."""
    late = sum(1 for before, after in pairwise(records) if after.arrival_s < before.arrival_s)
    if late:
        records = sorted(records, key=lambda record: record.arrival_s)
    origin = records[0].arrival_s
    if origin:
        # 9 digits: seconds as floats carry noise below that, and no format is finer than 100 ns
        records = [replace(record, arrival_s=round(record.arrival_s - origin, 9)) for record in records]
    return tuple(records), (notice("trace.sorted", rows=late),) if late else ()

"""What a trace format is: the columns it needs, and how one row of them becomes a record."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from scenarios.errors import Notice
from scenarios.traces.record import TraceRecord
from scenarios.traces.table import Cells, Table

RowParser = Callable[[int, Cells], TraceRecord]
Remarks = Callable[[Table, tuple[TraceRecord, ...]], tuple[Notice, ...]]


def no_remarks(table: Table, records: tuple[TraceRecord, ...]) -> tuple[Notice, ...]:
    return ()


@dataclass(frozen=True, slots=True)
class Format:
    """A family of trace files.

    `prompt_column` holds the prompt's length (or text). `parser()` makes a function (row, cells of `required` then
    `optional`) → record, with arrival in seconds from any origin; it raises RowError. `remarks` are notices.
    """

    name: str
    required: tuple[str, ...]
    optional: tuple[str, ...]
    prompt_column: str
    parser: Callable[[], RowParser]
    remarks: Remarks = no_remarks

    @property
    def columns(self) -> tuple[str, ...]:
        return self.required + self.optional

    def missing(self, table: Table) -> tuple[str, ...]:
        return tuple(column for column in self.required if not table.has(column))

"""Azure LLM inference traces: 2023 (7 fraction digits, no zone), 2024 (zone, fractions or none), 2025 (images too)."""

from __future__ import annotations

from scenarios.errors import Notice, notice
from scenarios.traces import cells
from scenarios.traces.format import Format, RowParser
from scenarios.traces.record import TraceRecord
from scenarios.traces.table import Cells, Table

_IMAGES = "NumImages"


def _parser() -> RowParser:
    origin: int | None = None

    def parse(row: int, values: Cells) -> TraceRecord:
        nonlocal origin
        time, prompt, output = values
        now = cells.wall_clock_ns(time, "TIMESTAMP")
        prompt_tokens = cells.tokens(prompt, "ContextTokens")
        output_tokens = cells.tokens(output, "GeneratedTokens")
        if origin is None:  # subtracted as integers: a float of seconds since 1970 has no digits left for 100 ns
            origin = now
        return TraceRecord(row, (now - origin) / 1e9, prompt_tokens, output_tokens)

    return parse


def _remarks(table: Table, records: tuple[TraceRecord, ...]) -> tuple[Notice, ...]:
    return (notice("trace.images_ignored", column=_IMAGES),) if table.has(_IMAGES) else ()


AZURE = Format(
    name="azure",
    required=("TIMESTAMP", "ContextTokens", "GeneratedTokens"),
    optional=(),
    prompt_column="ContextTokens",
    parser=_parser,
    remarks=_remarks,
)

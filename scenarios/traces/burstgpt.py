"""BurstGPT v1 and v2. Version 2 puts two new columns before Model, so a column's place says nothing."""

from __future__ import annotations

from scenarios.traces import cells
from scenarios.traces.format import Format, RowParser
from scenarios.traces.record import TraceRecord
from scenarios.traces.table import Cells


def _parser() -> RowParser:
    def parse(row: int, values: Cells) -> TraceRecord:
        time, prompt, output, session = values
        return TraceRecord(
            row=row,
            arrival_s=cells.seconds(time, "Timestamp"),
            prompt_tokens=cells.tokens(prompt, "Request tokens"),
            output_tokens=cells.tokens(output, "Response tokens"),
            session=cells.optional_text(session),
        )

    return parse


BURSTGPT = Format(
    name="burstgpt",
    required=("Timestamp", "Request tokens", "Response tokens"),
    optional=("Session ID",),
    prompt_column="Request tokens",
    parser=_parser,
)

"""Vidur's processed traces; the variant with lengths only has no arrival times."""

from __future__ import annotations

from scenarios.errors import Notice, notice
from scenarios.traces import cells
from scenarios.traces.format import Format, RowParser
from scenarios.traces.record import TraceRecord
from scenarios.traces.table import Cells, Table

_ARRIVAL = "arrived_at"


def _parser() -> RowParser:
    def parse(row: int, values: Cells) -> TraceRecord:
        prompt, output, time = values
        return TraceRecord(
            row=row,
            arrival_s=0.0 if time is None else cells.seconds(time, _ARRIVAL),
            prompt_tokens=cells.tokens(prompt, "num_prefill_tokens"),
            output_tokens=cells.tokens(output, "num_decode_tokens"),
        )

    return parse


def _remarks(table: Table, records: tuple[TraceRecord, ...]) -> tuple[Notice, ...]:
    return () if table.has(_ARRIVAL) else (notice("trace.no_arrival", column=_ARRIVAL),)


VIDUR = Format(
    name="vidur",
    required=("num_prefill_tokens", "num_decode_tokens"),
    optional=(_ARRIVAL,),
    prompt_column="num_prefill_tokens",
    parser=_parser,
    remarks=_remarks,
)

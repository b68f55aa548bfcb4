"""vLLM's custom data set: JSON lines of {"prompt", "output_tokens"}, with text and without arrival times."""

from __future__ import annotations

from scenarios.errors import Notice, notice
from scenarios.traces import cells
from scenarios.traces.format import Format, RowParser
from scenarios.traces.record import TraceRecord
from scenarios.traces.table import Cells, RowError, Table

_BYTES_PER_TOKEN = 4  # English text; only until the model's tokenizer counts


def _parser() -> RowParser:
    def parse(row: int, values: Cells) -> TraceRecord:
        prompt, output = values
        if prompt is None:
            raise RowError(notice("trace.row.missing", column="prompt"))
        if not isinstance(prompt, str) or not prompt.strip():
            raise RowError(notice("trace.row.no_text", column="prompt"))
        size = len(prompt.encode("utf-8", "surrogatepass"))
        return TraceRecord(
            row=row,
            arrival_s=0.0,
            prompt_tokens=max(1, round(size / _BYTES_PER_TOKEN)),
            output_tokens=cells.tokens(output, "output_tokens"),
            prompt=prompt,
        )

    return parse


def _remarks(table: Table, records: tuple[TraceRecord, ...]) -> tuple[Notice, ...]:
    return (notice("trace.no_arrival", column="timestamp"), notice("trace.lengths_estimated"))


PLAIN = Format(
    name="vllm-custom",
    required=("prompt", "output_tokens"),
    optional=(),
    prompt_column="prompt",
    parser=_parser,
    remarks=_remarks,
)

"""Traces with content ids of prompt blocks: Mooncake (512 tokens, milliseconds) and Bailian (16 tokens, seconds)."""

from __future__ import annotations

from scenarios.errors import Notice, notice
from scenarios.traces import cells
from scenarios.traces.format import Format, RowParser
from scenarios.traces.record import TraceRecord
from scenarios.traces.table import Cells, Table

MOONCAKE_BLOCK = 512
BAILIAN_BLOCK = 16
_LENGTHS = ("timestamp", "input_length", "output_length")


def _record(row: int, values: Cells, *, unit: float, block: int, session: str | None) -> TraceRecord:
    time, prompt, output, ids = values
    block_ids = cells.block_ids(ids, "hash_ids")
    return TraceRecord(
        row=row,
        arrival_s=cells.seconds(time, "timestamp", unit),
        prompt_tokens=cells.tokens(prompt, "input_length"),
        output_tokens=cells.tokens(output, "output_length"),
        session=session,
        block_ids=block_ids,
        block_tokens=None if block_ids is None else block,
    )


def _mooncake_parser() -> RowParser:
    def parse(row: int, values: Cells) -> TraceRecord:
        session = cells.optional_text(values[4])
        return _record(row, values[:4], unit=1e-3, block=MOONCAKE_BLOCK, session=session)

    return parse


def _bailian_parser() -> RowParser:
    roots: dict[str, str] = {}  # chat → the chat its conversation began with

    def parse(row: int, values: Cells) -> TraceRecord:
        time, prompt, output, chat_id, parent_id, ids = values
        chat, parent = str(chat_id), str(parent_id)
        record = _record(
            row, (time, prompt, output, ids), unit=1.0, block=BAILIAN_BLOCK, session=roots.get(parent, chat)
        )
        roots[chat] = record.session or chat
        return record

    return parse


def _remarks(table: Table, records: tuple[TraceRecord, ...]) -> tuple[Notice, ...]:
    """Ids that do not cover the prompt exactly are worth a word: sharing is then known only in part."""
    uneven = sum(
        1
        for record in records
        if record.block_ids is not None
        and record.block_tokens is not None
        and len(record.block_ids) != -(-record.prompt_tokens // record.block_tokens)
    )
    return (notice("trace.uneven_ids", rows=uneven, total=len(records)),) if uneven else ()


MOONCAKE = Format(
    name="mooncake",
    required=_LENGTHS,
    optional=("hash_ids", "session_id"),
    prompt_column="input_length",
    parser=_mooncake_parser,
    remarks=_remarks,
)
BAILIAN = Format(
    name="bailian",
    required=(*_LENGTHS, "chat_id", "parent_chat_id"),
    optional=("hash_ids",),
    prompt_column="input_length",
    parser=_bailian_parser,
    remarks=_remarks,
)

"""One request of a trace, whatever file it came from."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from scenarios.errors import Notice


@dataclass(frozen=True, slots=True)
class TraceRecord:
    """Lengths and arrival of one request.

    `row`: line in the file (item number in a JSON array). `arrival_s`: seconds after the trace's first request.
    `block_ids`: content ids of the prompt's blocks of `block_tokens` tokens each, equal ids after an equal prefix
    meaning equal tokens. `prompt`: the text, where the trace has it; `prompt_tokens` is then an estimate.
    """

    row: int
    arrival_s: float
    prompt_tokens: int
    output_tokens: int
    session: str | None = None
    block_ids: tuple[int, ...] | None = None
    block_tokens: int | None = None
    prompt: str | None = None


class Skipped(NamedTuple):
    """A row that is no request, and why; `line` counts as `TraceRecord.row` does."""

    line: int
    reason: Notice


@dataclass(frozen=True, slots=True)
class Trace:
    """A trace file: its requests in order of arrival, the rows left out, and what the reader had to decide."""

    name: str
    format: str
    records: tuple[TraceRecord, ...]
    skipped: tuple[Skipped, ...] = ()
    notices: tuple[Notice, ...] = ()

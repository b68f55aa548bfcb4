"""Clips a trace to what the engine can hold and gives it text, and says what was touched."""

from __future__ import annotations

import math
from dataclasses import dataclass

from engine.config import EngineConfig
from engine.request import RequestSpec
from scenarios.errors import Notice, TraceError, notice
from scenarios.traces.passages import Encoder, passage
from scenarios.traces.record import Trace, TraceRecord

DEFAULT_FIRST = 16
MIN_RUN = 8  # tokens of a shared block that tell it apart from all others: its number and a stop
_STEPS_PER_REQUEST = 2
_DEFAULT_STEP_SECONDS = 0.05
_EPSILON = 1e-9


@dataclass(frozen=True, slots=True)
class Touched:
    """How many rows did not go in as they were: `dropped` are those after the first ones taken."""

    prompt: int = 0
    output: int = 0
    dropped: int = 0
    scaled: int = 0


@dataclass(frozen=True, slots=True)
class FittedTrace:
    """Requests ready for an engine with the configuration they were fitted to; ids are `r` and the file's row."""

    requests: tuple[RequestSpec, ...]
    touched: Touched
    notices: tuple[Notice, ...]


def fit(
    trace: Trace,
    config: EngineConfig,
    tokenizer: Encoder,
    *,
    first: int = DEFAULT_FIRST,
    scale: int = 1,
    step_seconds: float,
) -> FittedTrace:
    """The first requests to arrive, lengths divided by `scale`, clipped so that each can run alone.

    A request that is too long keeps at least a quarter of the room for its output. Output lengths are the trace's:
    no stop token ends a request early.
    """
    _check(trace, first, scale, step_seconds)
    room = tokens_per_request(config)
    if room < 2:
        raise TraceError("trace.fit.no_room", room=room)
    records = trace.records[:first]
    numbers = _block_numbers(records)
    requests, prompts_clipped, outputs_clipped = [], [], []
    for record in records:
        tokens, wanted = _prompt(record, tokenizer, numbers, scale, room)
        prompt, output = clip(wanted, -(-record.output_tokens // scale), room)
        if prompt < wanted:
            prompts_clipped.append(prompt)
        if output < -(-record.output_tokens // scale):
            outputs_clipped.append(output)
        arrival = math.floor(record.arrival_s / step_seconds + _EPSILON)
        requests.append(RequestSpec(f"r{record.row}", tokens[:prompt], output, arrival_step=arrival))
    touched = Touched(
        prompt=len(prompts_clipped),
        output=len(outputs_clipped),
        dropped=len(trace.records) - len(records),
        scaled=len(records) if scale > 1 else 0,
    )
    notices = _notices(trace, records, touched, scale, room, prompts_clipped, outputs_clipped)
    return FittedTrace(tuple(requests), touched, notices)


def tokens_per_request(config: EngineConfig) -> int:
    """Most prompt plus output tokens of a request that the engine can finish alone; the last one needs no KV."""
    in_pool = config.usable_blocks * config.block_size - config.num_lookahead_tokens + 1
    return min(config.model_len, in_pool)


def clip(prompt: int, output: int, room: int) -> tuple[int, int]:
    """Lengths that fit `room` together: the output keeps a quarter of it, or all that the prompt leaves."""
    if prompt + output <= room:
        return prompt, output
    kept = min(output, max(room // 4, room - prompt, 1))
    return min(prompt, room - kept), kept


def suggest_step_seconds(trace: Trace, first: int = DEFAULT_FIRST) -> float:
    """A step length (1, 2 or 5 times a power of ten) at which the first requests arrive about two steps apart."""
    records = trace.records[:first]
    span = records[-1].arrival_s
    if span <= 0:
        return _DEFAULT_STEP_SECONDS
    exact = span / (_STEPS_PER_REQUEST * len(records))
    power = 10.0 ** math.floor(math.log10(exact))
    return round(max(step * power for step in (1, 2, 5) if step * power <= exact * (1 + _EPSILON)), 9) or 1e-9


def _check(trace: Trace, first: int, scale: int, step_seconds: float) -> None:
    for field, value in (("first", first), ("scale", scale)):
        if value < 1:
            raise TraceError("trace.fit.range", field=field, value=value, low=1)
    if not step_seconds > 0:
        raise TraceError("trace.fit.range", field="step_seconds", value=step_seconds, low=">0")
    block = min((record.block_tokens for record in trace.records if record.block_tokens), default=None)
    if block is not None and scale > block // MIN_RUN:
        raise TraceError("trace.fit.scale", scale=scale, block=block, limit=block // MIN_RUN)


def _block_numbers(records: tuple[TraceRecord, ...]) -> dict[int, int]:
    """Ids renumbered by first appearance, so that a 64-bit hash does not fill its block with digits."""
    numbers: dict[int, int] = {}
    for record in records:
        for block_id in record.block_ids or ():
            numbers.setdefault(block_id, len(numbers))
    return numbers


def _prompt(
    record: TraceRecord, tokenizer: Encoder, numbers: dict[int, int], scale: int, room: int
) -> tuple[tuple[int, ...], int]:
    """At most `room` tokens of the prompt, and how many it would have without that limit."""
    if record.prompt is not None:
        tokens = tuple(tokenizer.encode(record.prompt))
        wanted = max(1, -(-len(tokens) // scale))
        return tokens[: min(wanted, room)], min(wanted, len(tokens))
    wanted = -(-record.prompt_tokens // scale)
    length = min(wanted, room)
    own = len(numbers) + record.row  # no block's number
    if not record.block_ids or record.block_tokens is None:
        return passage(tokenizer, own, length), wanted
    run = record.block_tokens // scale
    tokens = ()
    for block_id in record.block_ids[: -(-length // run)]:
        tokens += passage(tokenizer, numbers[block_id], run)
    if len(tokens) < length:  # fewer ids than the length asks for: the rest is this row's own
        tokens += passage(tokenizer, own, length - len(tokens))
    return tokens[:length], wanted


def _notices(
    trace: Trace,
    records: tuple[TraceRecord, ...],
    touched: Touched,
    scale: int,
    room: int,
    prompts: list[int],
    outputs: list[int],
) -> tuple[Notice, ...]:
    total = len(records)
    notices = []
    if touched.dropped:
        notices.append(notice("trace.fit.first", kept=total, total=len(trace.records)))
    if scale > 1:
        notices.append(notice("trace.fit.scaled", scale=scale))
    if prompts:
        notices.append(notice("trace.fit.prompt", rows=len(prompts), total=total, limit=max(prompts), room=room))
    if outputs:
        notices.append(notice("trace.fit.output", rows=len(outputs), total=total, limit=max(outputs)))
    if any(record.prompt is None for record in records):
        shared = any(record.block_ids for record in records)
        notices.append(notice("trace.fit.text" if shared else "trace.fit.text_no_ids"))
    return tuple(notices)

"""A fitted trace runs on the engine it was fitted to, and keeps what the trace knows: lengths, order, sharing."""

from __future__ import annotations

import math
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.config import EngineConfig
from engine.engine import Engine
from engine.model.toy import toy_tokenizer
from engine.runner import ScriptedRunner
from scenarios.errors import TraceError
from scenarios.traces import passages
from scenarios.traces.fit import clip, fit, suggest_step_seconds, tokens_per_request
from scenarios.traces.read import read, read_path
from scenarios.traces.record import Trace, TraceRecord
from scenarios.traces.stats import stats

TRACES = Path(__file__).parents[1] / "traces"
TOKENIZER = toy_tokenizer()


def trace_of(*records: TraceRecord) -> Trace:
    return Trace("t", "test", records)


def shared_prefix(left: tuple[int, ...], right: tuple[int, ...]) -> int:
    return next((n for n, (a, b) in enumerate(zip(left, right, strict=False)) if a != b), min(len(left), len(right)))


@pytest.mark.parametrize("name", sorted(path.name for path in TRACES.iterdir()))
@pytest.mark.parametrize(
    "config",
    [
        EngineConfig(),
        EngineConfig(num_blocks=6, block_size=4, max_num_batched_tokens=16),
        EngineConfig(max_model_len=50),
        EngineConfig(enable_chunked_prefill=False, max_num_batched_tokens=64),
        EngineConfig(num_blocks=9, num_lookahead_tokens=3, watermark=0.2),
    ],
)
def test_every_fitted_request_runs_to_its_end(name: str, config: EngineConfig) -> None:
    trace = read_path(TRACES / name)
    fitted = fit(trace, config, TOKENIZER, first=8, scale=4, step_seconds=1.0)
    engine = Engine(config, ScriptedRunner())
    for spec in fitted.requests:
        engine.add(spec)
    while not engine.is_done:
        engine.step()
        assert engine.next_step < 5000
    assert all(request.num_output_tokens == request.spec.max_tokens for request in engine.requests.values())


@given(st.integers(1, 10**6), st.integers(1, 10**6), st.integers(2, 10**5))
def test_clip_fits_and_touches_only_what_it_must(prompt: int, output: int, room: int) -> None:
    kept_prompt, kept_output = clip(prompt, output, room)
    assert 1 <= kept_prompt <= prompt and 1 <= kept_output <= output
    assert kept_prompt + kept_output <= room
    if prompt + output <= room:
        assert (kept_prompt, kept_output) == (prompt, output)
    else:
        assert kept_prompt + kept_output == room
        assert kept_output >= min(output, room // 4)


def test_touched_counts_and_notices() -> None:
    config = EngineConfig(num_blocks=33, block_size=16)  # 512 positions, 513 tokens
    records = [
        TraceRecord(2, 0, 500, 13),
        TraceRecord(3, 1, 501, 13),
        TraceRecord(4, 2, 10, 900),
        TraceRecord(5, 3, 1, 1),
    ]
    fitted = fit(trace_of(*records), config, TOKENIZER, first=3, step_seconds=0.5)
    assert [(len(spec.prompt), spec.max_tokens) for spec in fitted.requests] == [(500, 13), (500, 13), (10, 503)]
    assert (fitted.touched.prompt, fitted.touched.output, fitted.touched.dropped) == (1, 1, 1)
    assert [spec.arrival_step for spec in fitted.requests] == [0, 2, 4]
    said = " ".join(map(str, fitted.notices))
    assert "1 of 3 rows were clipped to 500 prompt tokens" in said and "3 of 4 requests" in said


def test_scaled_lengths_round_up_and_are_counted() -> None:
    fitted = fit(trace_of(TraceRecord(2, 0, 17, 3)), EngineConfig(), TOKENIZER, scale=4, step_seconds=1)
    assert (len(fitted.requests[0].prompt), fitted.requests[0].max_tokens, fitted.touched.scaled) == (5, 1, 1)


def test_arrival_steps_do_not_fall_victim_to_floats() -> None:
    records = [TraceRecord(n + 2, n / 10, 5, 5) for n in range(16)]
    fitted = fit(trace_of(*records), EngineConfig(), TOKENIZER, step_seconds=0.1)
    assert [spec.arrival_step for spec in fitted.requests] == list(range(16))


def test_prompts_without_ids_share_no_block_and_are_the_same_each_time() -> None:
    records = [TraceRecord(n, 0, 200, 5) for n in range(2, 120)]
    first, again = (fit(trace_of(*records), EngineConfig(), TOKENIZER, first=118, step_seconds=1) for _ in range(2))
    assert first == again
    starts = {spec.prompt[:8] for spec in first.requests}
    assert len(starts) == len(records)
    assert TOKENIZER.decode(first.requests[0].prompt).count(" ") > 30  # words, not noise


@settings(deadline=None, max_examples=30)
@given(
    st.lists(st.lists(st.integers(0, 3), min_size=1, max_size=4), min_size=2, max_size=5), st.sampled_from([1, 2, 8])
)
def test_equal_ids_are_equal_tokens_and_unequal_ids_part_at_once(chains: list[list[int]], scale: int) -> None:
    block, run = 64, 64 // scale
    chains = [[hash(tuple(chain[: n + 1])) for n in range(len(chain))] for chain in chains]  # prefix-chained, 64 bits
    records = [
        TraceRecord(n, 0, block * len(ids), 1, block_ids=tuple(ids), block_tokens=block) for n, ids in enumerate(chains)
    ]
    fitted = fit(trace_of(*records), EngineConfig(num_blocks=100), TOKENIZER, scale=scale, step_seconds=1)
    for left, one in zip(chains, fitted.requests, strict=True):
        assert len(one.prompt) == len(left) * run
        for right, other in zip(chains, fitted.requests, strict=True):
            same_blocks = shared_prefix(tuple(left), tuple(right))
            same_tokens = shared_prefix(one.prompt, other.prompt)
            assert same_tokens >= same_blocks * run
            if same_blocks < min(len(left), len(right)):
                assert same_tokens < same_blocks * run + 8


def test_rows_with_and_without_ids_do_not_meet() -> None:
    """The second row's first block is content number 4 of the trace, and row 4 has a text of its own."""
    ids = [(10, 11, 12, 13), (14, 15, 16, 17)]
    records = [TraceRecord(n + 2, 0, 64, 1, block_ids=chain, block_tokens=16) for n, chain in enumerate(ids)]
    fitted = fit(trace_of(*records, TraceRecord(4, 0, 64, 1)), EngineConfig(), TOKENIZER, step_seconds=1)
    _, with_ids, without = (spec.prompt for spec in fitted.requests)
    assert shared_prefix(with_ids, without) < 8


def test_passages_stay_apart_when_there_are_more_of_them_than_words() -> None:
    for number in (1, 1 + len(passages._WORDS)):
        assert len(passages.passage(TOKENIZER, number, 40)) == 40
    assert passages.passage(TOKENIZER, 1, 8) != passages.passage(TOKENIZER, 1 + len(passages._WORDS), 8)


def test_fewer_ids_than_tokens_is_filled_and_more_is_cut() -> None:
    few = TraceRecord(2, 0, 100, 1, block_ids=(0,), block_tokens=16)
    many = TraceRecord(3, 0, 20, 1, block_ids=(0, 1, 2), block_tokens=16)
    fitted = fit(trace_of(few, many), EngineConfig(), TOKENIZER, step_seconds=1)
    assert [len(spec.prompt) for spec in fitted.requests] == [100, 20]
    assert shared_prefix(fitted.requests[0].prompt, fitted.requests[1].prompt) >= 16


def test_text_prompts_are_tokenised() -> None:
    trace = read(b'{"prompt": "Hello there, how are you?", "output_tokens": 3}', "p")
    [spec] = fit(trace, EngineConfig(), TOKENIZER, step_seconds=1).requests
    assert list(spec.prompt) == TOKENIZER.encode("Hello there, how are you?")


def test_a_scale_that_would_melt_blocks_together_is_refused() -> None:
    trace = read_path(TRACES / "mooncake_conversation_head40.jsonl")
    fit(trace, EngineConfig(), TOKENIZER, scale=64, step_seconds=1)
    with pytest.raises(TraceError, match="at most"):
        fit(trace, EngineConfig(), TOKENIZER, scale=65, step_seconds=1)


@pytest.mark.parametrize("wrong", [{"first": 0}, {"scale": 0}, {"step_seconds": 0.0}, {"step_seconds": math.nan}])
def test_nonsense_is_refused(wrong: dict[str, float]) -> None:
    with pytest.raises(TraceError):
        fit(trace_of(TraceRecord(2, 0, 5, 5)), EngineConfig(), TOKENIZER, **{"step_seconds": 1.0, **wrong})  # type: ignore[arg-type]


def test_room_is_what_the_engine_accepts() -> None:
    config = EngineConfig(num_blocks=4, block_size=4)
    assert tokens_per_request(config) == 13
    [spec] = fit(trace_of(TraceRecord(2, 0, 99, 99)), config, TOKENIZER, step_seconds=1).requests
    assert len(spec.prompt) + spec.max_tokens == 13


def test_passage_stride_visits_every_word() -> None:
    assert math.gcd(passages._STRIDE, len(passages._WORDS)) == 1


def test_suggested_step_puts_requests_about_two_steps_apart() -> None:
    trace = read_path(TRACES / "azure_2023_conv_head40.csv")
    seconds = suggest_step_seconds(trace)
    last = fit(trace, EngineConfig(), TOKENIZER, step_seconds=seconds).requests[-1].arrival_step
    assert 16 <= last <= 80
    assert suggest_step_seconds(trace_of(TraceRecord(2, 0, 5, 5))) > 0
    assert suggest_step_seconds(trace_of(TraceRecord(2, 0, 5, 5), TraceRecord(3, 1e-9, 5, 5))) > 0


# statistics


def test_hit_rate_counts_leading_known_ids_only() -> None:
    chains = [(1, 2, 3), (1, 2, 4), (5, 2), (1, 9, 3)]
    records = [TraceRecord(n, n, 1, 1, block_ids=ids, block_tokens=1) for n, ids in enumerate(chains)]
    assert stats(trace_of(*records)).infinite_cache_hit_rate == 3 / 11
    assert stats(trace_of(TraceRecord(2, 0, 5, 5))).infinite_cache_hit_rate is None


def test_quantiles_and_sums() -> None:
    numbers = stats(trace_of(*(TraceRecord(n, n, n + 1, 7) for n in range(100))))
    assert (numbers.requests, numbers.span_s) == (100, 99)
    assert (numbers.prompt.total, numbers.prompt.least, numbers.prompt.p50, numbers.prompt.p90) == (5050, 1, 50, 90)
    assert (numbers.prompt.p99, numbers.prompt.most, numbers.output.total) == (99, 100, 700)


@pytest.mark.parametrize(
    ("name", "rate"), [("mooncake_conversation_head40.jsonl", 0.0380), ("mooncake_synthetic_head40.jsonl", 0.0)]
)
def test_hit_rate_of_the_public_heads(name: str, rate: float) -> None:
    assert stats(read_path(TRACES / name)).infinite_cache_hit_rate == pytest.approx(rate, abs=5e-4)

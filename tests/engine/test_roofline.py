"""The modelled clock against published sizes and times worked out by hand."""

from __future__ import annotations

import pytest

from engine.clock import Measured
from engine.errors import UserError
from engine.metrics import measure
from engine.roofline import GPUS, MODELS, Roofline, read_clock
from tests.engine.replay import engine_of, run, spec

SMOL, ONE_B, EIGHT_B = MODELS
A100, H100, H200, L4 = GPUS


def test_sizes_are_the_published_ones() -> None:
    """Parameters as the Hugging Face hub counts them in each model's safetensors; 128 KiB a token for Llama-3.1-8B."""
    assert [model.parameters for model in MODELS] == [134_515_008, 1_235_814_400, 8_030_261_248]
    assert EIGHT_B.kv_bytes_per_token == 128 * 1024
    assert SMOL.kv_bytes_per_token == 2 * 30 * 3 * 64 * 2
    assert SMOL.weight_bytes == 2 * 134_515_008, "the tied table is the output matrix, and read whole"
    assert EIGHT_B.weight_bytes == 2 * (8_030_261_248 - 128_256 * 4096), "the untied table is not"


def test_one_decode_row_is_bound_by_memory() -> None:
    """8B, position 1023: weights, 1024 positions read, one written. FLOPs per position: 2 · 32 · 218,103,808."""
    work = Roofline(EIGHT_B, A100).work([(1023, 1)])
    assert work.bytes == 15_009_849_344 + 1024 * 131_072 + 131_072
    assert work.flops == 2 * 32 * 218_103_808 + 2 * 4096 * 128_256 + 4 * 32 * 32 * 128 * 1024
    assert work.bytes / A100.bandwidth > 50 * work.flops / A100.flops


def test_a_long_prefill_is_bound_by_compute() -> None:
    """4096 positions see 1 + 2 + … + 4096 keys; logits for the last one only."""
    work = Roofline(EIGHT_B, A100).work([(0, 4096)])
    pairs = 4096 * 4097 // 2
    assert work.flops == 2 * 32 * 218_103_808 * 4096 + 2 * 4096 * 128_256 + 4 * 32 * 32 * 128 * pairs
    assert work.flops / A100.flops > 10 * work.bytes / A100.bandwidth


def test_chunks_see_what_came_before() -> None:
    """A prompt in two chunks computes the same pairs as in one, and reads its first half again."""
    clock = Roofline(SMOL, H200)
    whole, first, second = clock.work([(0, 64)]), clock.work([(0, 32)]), clock.work([(32, 32)])
    logits = 2 * 576 * 49_152
    assert first.flops + second.flops == whole.flops + logits
    assert first.bytes + second.bytes == whole.bytes + SMOL.weight_bytes + 32 * SMOL.kv_bytes_per_token


def test_steps_of_a_run() -> None:
    """A (5, 2): a prefill of 5, then a decode at position 5; the three steps before it arrives take no time."""
    steps = run(engine_of(block_size=4, num_blocks=9), spec("A", 5, 2, arrival_step=3))
    clock = Roofline(SMOL, L4, overhead_ms=2.0)
    kv = SMOL.kv_bytes_per_token
    expected = [0.0, 0.0, 0.0]
    expected += [(SMOL.weight_bytes + moved * kv) / 300e9 * 1e3 + 2.0 for moved in (5 + 5, 6 + 1)]
    assert [clock.step_ms(step) for step in steps] == pytest.approx(expected)
    metrics = measure(steps, clock)
    assert (metrics.clock, metrics.clock_name) == ("modelled", "SmolLM2-135M@L4+2ms")
    assert metrics.requests[0].ttft_ms == pytest.approx(expected[3])
    assert metrics.usage.peak_kv_bytes == 2 * 4 * kv


def test_a_measured_run_does_not_change_the_model() -> None:
    """The same decisions take the same modelled time, whatever they took here."""
    one, other = (run(engine_of(), spec("A", 5, 4)) for _ in range(2))
    clock = Roofline(SMOL, H100)
    assert measure(one, clock) == measure(other, clock)


def test_swaps_go_over_the_host_link_and_copies_through_memory() -> None:
    """TIGHT of the swap tests: 2 blocks of 4 out in step 5; its decode row is on top of that."""
    clock = Roofline(SMOL, A100)
    kv = SMOL.kv_bytes_per_token
    engine = engine_of(preemption="swap", swap_blocks=2, block_size=4, num_blocks=5, enable_prefix_caching=False)
    steps = run(engine, spec("A", 4, 9), spec("B", 4, 9))
    rows = [(event.start, event.tokens) for event in steps[5].events if event.kind == "scheduled"]  # type: ignore[attr-defined]
    link = 2 * 4 * kv / 32e9 * 1e3
    assert clock.step_ms(steps[5]) == pytest.approx(clock.work(rows).bytes / 2.039e12 * 1e3 + link)
    swapped = measure(steps, clock).usage.swapped
    assert swapped.bytes == 4 * 4 * kv and swapped.ms == pytest.approx(2 * link)

    engine = engine_of(block_size=4, num_blocks=9, enable_prefix_caching=False)
    engine.add(spec("A", 6, 4))
    engine.step()
    engine.fork("A", 1)
    step = engine.step()  # both write into the shared tail: one of them copies it first
    moved = clock.work([(6, 1), (6, 1)]).bytes + 2 * 4 * kv
    assert clock.step_ms(step) == pytest.approx(moved / 2.039e12 * 1e3)


def test_clocks_by_name() -> None:
    assert read_clock("measured") == Measured()
    assert read_clock("llama-3.1-8b@h100-sxm", 0.5) == Roofline(EIGHT_B, H100, 0.5)
    assert read_clock("Llama-3.1-8B@H200").name == "Llama-3.1-8B@H200"
    for text in ("", "H200", "SmolLM2-135M", "SmolLM2-135M@B9000", "GPT-9@L4", "@"):
        with pytest.raises(UserError, match="There is no clock called"):
            read_clock(text)
    with pytest.raises(UserError, match="belongs to a modelled clock"):
        read_clock("measured", 1.0)
    for overhead in (-1.0, float("nan"), float("inf")):
        with pytest.raises(UserError, match="overhead_ms"):
            read_clock("SmolLM2-135M@L4", overhead)

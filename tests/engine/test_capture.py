"""A step's launches kept layer by layer: computed again, they are what the step computed and nothing is disturbed."""

from __future__ import annotations

import pytest
import torch

from engine.capture import capture, dense_kv
from engine.config import EngineConfig
from engine.engine import Engine
from engine.errors import UserError
from engine.model.load import load_model
from engine.model_runner import ModelRunner
from engine.request import RequestSpec
from engine.timeline import Step
from kernels.reference import dense_attention, gather_kv, paged_attention

PROMPTS = {"A": tuple(range(10, 27)), "B": tuple(range(40, 46)), "C": (*range(10, 26), 99)}


def started(steps: int, **changes: object) -> tuple[Engine, ModelRunner, list[Step]]:
    config = EngineConfig(block_size=4, num_blocks=40, max_num_batched_tokens=24).with_changes(changes)
    runner = ModelRunner(load_model("toy"), config)
    engine = Engine(config, runner)
    for name, prompt in PROMPTS.items():
        engine.add(RequestSpec(name, prompt, max_tokens=6))
    return engine, runner, [engine.step() for _ in range(steps)]


@pytest.mark.parametrize("cache", ["hash", "radix"])
@pytest.mark.parametrize("steps", [1, 2, 4])
def test_a_capture_is_the_steps_own_launch(steps: int, cache: str) -> None:
    engine, runner, done = started(steps, cache=cache)
    before = [tensor.clone() for tensor in runner.cache.pool.tensors]
    step = done[-1]
    kept = capture(runner, engine.requests, step)
    for new, old in zip(runner.cache.pool.tensors, before, strict=True):
        assert torch.equal(new.view(torch.int32), old.view(torch.int32))  # as bits: unwritten memory may be NaN
    assert kept.requests == tuple(step.scheduled_tokens)
    assert step.kernel is not None
    for layer, (query, output) in enumerate(zip(kept.queries, kept.outputs, strict=True)):
        again = paged_attention(query, kept.layers[layer], kept.meta, kept.rule)
        assert float((again - output).abs().max()) <= 1e-6
    for row, spec in enumerate(kept.requests):
        assert kept.tokens[row] == tuple(engine.requests[spec].token_ids[: int(kept.meta.seq_lens[row])])


def test_dense_kv_is_what_the_pool_holds_and_gives_the_same_attention() -> None:
    engine, runner, done = started(3)
    kept = capture(runner, engine.requests, done[-1])
    for row, tokens in enumerate(kept.tokens):
        dense = dense_kv(runner.loaded.model, tokens)
        for layer in range(len(kept.queries)):
            cache, table, length = kept.layers[layer], kept.meta.block_table[row], len(tokens)
            key, value = (gather_kv(each, None, table, 0, length) for each in (cache.key, cache.value))
            assert float((key - dense.keys[layer]).abs().max()) <= 2e-4
            assert float((value - dense.values[layer]).abs().max()) <= 2e-4
            rows = kept.rows(row)
            expected = dense_attention(
                kept.queries[layer][rows], dense.keys[layer], dense.values[layer], kept.rule.scale
            )
            assert float((expected - kept.outputs[layer][rows]).abs().max()) <= 2e-4


def test_the_engine_goes_on_as_if_nobody_had_looked() -> None:
    engine, runner, done = started(3)
    other, _, _ = started(3)
    capture(runner, engine.requests, done[-1])
    while not engine.is_done:
        assert engine.step().sampled == other.step().sampled


def test_a_long_sequence_needs_no_block_of_its_length() -> None:
    loaded = load_model("toy")
    dense = dense_kv(loaded.model, tuple(range(300)))
    assert dense.keys[0].shape[0] == 300


def test_a_step_without_a_launch_is_said() -> None:
    engine, runner, _ = started(1)
    while not engine.is_done:
        engine.step()
    idle = engine.step()
    with pytest.raises(UserError) as caught:
        capture(runner, engine.requests, idle)
    assert caught.value.key == "capture.nothing"

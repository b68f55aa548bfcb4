"""The whole engine with its decode steps in graphs: requests arrive, finish and are preempted, and nothing shows."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch

from engine.config import EngineConfig
from engine.engine import Engine
from engine.events import Preempted
from engine.model.decode_graph import DecodeGraphs
from engine.model.load import load_model
from engine.model_runner import ModelRunner
from engine.request import RequestSpec
from engine.timeline import Step
from tests.engine.replay import assert_laws
from tests.engine.test_numerics import OUTPUT_TOKENS, assert_same_text, loaded, output, prompts


def specs() -> list[RequestSpec]:
    arrivals = (0, 0, 3, 40, 55)
    return [
        RequestSpec(f"r{number}", prompt, OUTPUT_TOKENS, arrival_step=arrival)
        for number, (prompt, arrival) in enumerate(zip(prompts("toy"), arrivals, strict=True))
    ]


def settings() -> EngineConfig:
    """Too few blocks for three requests at once."""
    longest = max(spec.positions for spec in specs())
    return EngineConfig(block_size=8, num_blocks=longest // 8 + 8, max_num_batched_tokens=256, max_num_seqs=8)


def run(runner: ModelRunner) -> list[Step]:
    """Every step checked against dense attention, every text against transformers."""
    engine = Engine(settings(), runner)
    for spec in specs():
        engine.add(spec)
    steps: list[Step] = []
    while not engine.is_done:
        steps.append(engine.step())
        assert_laws(steps[-1])
        assert steps[-1].is_idle or steps[-1].laws[9].checked
        for row in steps[-1].kernel.rows if steps[-1].kernel else ():
            assert row.attention_mass.shape[1] == -(-row.context_len // 8)
            assert abs(row.attention_mass.sum(axis=1) - 1).max() <= 1e-5
    assert any(isinstance(event, Preempted) for step in steps for event in step.events)
    for spec in specs():
        assert_same_text("toy", spec.prompt, output(engine, spec.id))
    return steps


def test_arrivals_ends_and_preemption() -> None:
    runner = ModelRunner(loaded("toy"), settings())
    assert runner.graphs is None, "on a CPU padding only costs"
    runner.graphs = DecodeGraphs(runner.loaded.model, runner.cache, context_step=16)
    run(runner)
    assert not runner.graphs.failed
    assert len({rows for rows, _ in runner.graphs.buckets}) >= 2
    assert len({context for _, context in runner.graphs.buckets}) >= 2


def test_a_stale_table_is_seen_by_the_dense_check() -> None:
    """Law 10 judges a replay as it does a plain step: here one that keeps the block table of its first."""
    runner = ModelRunner(loaded("toy"), settings())
    tables: list[torch.Tensor] = []

    def capture(compute: Callable[[], None]) -> Callable[[], None]:
        def replay() -> None:
            table = compute.__self__._meta.block_table  # type: ignore[attr-defined]
            if not tables:
                tables.append(table.clone())
            table.copy_(tables[0])
            compute()

        return replay

    runner.graphs = DecodeGraphs(runner.loaded.model, runner.cache, context_step=1024, capture=capture)
    engine = Engine(settings(), runner)
    engine.add(RequestSpec("A", prompts("toy")[0], 20))
    broken = set()
    while not engine.is_done:
        broken |= {law.law for law in engine.step().laws if not law.holds}
    assert broken == {10}


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA GPU on this machine")
def test_replays_equal_plain_steps_on_a_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KVSCOPE_DEVICE", "cuda")
    model = load_model("toy")
    monkeypatch.setenv("KVSCOPE_CUDA_GRAPHS", "1")
    graphed = ModelRunner(model, settings())
    monkeypatch.delenv("KVSCOPE_CUDA_GRAPHS")
    plain = ModelRunner(model, settings())
    assert graphed.graphs is not None
    assert plain.graphs is None
    ours, theirs = run(graphed), run(plain)
    assert not graphed.graphs.failed
    assert graphed.graphs.buckets
    assert [step.scheduled_tokens for step in ours] == [step.scheduled_tokens for step in theirs]
    for mine, other in zip(ours, theirs, strict=True):
        assert (mine.kernel is None) == (other.kernel is None)
        for row, same in zip(
            mine.kernel.rows if mine.kernel else (), other.kernel.rows if other.kernel else (), strict=True
        ):
            assert (row.request, row.context_len, row.slot_mapping) == (
                same.request,
                same.context_len,
                same.slot_mapping,
            )
            assert abs(row.attention_mass - same.attention_mass).max() <= 1e-4

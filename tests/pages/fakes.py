"""Steps for the page tests: the real engine with scripted tokens, and kernel records made up to be recognisable."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache

import numpy as np

from engine.config import EngineConfig
from engine.engine import Engine
from engine.kv_manager import HashBlocks
from engine.request import Request, RequestSpec
from engine.runner import RunnerOutput, ScriptedRunner
from engine.scheduler import Plan
from engine.snapshot import Snapshot
from engine.timeline import KernelRecord, KernelRow, NextToken, Step
from scenarios.schema import RequestEntry

HEADS = 9
TOP = tuple(NextToken(token, f" word{token}", 0.5 / (token + 1)) for token in range(5))


class FakeKernelRunner(ScriptedRunner):
    """Scripted tokens plus a record whose attention mass is 1/n on each of n blocks."""

    def execute(self, requests: Sequence[Request], plan: Plan, kv: HashBlocks) -> RunnerOutput:
        output = super().execute(requests, plan, kv)
        rows = []
        for request in requests:
            table = tuple(block.id for block in kv.block_table(request.id))
            mass = np.full((HEADS, len(table)), 1 / len(table), dtype=np.float32)
            count = plan.tokens[request.id]
            rows.append(
                KernelRow(
                    request=request.id,
                    query_start=0,
                    query_len=count,
                    context_len=request.num_computed_tokens,
                    block_table=table,
                    slot_mapping=tuple(range(count)),
                    attention_mass=mass,
                    max_abs_diff=float(np.float32(1e-6)),
                    top=TOP,
                )
            )
        record = KernelRecord("fake", 14, 30, HEADS, 3, 64, tuple(rows), tolerance=1e-4)
        text = {request.id: f"text of <{request.id}> & more" for request in requests}
        return replace(output, kernel=record, text=text)


@dataclass(frozen=True)
class ScriptedWorkload:
    """Stands for a `Workload` where no model is needed: every request emits a script of its own."""

    config: EngineConfig
    requests: tuple[RequestSpec, ...]
    key: str = "w"
    scripted: tuple[str, ...] = ()
    scenario: str | None = None
    trace: None = None

    def engine(self, config: EngineConfig) -> Engine:
        engine = Engine(config, ScriptedRunner())
        for request in self.requests:
            engine.add(request)
        return engine

    def request(self, entry: RequestEntry) -> RequestSpec:
        assert isinstance(entry.prompt, tuple)
        prompt = tuple(token for token in entry.prompt if isinstance(token, int))
        return RequestSpec(entry.id, prompt, entry.max_tokens, output=tuple(range(9000, 9000 + entry.max_tokens)))

    def prompts(self, added: Mapping[str, tuple[int, ...]]) -> dict[str, str]:
        return {name: f"prompt of {name}" for name in [*(each.id for each in self.requests), *added]}


class Run:
    """A finished run with its initial picture."""

    def __init__(self, config: EngineConfig, specs: Sequence[RequestSpec], *, kernel: bool = True) -> None:
        engine = Engine(config, FakeKernelRunner() if kernel else ScriptedRunner())
        for spec in specs:
            engine.add(spec)
        self.config = config
        self.initial: Snapshot = engine.initial
        self.steps: list[Step] = []
        while not engine.is_done and len(self.steps) < 400:
            self.steps.append(engine.step())

    def first(self, kind: type) -> int:
        """Index of the first step with an event of `kind`."""
        return next(step.index for step in self.steps if any(isinstance(event, kind) for event in step.events))


def spec(name: str, prompt: int, output: int, *, at: int = 0, shared: int = 0) -> RequestSpec:
    """`shared` leading tokens are the same for every request, the rest are its own."""
    own = sum(map(ord, name)) * 1000
    tokens = (*range(1, shared + 1), *range(own, own + prompt - shared))
    script = tuple(own + 500 + index for index in range(output))
    return RequestSpec(name, tokens, output, arrival_step=at, output=script)


@cache
def pressure() -> Run:
    """Few blocks: sharing, preemption, recomputation, eviction."""
    config = EngineConfig(num_blocks=20, block_size=8, max_num_batched_tokens=64, max_num_seqs=6)
    specs = [spec(name, 30, 22, at=place, shared=24) for place, name in enumerate("ABCDE")]
    return Run(config, [*specs, spec("F", 40, 6, at=3), spec("G", 30, 4, at=30, shared=24)])


@cache
def lanes() -> Run:
    """Chunked prefill, a sequence limit, hits at ref count 0, odd names."""
    config = EngineConfig(num_blocks=64, block_size=16, max_num_batched_tokens=64, max_num_seqs=3)
    names = ("A", "B <b>&</b>", "C", "request-with-a-long-name", "E", "F")
    return Run(
        config, [spec(name, 60 + 30 * place, 8 + place, at=place, shared=32) for place, name in enumerate(names)]
    )


@cache
def crowd() -> Run:
    """More requests than any panel has rows."""
    config = EngineConfig(num_blocks=256, block_size=4, max_num_batched_tokens=256, max_num_seqs=40)
    return Run(config, [spec(f"req-{place:02d}", 20 + place, 6, at=place // 8, shared=8) for place in range(40)])


@cache
def wide() -> Run:
    """Very many blocks, so that the pool merges neighbours, and tables longer than their panel."""
    config = EngineConfig(num_blocks=4096, block_size=2, max_num_batched_tokens=512, max_num_seqs=8)
    return Run(config, [spec(name, 90, 4, shared=30) for name in "ABCDEF"], kernel=False)


RUNS = {"pressure": pressure, "lanes": lanes, "crowd": crowd, "wide": wide}

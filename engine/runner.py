"""What computes a planned step: the protocol, and the runner without a model."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from engine.kv_manager import KVManager
from engine.request import Request
from engine.scheduler import Plan
from engine.swap import SwapCost, SwapJob
from engine.timeline import KernelRecord


@dataclass(frozen=True, slots=True)
class RunnerOutput:
    """`tokens`: request id → sampled token, only for rows whose last known token was computed in this step."""

    tokens: Mapping[str, int]
    scripted: frozenset[str] = frozenset()
    kernel: KernelRecord | None = None
    text: Mapping[str, str] = field(default_factory=dict)


class Runner(Protocol):
    """Computes one planned step. Reads requests and block tables, changes neither."""

    vocab_size: int | None

    def execute(self, requests: Sequence[Request], plan: Plan, kv: KVManager) -> RunnerOutput: ...

    def swap(self, job: SwapJob) -> SwapCost:
        """Copies KV between the pool and host memory; called before `execute`, in the order decided."""
        ...

    def fork(self, parent: Request, children: Sequence[Request], draw: bool) -> RunnerOutput:
        """Children start with the parent's KV. With `draw`, each also draws a token from the parent's last logits."""
        ...


def samples(request: Request) -> bool:
    """True if this step reaches the last known token, so that its logits give the next one."""
    return request.num_computed_tokens >= request.num_tokens


class ScriptedRunner:
    """No model: each request emits its script. For policy-only replay and the recorded runs."""

    vocab_size: int | None = None

    def execute(self, requests: Sequence[Request], plan: Plan, kv: KVManager) -> RunnerOutput:
        return self._emit([request for request in requests if samples(request)])

    def fork(self, parent: Request, children: Sequence[Request], draw: bool) -> RunnerOutput:
        return RunnerOutput({}) if not draw else self._emit(children)

    def _emit(self, requests: Sequence[Request]) -> RunnerOutput:
        tokens = {}
        for request in requests:
            script = request.spec.output
            tokens[request.id] = script[request.num_output_tokens] if script is not None else 0
        return RunnerOutput(tokens, frozenset(tokens))

    def swap(self, job: SwapJob) -> SwapCost:
        return SwapCost(bytes=0, ms=None)

"""What the fork tests share: a runner that checks every read, and the scene in which branches meet a small pool."""

from __future__ import annotations

from collections.abc import Sequence

from engine.config import EngineConfig
from engine.engine import Engine
from engine.events import BlockCopied
from engine.kv_manager import HashBlocks
from engine.request import Request
from engine.runner import RunnerOutput, ScriptedRunner
from engine.scheduler import Plan
from engine.timeline import Step


class CheckingRunner(ScriptedRunner):
    """The "KV" of a slot is its token: every position of every row is read back through the block table."""

    def __init__(self) -> None:
        self.slots: dict[tuple[int, int], int] = {}

    def execute(self, requests: Sequence[Request], plan: Plan, kv: HashBlocks) -> RunnerOutput:
        size = kv.config.block_size
        for source, target in plan.copies:
            for offset in range(size):
                self.slots.pop((target, offset), None)
                if (source, offset) in self.slots:
                    self.slots[target, offset] = self.slots[source, offset]
        tables = {request.id: [block.id for block in kv.block_table(request.id)] for request in requests}
        for request in requests:
            for position in range(plan.starts[request.id], request.num_computed_tokens):
                block = tables[request.id][position // size]
                self.slots[block, position % size] = request.token_ids[position]
        for request in requests:
            table = tables[request.id]
            read = [self.slots.get((table[at // size], at % size)) for at in range(request.num_computed_tokens)]
            assert read == request.token_ids[: request.num_computed_tokens], f"{request.id} reads what is not its own"
        return super().execute(requests, plan, kv)


def engine_with_reads(**config: object) -> Engine:
    return Engine(EngineConfig(**config), CheckingRunner())  # type: ignore[arg-type]


def copies(steps: Sequence[Step]) -> list[tuple[int, int, str]]:
    return [
        (event.source, event.target, event.request)
        for step in steps
        for event in step.events
        if isinstance(event, BlockCopied)
    ]


def broken_laws(step: Step) -> list[str]:
    return [f"law {law.law}: {law.broken_by}" for law in step.laws if not law.holds]

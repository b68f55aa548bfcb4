"""Static batching, the baseline before continuous batching: a batch is formed, and nobody joins until it has ended.

Source: Orca (OSDI 2022) §3.1, "request-level scheduling": requests that end early leave their rows idle, those that
arrive late wait for the slowest. A finished row gives its KV back at once; only its place in the batch stays taken.
"""

from __future__ import annotations

from engine.config import EngineConfig
from engine.events import Event, RowsIdle, WaitReason
from engine.kv_manager import KVManager
from engine.scheduler import Plan, Scheduler


class StaticBatching(Scheduler):
    """Admits up to `max_num_seqs` requests at a time, each with room to its very end, so that nobody is preempted."""

    def __init__(self, config: EngineConfig, kv: KVManager, log: list[Event] | None) -> None:
        super().__init__(config, kv, log)
        self.idle_row_steps = 0  # finished rows, summed over the steps in which their batch went on
        self._rows = 0
        self._forming = False

    def schedule(self) -> Plan:
        self._forming = not self.running
        if self._forming:
            self._rows = 0
        return super().schedule()

    def _schedule_waiting(self, plan: Plan, budget: int) -> None:
        if self._forming:
            super()._schedule_waiting(plan, budget)
            self._rows = len(self.running)
            return
        idle = self._rows - len(self.running)
        self.idle_row_steps += idle
        if self.log is not None and idle:
            self.log.append(RowsIdle(idle, self._rows))
        self._note_all_wait(plan, WaitReason("batch", need=self._rows, have=len(self.running)))

    def _may_admit(self, budget: int) -> bool:
        """A batch is a matter of rows; prompts that the step's token budget cannot hold follow in later steps."""
        return budget > 0 or self.config.enable_chunked_prefill

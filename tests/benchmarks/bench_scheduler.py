"""CPU time of schedule + update per step, on the workload the real vLLM scheduler was timed on; and linearity."""

from __future__ import annotations

import gc
import time
from itertools import pairwise

from engine.engine import Engine
from engine.runner import ScriptedRunner
from tests.benchmarks.report import report
from tests.engine import workload

REPETITIONS = 3
LONG_TRACE = 10_000
# Measured with the real vLLM 0.33 Scheduler on this workload, in other sessions on a machine of this kind.
VLLM_US = 6200.0


def main() -> None:
    silent = sorted(_us_per_step(record=False) for _ in range(REPETITIONS))[REPETITIONS // 2]
    recorded = _us_per_step(record=True)
    early, late = _linearity()
    rows: list[tuple[str, str, str, bool | None]] = [
        ("schedule + update, recording off", f"{silent:.0f} µs CPU/step", f"≤ {VLLM_US / 4:.0f} (vLLM / 4)",
         silent <= VLLM_US / 4),
        ("a whole recorded step, model apart", f"{recorded:.0f} µs CPU/step", f"≤ {VLLM_US / 2:.0f} (vLLM / 2)",
         recorded <= VLLM_US / 2),
        ("vLLM 0.33's own Scheduler (recorded elsewhere)", f"{VLLM_US:.0f} µs CPU/step",
         f"ratio {silent / VLLM_US:.2f}", None),
        (f"{LONG_TRACE} requests, CPU per request, second and last tenth", f"{early:.0f} / {late:.0f} µs",
         "equal ± 30 %", late <= 1.3 * early),
    ]  # fmt: skip
    report("Scheduler, 1000 requests, 876 steps, 154 requests a step", rows)


def _us_per_step(record: bool) -> float:
    """Mean CPU microseconds per step; without a record the scripted runner's share is taken out."""
    runner = _Timed()
    engine = Engine(workload.CONFIG, runner, record=record)
    for spec in workload.make():
        engine.add(spec)
    gc.collect()
    gc.freeze()
    steps = 0
    began = time.thread_time_ns()
    while not engine.is_done:
        if record:
            engine.step()
        else:
            engine.advance()
        steps += 1
    total = time.thread_time_ns() - began - runner.spent
    gc.unfreeze()
    return total / 1e3 / steps


class _Timed(ScriptedRunner):
    """Knows how long it took to hand out scripts, which stands for the model."""

    def __init__(self) -> None:
        self.spent = 0

    def execute(self, *arguments):  # type: ignore[no-untyped-def]
        began = time.thread_time_ns()
        output = super().execute(*arguments)
        self.spent += time.thread_time_ns() - began
        return output


def _linearity() -> tuple[float, float]:
    """CPU microseconds per arriving request in the second and the last tenth of a long trace (the first one fills)."""
    engine = Engine(workload.CONFIG, ScriptedRunner(), record=False)
    for spec in workload.make(LONG_TRACE, gap=1.0):
        engine.add(spec)
    marks: list[int] = []
    began = time.thread_time_ns()
    while not engine.is_done:
        engine.advance()
        arrived = len(engine.requests)
        if arrived >= LONG_TRACE // 10 * (len(marks) + 1):
            marks.append(time.thread_time_ns() - began)
    per_tenth = [(later - earlier) / 1e3 / (LONG_TRACE / 10) for earlier, later in pairwise(marks)]
    return per_tenth[0], per_tenth[-1]


if __name__ == "__main__":
    main()

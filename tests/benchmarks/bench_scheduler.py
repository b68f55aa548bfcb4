"""CPU time of a step's decisions, on the workload the real vLLM scheduler was timed on; and linearity.

Not timed, here as there: the model, and the intake of requests, which hashes their prompts.
"""

from __future__ import annotations

import gc
import time
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

from engine.engine import Engine
from engine.laws import Audit
from engine.runner import ScriptedRunner
from tests.benchmarks.report import median, report
from tests.benchmarks.vllm_scheduler import VllmRun, VllmScheduler
from tests.engine import workload

REPETITIONS = 3
LONG_TRACE = 10_000
# vLLM 0.33's own Scheduler on this workload, measured on a machine of this kind on another day; see `--vllm`.
VLLM_US = 6200.0

_FACTS = (workload.VLLM_STEPS, workload.VLLM_TOKENS, workload.VLLM_PREEMPTIONS)


def main(vllm: Path | None = None) -> None:
    rival = VllmScheduler(vllm) if vllm is not None else None
    off: list[float] = []
    recorded: dict[Audit, list[float]] = {"off": [], "changed": []}
    theirs: list[float] = []
    for _ in range(REPETITIONS):  # in turns: other work on the machine then slows all alike
        if rival is not None:
            theirs.append(_checked(rival.run()))
        off.append(_us_per_step(record=False))
        for audit, times in recorded.items():
            times.append(_us_per_step(record=True, audit=audit))
    if rival is not None:
        rival.close()
    vllm_us = median(theirs) if theirs else VLLM_US
    origin = "measured in turns with ours" if theirs else "recorded on another day; --vllm DIR measures it now"
    early, late = _linearity()
    rows: list[tuple[str, str, str, bool | None]] = [
        ("vLLM 0.33's own Scheduler", f"{vllm_us:.0f} µs CPU/step", origin, None),
        _row("recording off", median(off), vllm_us, 1 / 4),
        _row("with events and pictures", median(recorded["off"]), vllm_us, 1 / 2),
        _row("with events, pictures and laws", median(recorded["changed"]), vllm_us, None),
        (f"{LONG_TRACE} requests, CPU per request, second and last tenth", f"{early:.0f} / {late:.0f} µs",
         "equal ± 30 %", late <= 1.3 * early),
    ]  # fmt: skip
    report("Scheduler, 1000 requests, 876 steps, 154 requests a step", rows)


def _row(name: str, us: float, vllm_us: float, share: float | None) -> tuple[str, str, str, bool | None]:
    ratio = us / vllm_us
    target = "" if share is None else f"≤ {share:.2f} of vLLM's"
    return name, f"{us:.0f} µs CPU/step, {ratio:.2f} of vLLM's", target, None if share is None else ratio <= share


def _checked(run: VllmRun) -> float:
    if (run.steps, run.tokens, run.preemptions) != _FACTS:
        raise RuntimeError(f"vLLM did not make the decisions it is known for: {run}")
    return run.us_per_step


def _us_per_step(record: bool, audit: Audit | None = None) -> float:
    """Mean CPU microseconds per step, the scripted runner's share and the intake's taken out."""
    engine = Engine(workload.CONFIG, ScriptedRunner(), record=record, audit=audit)
    for spec in workload.make():
        engine.add(spec)
    model, intake = _Stopwatch(engine.runner.execute), _Stopwatch(engine.scheduler.add)
    engine.runner.execute, engine.scheduler.add = model, intake  # type: ignore[method-assign]
    step = engine.step if record else engine.advance
    gc.collect()
    gc.freeze()
    steps = 0
    began = time.thread_time_ns()
    while not engine.is_done:
        step()
        steps += 1
    total = time.thread_time_ns() - began - model.spent - intake.spent
    gc.unfreeze()
    assert steps == workload.VLLM_STEPS
    return total / 1e3 / steps


class _Stopwatch:
    """A function that knows how much CPU time its calls took, in nanoseconds."""

    def __init__(self, function: Callable[..., object]) -> None:
        self._function = function
        self.spent = 0

    def __call__(self, *arguments):  # type: ignore[no-untyped-def]
        began = time.thread_time_ns()
        result = self._function(*arguments)
        self.spent += time.thread_time_ns() - began
        return result


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

"""Small things that must stay quick: building each diagram and the whole frame, and reading a long trace."""

from __future__ import annotations

import json
import time
from collections.abc import Callable

from engine.config import EngineConfig
from engine.engine import Engine
from engine.runner import ScriptedRunner
from pages.figures.block_tables import block_tables
from pages.figures.free_queue import free_queue
from pages.figures.pool import pool
from pages.figures.schedule import schedule
from pages.ui.frame import first_open, pack
from pages.ui.scene import Scene
from pages.ui.theme import LIGHT
from scenarios.traces.read import read
from tests.benchmarks.report import median, report
from tests.engine import workload

REPETITIONS = 15
CONFIG = EngineConfig(block_size=16, num_blocks=128, max_num_batched_tokens=512, max_num_seqs=12)
STEPS = 20
ROWS = 100_000


def main() -> None:
    engine = Engine(CONFIG, ScriptedRunner())
    for spec in workload.make(requests=60, gap=0.1):
        if spec.positions < 200:
            engine.add(spec)
    steps = [engine.step() for _ in range(STEPS)]
    cursor, snapshot = len(steps) - 1, steps[-1].snapshot
    builders: dict[str, Callable[[], object]] = {
        "pool": lambda: pool(snapshot, {}, None, LIGHT, "en"),
        "block tables": lambda: block_tables(snapshot, {}, None, LIGHT, "en"),
        "free queue": lambda: free_queue(snapshot, {}, None, LIGHT, "en"),
        "schedule": lambda: schedule(steps, cursor, CONFIG.max_num_batched_tokens, None, LIGHT, "en"),
    }

    def whole() -> dict[str, object]:
        return pack([Scene(steps, cursor, engine.initial, CONFIG, LIGHT, "en")], first_open("hash"))

    rows: list[tuple[str, str, str, bool | None]] = []
    for name, build in builders.items():
        rows.append(_row(f"{name}, {CONFIG.num_blocks} blocks", _milliseconds(build), 2.0))
    rows.append(_row("whole frame", _milliseconds(whole), 40.0))
    size = len(json.dumps(whole())) / 1024
    rows.append(("frame on the wire", f"{size:.0f} KB", "≤ 70 KB", size <= 70))
    data = _trace()
    began = time.process_time()
    read(data, "long.csv")
    spent = time.process_time() - began
    rows.append((f"reading {ROWS} Azure rows", f"{spent:.1f} s CPU", "≤ 2 s", spent <= 2.0))
    report("Pieces", rows)


def _row(name: str, milliseconds: float, limit: float) -> tuple[str, str, str, bool | None]:
    return name, f"{milliseconds:.2f} ms", f"≤ {limit:g} ms", milliseconds <= limit


def _milliseconds(build: Callable[[], object]) -> float:
    times = []
    for _ in range(REPETITIONS):
        began = time.perf_counter()
        build()
        times.append((time.perf_counter() - began) * 1e3)
    return median(times)


def _trace() -> bytes:
    lines = ["TIMESTAMP,ContextTokens,GeneratedTokens"]
    for row in range(ROWS):
        second = row % 86_400
        lines.append(f"2024-05-10 {second // 3600:02}:{second // 60 % 60:02}:{second % 60:02}.123456+00:00,12,3")
    return "\n".join(lines).encode()


if __name__ == "__main__":
    main()

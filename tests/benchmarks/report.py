"""How benchmarks print: one row a figure, with its target and a verdict, and the machine they ran on."""

from __future__ import annotations

import os
import platform
import statistics
from collections.abc import Sequence
from datetime import date
from pathlib import Path

from rich.console import Console
from rich.table import Table

_CONSOLE = Console()


def machine() -> str:
    """Processor, cores, Python; no host name."""
    name = platform.processor() or platform.machine()
    info = Path("/proc/cpuinfo")
    if info.exists():
        models = [line.split(":", 1)[1].strip() for line in info.read_text().splitlines() if "model name" in line]
        name = models[0] if models else name
    return f"{name}, {os.cpu_count()} cores, Python {platform.python_version()}, {date.today().isoformat()}"


def report(title: str, rows: Sequence[tuple[str, str, str, bool | None]]) -> None:
    """Prints (what, measured, target, met) rows."""
    table = Table(title=f"{title} ({machine()})", title_justify="left")
    for column in ("figure", "measured", "target", ""):
        table.add_column(column)
    for what, measured, target, met in rows:
        table.add_row(what, measured, target, "" if met is None else "met" if met else "MISSED")
    _CONSOLE.print(table)


def median(values: Sequence[float]) -> float:
    return statistics.median(values)


def p95(values: Sequence[float]) -> float:
    return sorted(values)[max(0, round(0.95 * len(values)) - 1)]

"""`make bench`: the numbers of BENCHMARKS.md, measured on this machine now."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path

from tests.benchmarks import (
    bench_engine,
    bench_kernels,
    bench_model,
    bench_pieces,
    bench_radix,
    bench_scheduler,
    bench_ui,
)

BENCHMARKS: dict[str, Callable[[], None]] = {
    "scheduler": bench_scheduler.main,
    "engine": bench_engine.main,
    "model": bench_model.main,
    "kernels": bench_kernels.main,
    "pieces": bench_pieces.main,
    "ui": bench_ui.main,
    "radix": bench_radix.main,
}


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks", description=__doc__)
    parser.add_argument("names", nargs="*", choices=[[], *BENCHMARKS], help="which; all of them by default")
    parser.add_argument("--sglang", type=Path, help="folder that holds the package sglang, for radix")
    parser.add_argument("--vllm", type=Path, metavar="DIR", help="site-packages with vLLM 0.33, for scheduler")
    options = parser.parse_args()
    for name in options.names or BENCHMARKS:
        if name == "radix":
            bench_radix.main(options.sglang)
        elif name == "scheduler":
            bench_scheduler.main(options.vllm)
        else:
            BENCHMARKS[name]()


if __name__ == "__main__":
    main()

"""`make bench`: the numbers of BENCHMARKS.md, measured on this machine now."""

from __future__ import annotations

import argparse

from tests.benchmarks import bench_engine, bench_page, bench_pieces, bench_scheduler

BENCHMARKS = {
    "scheduler": bench_scheduler.main,
    "engine": bench_engine.main,
    "pieces": bench_pieces.main,
    "page": bench_page.main,
}


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks", description=__doc__)
    parser.add_argument("names", nargs="*", choices=[[], *BENCHMARKS], help="which; all of them by default")
    for name in parser.parse_args().names or BENCHMARKS:
        BENCHMARKS[name]()


if __name__ == "__main__":
    main()

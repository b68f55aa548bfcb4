"""`python -m kernels offline`: what the compiler made of each kernel, without a GPU. `tune`: tilings timed on one."""

from __future__ import annotations

import argparse
import json
import sys
from dataclasses import asdict

import torch

from kernels import offline
from kernels.errors import KernelError
from kernels.tune import tune


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m kernels", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    command = commands.add_parser("offline", help="compile every kernel and print registers, spills, memory, PTX size")
    command.add_argument("--sm", type=int, nargs="+", default=list(offline.CAPABILITIES), help="GPU generations")
    command.add_argument("--show", metavar="KERNEL", choices=list(offline.catalogue()), help="print one kernel's text")
    command.add_argument("--stage", choices=offline.STAGES, default="ptx", help="which text --show prints")
    command.add_argument("--json", action="store_true", help="print all of what --show can print, and the numbers")
    command.add_argument("--write-baseline", action="store_true", help=f"keep the numbers in {offline.BASELINE.name}")
    commands.add_parser("tune", help="time the tilings of decode attention on this machine's GPU (9, 3, 64), bf16")
    arguments = parser.parse_args()
    try:
        return _tune() if arguments.command == "tune" else _offline(arguments)
    except KernelError as error:
        print(f"python -m kernels: {error}", file=sys.stderr)
        return 1


def _tune() -> int:
    for tiling, milliseconds in tune(9, 3, 64, torch.bfloat16).items():
        print(f"{milliseconds:8.4f} ms  {tiling}")
    return 0


def _offline(arguments: argparse.Namespace) -> int:
    if arguments.show:
        launch = offline.catalogue()[arguments.show]()
        one = offline.compile_launch(arguments.show, launch, arguments.sm[0])
        print(json.dumps(asdict(one)) if arguments.json else one.text[arguments.stage])
        return 0
    compiled = list(offline.compile_all(tuple(arguments.sm)))
    print(offline.table(compiled))
    now = offline.as_json(compiled)
    if arguments.write_baseline:
        offline.BASELINE.write_text(json.dumps(now, indent=1) + "\n", encoding="utf-8")
        return 0
    problems = offline.regressions(offline.read_baseline(), now)
    print("\n".join(problems), file=sys.stderr, end="\n" if problems else "")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())

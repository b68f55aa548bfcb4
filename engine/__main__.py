"""`python -m engine golden SCENARIO.json --out RESULT.json`: the engine without a browser."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from engine.errors import UserError
from engine.golden import replay_file


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m engine", description="kvscope's engine, headless.")
    commands = parser.add_subparsers(dest="command", required=True)
    golden = commands.add_parser("golden", help="replay a recorded vLLM or SGLang scenario, write the whole result")
    golden.add_argument("scenario", type=Path, help="NN_name.scenario.json")
    golden.add_argument("--out", type=Path, required=True, help="where the result goes")
    options = parser.parse_args(arguments)
    try:
        replay_file(options.scenario, options.out)
    except (UserError, OSError) as error:
        print(error, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())

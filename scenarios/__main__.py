"""`python -m scenarios run | inspect | list | schema | record`: scenarios and traces without a browser."""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.table import Table

from engine.errors import UserError
from engine.metrics import RunMetrics, measure
from engine.timeline import Step
from scenarios import load
from scenarios.schema import json_schema
from scenarios.traces.fit import DEFAULT_FIRST
from scenarios.traces.read import FORMATS, read_path
from scenarios.traces.stats import Lengths, stats

if TYPE_CHECKING:
    from scenarios.run import Job

_SKIPPED_SHOWN = 10


def main(arguments: Sequence[str] | None = None) -> int:
    options = _parser().parse_args(arguments)
    try:
        status: int = options.do(options)
        sys.stdout.flush()
    except (UserError, OSError) as error:
        if isinstance(error, BrokenPipeError):  # `| head` has seen enough
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            return 1
        print(" ".join(str(error).split()), file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130
    return status


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m scenarios", description="Scenarios and traces without a browser.")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")

    running = commands.add_parser("run", help="run a scenario or a trace to its end")
    running.add_argument("workload", metavar="SCENARIO|TRACE", help="name, scenario file or trace file")
    running.add_argument("--set", dest="settings", action="append", default=[], metavar="KEY=VALUE", help="a setting")
    running.add_argument("--model", help="toy, smollm2 or a path; default: what the scenario names")
    running.add_argument("--first", type=int, default=DEFAULT_FIRST, help="trace: how many requests")
    running.add_argument("--scale", type=int, default=1, help="trace: divide all lengths by this")
    running.add_argument("--step-seconds", type=float, help="trace: seconds of the trace that make one step")
    running.add_argument("--json", action="store_true", help="the whole run as JSON")
    running.set_defaults(do=_run)

    inspecting = commands.add_parser("inspect", help="say what a trace file is")
    inspecting.add_argument("file", type=Path)
    inspecting.add_argument("--format", choices=list(FORMATS), help="overrule what the columns say")
    inspecting.add_argument("--json", action="store_true")
    inspecting.set_defaults(do=_inspect)

    commands.add_parser("list", help="the scenarios of the library").set_defaults(do=_list)
    commands.add_parser("schema", help="the JSON schema of a scenario file").set_defaults(do=_schema)
    recording = commands.add_parser("record", help="run scenarios of the library on their models and keep the tokens")
    recording.add_argument("names", nargs="*", metavar="NAME", help="default: all of them")
    recording.set_defaults(do=_record)
    return parser


def _run(options: argparse.Namespace) -> int:
    from scenarios import run  # here, since it brings torch, which the other commands need not wait for

    job = run.prepare(
        options.workload,
        run.Options(
            settings=dict(run.setting(text) for text in options.settings),
            model=options.model,
            first=options.first,
            scale=options.scale,
            step_seconds=options.step_seconds,
        ),
    )
    ran = list(run.steps(job))
    if options.json:
        _print_json(run.document(job, ran))
    else:
        _show_run(job, ran, run.table(ran))
    error = run.complaint(job, ran)
    if error is not None:
        raise error
    return 0


def _show_run(job: Job, ran: Sequence[Step], table: Table) -> None:
    console = Console(width=None if sys.stdout.isatty() else 160)
    console.print(f"{job.name} on {job.loaded.title}", markup=False)
    for each in job.notices:
        console.print(f"· {each}", markup=False)
    console.print(table)
    _show_totals(console, measure(ran))
    for request, text in (ran[-1].text if ran else {}).items():
        console.print(f"{request}: {text!r}", markup=False)


def _inspect(options: argparse.Namespace) -> int:
    trace = read_path(options.file, options.format)
    numbers = stats(trace)
    rate = numbers.infinite_cache_hit_rate
    if options.json:
        _print_json(
            {
                "format": trace.format,
                "requests": numbers.requests,
                "skipped": [{"line": row.line, "reason": str(row.reason)} for row in trace.skipped],
                "span_s": numbers.span_s,
                "prompt_tokens": numbers.prompt.total,
                "output_tokens": numbers.output.total,
                "prompt_quantiles": _quantiles(numbers.prompt),
                "output_quantiles": _quantiles(numbers.output),
                "infinite_cache_hit_rate": rate,
                "notices": [str(each) for each in trace.notices],
            }
        )
        return 0
    print(f"{trace.name}: {trace.format} format, {numbers.requests} requests in {numbers.span_s:g} s")
    for name, lengths in (("prompt", numbers.prompt), ("output", numbers.output)):
        spread = ", ".join(f"{key} {value}" for key, value in _quantiles(lengths).items())
        print(f"{name} tokens: {lengths.total} ({spread})")
    print("infinite cache hit rate: " + ("unknown, no block ids" if rate is None else f"{rate:.1%} of blocks"))
    for each in trace.notices:
        print(each)
    for row in trace.skipped[:_SKIPPED_SHOWN]:
        print(f"skipped line {row.line}: {row.reason}")
    if len(trace.skipped) > _SKIPPED_SHOWN:
        print(f"skipped {len(trace.skipped) - _SKIPPED_SHOWN} more lines")
    return 0


def _quantiles(lengths: Lengths) -> dict[str, int]:
    return {"min": lengths.least, "p50": lengths.p50, "p90": lengths.p90, "p99": lengths.p99, "max": lengths.most}


def _list(options: argparse.Namespace) -> int:
    for name in load.library():
        scenario = load.load(name)
        print(f"{name:20} {scenario.title.en}. {scenario.summary.en}")
    return 0


def _schema(options: argparse.Namespace) -> int:
    _print_json(json_schema())
    return 0


def _record(options: argparse.Namespace) -> int:
    from scenarios import recording, run

    kept = dict(recording.recordings()) if recording.FILE.is_file() else {}
    for name in options.names or load.library():
        job = run.prepare(name, run.Options(settings={}))
        ran = list(run.steps(job))
        kept[name] = recording.recording(job.requests, ran)
        print(f"{name}: {len(ran)} steps on {job.loaded.name}")
    recording.write({name: kept[name] for name in load.library() if name in kept})
    return 0


def _show_totals(console: Console, totals: RunMetrics) -> None:
    """What the run cost and gave; a rate without data is left out."""
    rate = "" if totals.hit_rate is None else f", first hits {totals.hit_rate:.0%} of prompt tokens"
    console.print(
        f"{totals.steps} steps: {totals.computed_tokens} positions computed, {totals.recomputed_tokens} of them again; "
        f"{totals.output_tokens} tokens out, {totals.preemptions} preemptions{rate}, "
        f"at most {totals.peak_owned_blocks} blocks owned",
        highlight=False,
    )


def _print_json(value: Any) -> None:
    print(json.dumps(value, ensure_ascii=False, indent=1))


if __name__ == "__main__":
    sys.exit(main())

"""`python -m scenarios run | compare | inspect | list | schema | record`: scenarios and traces without a browser."""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.console import Console

from engine.errors import UserError
from scenarios import load
from scenarios.schema import json_schema
from scenarios.traces.fit import DEFAULT_FIRST
from scenarios.traces.read import FORMATS, read_path
from scenarios.traces.stats import Lengths, stats

if TYPE_CHECKING:
    from engine.clock import Clock
    from engine.metrics import Targets
    from scenarios.run import Options

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
    _add_workload(running)
    running.set_defaults(do=_run)

    comparing = commands.add_parser("compare", help="run it under two configurations, and say where they part and why")
    _add_workload(comparing)
    for side in ("a", "b"):
        comparing.add_argument(f"--{side}", action="append", default=[], metavar="KEY=VALUE", help=f"side {side} only")
    comparing.set_defaults(do=_compare)

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


def _add_workload(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("workload", metavar="SCENARIO|TRACE", help="name, scenario file or trace file")
    parser.add_argument("--set", dest="settings", action="append", default=[], metavar="KEY=VALUE", help="a setting")
    parser.add_argument("--model", help="toy, smollm2 or a path; default: what the scenario names")
    parser.add_argument(
        "--weights", metavar="FORMAT", help="fp32 (default), bf16, int8, int4, or auto: the fastest here"
    )
    parser.add_argument("--first", type=int, default=DEFAULT_FIRST, help="trace: how many requests")
    parser.add_argument("--scale", type=int, default=1, help="trace: divide all lengths by this")
    parser.add_argument("--step-seconds", type=float, help="trace: seconds of the trace that make one step")
    parser.add_argument("--clock", default="measured", metavar="measured|MODEL@GPU", help="whose time metrics are in")
    parser.add_argument("--overhead-ms", type=float, default=0.0, help="modelled clock: launch overhead of a step")
    parser.add_argument("--ttft-ms", type=float, help="goodput: time to first token at most")
    parser.add_argument("--tpot-ms", type=float, help="goodput: time per output token at most")
    parser.add_argument("--json", action="store_true", help="everything as JSON")


def _run(options: argparse.Namespace) -> int:
    from scenarios import report, run  # here, since it brings torch, which the other commands need not wait for

    clock, targets = _yardstick(options)
    job = run.prepare(options.workload, _options(options, dict(run.setting(text) for text in options.settings)))
    ran = list(run.steps(job))
    metrics = run.metrics(job, ran, clock, targets)
    if options.json:
        _print_json(run.document(job, ran, metrics))
    else:
        console = _console()
        for line in (f"{job.name} on {job.loaded.title}", *(f"· {each}" for each in job.notices)):
            console.print(line, markup=False)
        console.print(run.table(ran), report.clock_line(metrics), *report.tables(metrics))
        for request, text in (ran[-1].text if ran else {}).items():
            console.print(f"{request}: {text!r}", markup=False)
    error = run.complaint(job, ran)
    if error is not None:
        raise error
    return 0


def _compare(options: argparse.Namespace) -> int:
    from scenarios import compare, report, run  # here, for the same reason

    clock, targets = _yardstick(options)
    a, b = (_options(options, settings) for settings in compare.sides(options.settings, options.a, options.b))
    found = compare.compare(options.workload, a, b, clock, targets)
    if options.json:
        _print_json(compare.document(found))
    else:
        console = _console()
        job = found.jobs[0]
        lines = (f"{job.name} on {job.loaded.title}", *(f"· {each}" for each in job.notices))
        for line in (*lines, *map(str, compare.sentences(found)), report.clock_line(found.a.metrics)):
            console.print(line, markup=False, highlight=False)
        console.print(compare.table(found))
    for job, side in zip(found.jobs, (found.a, found.b), strict=True):
        error = run.complaint(job, side.steps)
        if error is not None:
            raise error
    return 0


def _yardstick(options: argparse.Namespace) -> tuple[Clock, Targets | None]:
    """The clock and the targets of the metrics, refused before anything runs."""
    from engine.metrics import Targets
    from engine.roofline import read_clock

    asked = (options.ttft_ms, options.tpot_ms)
    targets = None if asked == (None, None) else Targets(*asked)
    return read_clock(options.clock, options.overhead_ms), targets


def _options(options: argparse.Namespace, settings: Mapping[str, object]) -> Options:
    from scenarios.run import Options

    return Options(
        settings=settings,
        model=options.model,
        weights=options.weights,
        first=options.first,
        scale=options.scale,
        step_seconds=options.step_seconds,
    )


def _console() -> Console:
    return Console(width=None if sys.stdout.isatty() else 160)


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


def _print_json(value: Any) -> None:
    print(json.dumps(value, ensure_ascii=False, indent=1))


if __name__ == "__main__":
    sys.exit(main())

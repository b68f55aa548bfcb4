"""A kernel's Triton source beside what the compiler made of it, stage by stage, and which line became which.

For a page: compiles once for each kernel and GPU generation and keeps it; in another process where this one is Triton's
interpreter, which cannot.
"""

from __future__ import annotations

import inspect
import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass, replace
from importlib.util import find_spec
from pathlib import Path
from threading import Lock

from kernels.errors import KernelError
from kernels.offline import Compiled, Facts, catalogue, compile_launch

ROOT = Path(__file__).parents[1]
COMPILE_TIMEOUT = 300.0  # seconds, with the import of torch and triton on a busy machine

Lines = tuple[int | None, ...]


@dataclass(frozen=True, slots=True)
class Listing:
    """`source` is the Triton function as it stands in `file`, from line `first_line` on.

    compiled.text holds the stages; lines: for each of them and each line of its text, the number of the source line it
    comes from. None: it comes from none, or from a function that others call too and whose caller is not known.
    """

    compiled: Compiled
    file: str
    source: str
    first_line: int
    lines: dict[str, Lines]


def names() -> tuple[str, ...]:
    """The kernels that can be listed."""
    return tuple(catalogue())


def listing(name: str, capability: int) -> Listing:
    """One of `names` for one GPU generation (80, 90, ...): seconds the first time, then from memory.

    Raises KernelError for another name, where triton is missing and where the compiler gives up.
    """
    if name not in catalogue():
        raise KernelError("name", f"there is no kernel {name!r}")
    if find_spec("triton") is None:
        raise KernelError("triton", "is not installed here (it has wheels for Linux only)")
    with _lock:
        if (name, capability) not in _kept:
            _kept[name, capability] = _list(name, capability)
        return _kept[name, capability]


_lock = Lock()
_kept: dict[tuple[str, int], Listing] = {}


def _list(name: str, capability: int) -> Listing:
    import triton

    compile_it = _compile_elsewhere if triton.knobs.runtime.interpret else _compile_here
    compiled = compile_it(name, capability)
    function = catalogue()[name]().kernel.fn
    path = Path(inspect.getfile(function))
    source, first = inspect.getsourcelines(function)
    text = {stage: _without_places(code) for stage, code in compiled.text.items()}
    span = range(first, first + len(source))
    lines = {
        stage: tuple(line if line in span else None for line in _READERS[stage](code, path.name))
        for stage, code in text.items()
    }
    place = str(path.relative_to(ROOT)) if path.is_relative_to(ROOT) else path.name
    return Listing(replace(compiled, text=text), place, "".join(source), first, lines)


def _compile_here(name: str, capability: int) -> Compiled:
    try:
        return compile_launch(name, catalogue()[name](), capability)
    except KernelError:
        raise
    except Exception as error:  # whatever a compiler may raise, the page shall say it
        reason = (str(error).strip().splitlines() or ["no reason was given"])[0]
        raise KernelError("compiler", f"failed for sm_{capability}: {type(error).__name__}: {reason}") from error


def _compile_elsewhere(name: str, capability: int) -> Compiled:
    command = [sys.executable, "-m", "kernels", "offline", "--show", name, "--sm", str(capability), "--json"]
    environment = {key: value for key, value in os.environ.items() if key != "TRITON_INTERPRET"}
    try:
        done = subprocess.run(
            command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False, timeout=COMPILE_TIMEOUT
        )
    except subprocess.TimeoutExpired:
        raise KernelError("compiler", f"did not end within {COMPILE_TIMEOUT:g} s") from None
    if done.returncode:
        reason = (done.stderr.strip().splitlines() or ["no reason was given"])[-1]
        raise KernelError("compiler", f"failed for sm_{capability}: {reason.removeprefix('python -m kernels: ')}")
    fields = json.loads(done.stdout)
    return Compiled(**{**fields, "facts": Facts(**fields["facts"])})


def _without_places(code: str) -> str:
    """Files by their names within the project or the package: where those lie is nobody's business."""
    # Not by the folders of this very installation: what Triton has cached was compiled wherever that was.
    return re.sub(r"/[^\s\"']*/(?=(?:triton|kernels)/[^\s\"']*\.py)", "", code)


def _ir_lines(code: str, file: str) -> Iterator[int | None]:
    """MLIR: each operation ends in `loc(#locN)`, whose definition stands elsewhere in the text."""
    defined = dict(re.findall(r"^#(loc\d*) = loc\((.*)\)$", code, re.MULTILINE))
    found: dict[str, int | None] = {}

    def line_of(name: str) -> int | None:
        """The outermost line in the file: a call inlined from elsewhere counts as the line that calls."""
        if name not in found:
            text = defined.get(name, "")
            here = re.match(rf'"(?:[^"]*/)?{re.escape(file)}":(\d+):', text)
            # `callsite(callee at caller)`, `"name"(place)`, `fused[place, place]`: the caller comes last
            inner = (line_of(other) for other in reversed(re.findall(r"#(loc\d*)", text)))
            found[name] = int(here[1]) if here else next((line for line in inner if line is not None), None)
        return found[name]

    for text in code.splitlines():
        place = re.search(r"loc\(#(loc\d*)\)$", text)
        yield line_of(place[1]) if place and not text.startswith("#") else None


def _ptx_lines(code: str, file: str) -> Iterator[int | None]:
    """PTX: `.loc` holds for what follows, its comment names who called: `// callee:1:2 @[ caller:3:4 ]`."""
    line: int | None = None
    for text in code.splitlines():
        if text.lstrip().startswith(".loc"):
            places = re.findall(rf"\b{re.escape(file)}:(\d+):", text)
            line = int(places[-1]) if places else None
        elif text.startswith(("}", "\t.section")):
            line = None
        yield line if text.strip() and not text.startswith("\t.section") else None


def _sass_lines(code: str, file: str) -> Iterator[int | None]:
    """SASS: `//## File "...", line N` holds for what follows; of an inlined function only its own line is known."""
    line: int | None = None
    for text in code.splitlines():
        place = re.match(r'\s*//## File "([^"]*)", line (\d+)', text)
        if place:
            line = int(place[2]) if Path(place[1]).name == file else None
        elif not text.strip() or text.startswith("\t."):
            line = None
        yield line


_READERS = {"ttir": _ir_lines, "ttgir": _ir_lines, "ptx": _ptx_lines, "sass": _sass_lines}

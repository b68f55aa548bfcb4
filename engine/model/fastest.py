"""Which weight format is fastest on this machine: measured once, kept in the cache folder, used by `weights=auto`."""

from __future__ import annotations

import contextlib
import hashlib
import json
import platform
import time
import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from math import prod
from pathlib import Path

import torch
from torch import Tensor

from engine.model.matrix import FORMATS, Format, make_matrix
from engine.model.spec import LlamaSpec
from engine.model.weights import cache_home

# A lone request, a small batch of decodes, a chunk of a prompt.
ROWS = (1, 8, 256)
_REPETITIONS = 3
_SAMPLE_BYTES = 64 << 20  # enough not to lie in a core's own cache
_MARGIN = 0.9  # a format must take at most this share of float32's time, or it is not worth its error
_SCHEMA = 1


@dataclass(frozen=True, slots=True)
class Measured:
    """`ms`: format → milliseconds of a sample of the model's matrices, per entry of `ROWS`. `chosen`: the fastest."""

    ms: Mapping[Format, tuple[float, ...]]
    chosen: Format

    def ratio(self, form: Format) -> float:
        """Time of this format over float32's, geometric mean over `ROWS`."""
        return prod(own / base for own, base in zip(self.ms[form], self.ms["fp32"], strict=True)) ** (1 / len(ROWS))


def fastest(spec: LlamaSpec, tensors: Mapping[str, Tensor], measure: Callable[..., Measured] | None = None) -> Measured:
    """What was measured for a model of this shape on this machine, measured now (seconds) if it was not yet.

    A file that cannot be read is measured anew; a folder that cannot be written only means measuring again next time.
    """
    path = _file(spec)
    kept = _read(path)
    if kept is not None:
        return kept
    found = (measure or measure_formats)(spec, tensors)
    _write(path, found)
    return found


def measure_formats(spec: LlamaSpec, tensors: Mapping[str, Tensor]) -> Measured:
    """Multiplies a sample of the layers' matrices in each format; formats take turns, the least time of each counts."""
    sample: list[Tensor] = []
    for name in spec.tensor_shapes():
        if tensors[name].dim() == 2 and name.startswith("layers."):
            sample.append(tensors[name])
        if sum(weight.nbytes for weight in sample) >= _SAMPLE_BYTES:
            break
    with torch.inference_mode():
        made = {form: [make_matrix(weight, form) for weight in sample] for form in FORMATS}
        inputs = {rows: [torch.randn(rows, weight.shape[1]) for weight in sample] for rows in ROWS}
        best = {form: [float("inf")] * len(ROWS) for form in FORMATS}
        for turn in range(_REPETITIONS + 1):
            for form, matrices in made.items():
                for index, rows in enumerate(ROWS):
                    began = time.perf_counter()
                    for matrix, x in zip(matrices, inputs[rows], strict=True):
                        matrix(x)
                    spent = (time.perf_counter() - began) * 1e3
                    if turn:  # the first one packs and warms up
                        best[form][index] = min(best[form][index], spent)
    return _judge({form: tuple(times) for form, times in best.items()})


def _judge(ms: Mapping[Format, tuple[float, ...]]) -> Measured:
    ranked = Measured(ms, "fp32")
    form = min(FORMATS, key=ranked.ratio)
    return Measured(ms, form if ranked.ratio(form) <= _MARGIN else "fp32")


def _file(spec: LlamaSpec) -> Path:
    """One file per machine, thread count, torch and shape of model."""
    state = [
        platform.machine(), torch.backends.cpu.get_cpu_capability(), _processor(), torch.__version__,
        torch.get_num_threads(), sorted(spec.tensor_shapes().items()),
    ]  # fmt: skip
    return cache_home() / f"fastest-{hashlib.sha256(repr(state).encode()).hexdigest()[:16]}.json"


def _processor() -> str:
    with contextlib.suppress(OSError):
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace").splitlines()
        return next((line for line in lines if line.startswith("model name")), "")
    return platform.processor()


def _read(path: Path) -> Measured | None:
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
        if content["schema"] != _SCHEMA:
            return None
        ms = {form: tuple(float(each) for each in content["ms"][form]) for form in FORMATS}
    except (OSError, ValueError, KeyError, TypeError):
        return None
    if any(len(times) != len(ROWS) or not all(0 < each < 1e9 for each in times) for times in ms.values()):
        return None
    return _judge(ms)


def _write(path: Path, found: Measured) -> None:
    temporary = path.with_name(f".{path.name}.{uuid.uuid4().hex}.tmp")
    content = {"schema": _SCHEMA, "rows": ROWS, "ms": dict(found.ms), "chosen": found.chosen}
    with contextlib.suppress(OSError):
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            temporary.write_text(json.dumps(content, indent=1), encoding="utf-8")
            temporary.replace(path)
        finally:
            temporary.unlink(missing_ok=True)

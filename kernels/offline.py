"""What the compiler made of each kernel, found out without a GPU: registers, shared memory, spills, PTX and SASS.

Compiles exactly what a launcher would launch, on tensors without memory. One process has one mode: not in Triton's
interpreter.
"""

from __future__ import annotations

import json
import re
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from kernels.errors import KernelError
from kernels.launch import Launch
from kernels.layout import CacheLayout, KVPool, Scales
from kernels.metadata import AttentionMetadata, Mask, RowMasks, ScoreRule, Semantics
from kernels.recorder import buffers_for

CAPABILITIES = (80, 90)  # A100, H100
STAGES = ("ttir", "ttgir", "ptx", "sass")
BASELINE = Path(__file__).with_name("offline_baseline.json")
_TOKENS, _BLOCKS = 64, 1024


@dataclass(frozen=True, slots=True)
class Facts:
    """Per thread `registers` and `spilled` bytes (stack and local memory); per program `shared` bytes."""

    registers: int
    spilled: int
    shared: int
    ptx_bytes: int
    mma: int  # tensor-core instructions in the PTX


@dataclass(frozen=True, slots=True)
class Compiled:
    """One kernel for one GPU generation; `text` holds the stages of `STAGES`."""

    name: str
    capability: int
    facts: Facts
    text: dict[str, str]


def catalogue() -> dict[str, Callable[[], Launch]]:
    """What is compiled: the kernel family over the shapes, dtypes and masks that differ in code. Name → its launch."""
    fp32, fp16, bf16, fp8 = torch.float32, torch.float16, torch.bfloat16, torch.float8_e4m3fn
    token, block = Scales.TOKEN_HEAD, Scales.BLOCK
    smollm = (9, 3, 64)
    entries: dict[str, Callable[[], Launch]] = {}
    for shape, dtype, kv_dtype, scales in (
        (smollm, fp32, fp32, Scales.NONE), (smollm, bf16, bf16, Scales.NONE), (smollm, bf16, fp8, token),
        (smollm, bf16, torch.int8, block), ((6, 2, 80), fp16, fp16, Scales.NONE),
        ((4, 2, 128), fp32, fp32, Scales.NONE), ((4, 2, 128), bf16, bf16, Scales.NONE),
        ((2, 1, 256), fp32, fp32, Scales.NONE), ((2, 1, 256), bf16, bf16, Scales.NONE),
    ):  # fmt: skip
        stored = "" if kv_dtype == dtype else f", {_name(kv_dtype)} cache by {scales}"
        entries[f"attention {shape} {_name(dtype)}{stored}"] = _attention(shape, dtype, kv_dtype, scales)
    entries["attention (9, 3, 64) bf16, masks"] = _attention(smollm, bf16, masked=True)
    entries["attention (9, 3, 64) bf16, soft cap, ALiBi, LSE"] = _attention(smollm, bf16, rules=True)
    entries["attention (9, 3, 64) bf16, split decode"] = _attention(smollm, bf16, decode=True)
    entries["attention (9, 3, 64) bf16, recorded"] = _attention(smollm, bf16, recorded=True)
    entries["reduce splits (9, 3, 64) bf16"] = _attention(smollm, bf16, decode=True, which=1)
    for kv_dtype, scales in ((bf16, Scales.NONE), (fp8, token), (torch.int8, block)):
        entries[f"write 3 x 64 bf16 to {_name(kv_dtype)} by {scales}"] = _write(kv_dtype, scales)
    entries["read 3 x 64 fp8 by token_head"] = _read
    entries["copy blocks bf16"] = _copy
    return entries


def compile_all(capabilities: tuple[int, ...] = CAPABILITIES) -> Iterator[Compiled]:
    """Every kernel of the catalogue for each generation; a second or two each, then cached by Triton."""
    for name, launch in catalogue().items():
        for capability in capabilities:
            yield compile_launch(name, launch(), capability)


def compile_launch(name: str, launch: Launch, capability: int) -> Compiled:
    """Raises KernelError where Triton cannot compile: it is missing, or this process is its interpreter's."""
    if find_spec("triton") is None:
        raise KernelError("triton", "is not installed here (it has wheels for Linux only)")
    import triton
    from triton.backends.compiler import GPUTarget
    from triton.compiler import ASTSource

    if triton.knobs.runtime.interpret:
        raise KernelError("TRITON_INTERPRET", "is set: this process interprets kernels and cannot compile them")
    signature, constants, attributes = _signature(launch)
    source = ASTSource(launch.kernel, signature, constants, attributes)
    result = triton.compile(source, target=GPUTarget("cuda", capability, 32), options=launch.options)
    text = {stage: result.asm[stage] for stage in STAGES if stage != "sass"}
    with tempfile.TemporaryDirectory() as folder:
        binary = Path(folder) / "kernel.cubin"
        binary.write_bytes(result.asm["cubin"])
        usage = _tool("cuobjdump", "-res-usage", binary)
        # -c: code only; -g: with the source's line numbers
        text["sass"] = _tool("nvdisasm", "-c", "-g", binary)
    found = {key: int(value) for key, value in re.findall(r"(REG|STACK|LOCAL):(\d+)", usage)}
    ptx = text["ptx"]
    facts = Facts(
        found["REG"],
        found["STACK"] + found["LOCAL"],
        result.metadata.shared,
        len(ptx),
        len(re.findall("mma.sync", ptx)),
    )
    return Compiled(name, capability, facts, text)


def as_json(compiled: list[Compiled]) -> dict[str, Any]:
    """The baseline's form: Triton's version and name → sm → facts."""
    import triton

    kernels: dict[str, dict[str, dict[str, int]]] = {}
    for one in compiled:
        kernels.setdefault(one.name, {})[f"sm_{one.capability}"] = asdict(one.facts)
    return {"triton": triton.__version__, "kernels": kernels}


def regressions(baseline: dict[str, Any], now: dict[str, Any]) -> list[str]:
    """One sentence for each spill and, under the baseline's Triton, for each number that grew by more than 10 %."""
    problems = []
    for name, by_capability in now["kernels"].items():
        for capability, facts in by_capability.items():
            if facts["spilled"]:
                problems.append(f"{name} on {capability} spills {facts['spilled']} bytes a thread")
            if now["triton"] != baseline["triton"]:
                continue
            before = baseline["kernels"].get(name, {}).get(capability)
            if before is None:
                problems.append(f"{name} on {capability} is not in the baseline")
                continue
            problems += [
                f"{name} on {capability}: {field} rose from {before[field]} to {facts[field]}"
                for field in ("registers", "shared", "ptx_bytes")
                if facts[field] > before[field] * 1.1
            ]
    return problems


def read_baseline() -> dict[str, Any]:
    result: dict[str, Any] = json.loads(BASELINE.read_text(encoding="utf-8"))
    return result


def table(compiled: list[Compiled]) -> str:
    """For a terminal: one kernel a line."""
    row = "{:52} {:>6} {:>5} {:>8} {:>9} {:>7} {:>4}".format
    lines = [row("kernel", "gpu", "regs", "spill B", "shared B", "PTX B", "mma")]
    lines += [row(one.name, f"sm_{one.capability}", *asdict(one.facts).values()) for one in compiled]
    return "\n".join(lines)


def _signature(launch: Launch) -> tuple[dict[str, str], dict[str, Any], dict[tuple[int], list[list[Any]]]]:
    """(types, constants, alignments) as Triton derives them at a launch: see `specialize_impl` in its jit.py."""
    signature, constants, attributes = {}, {}, {}
    for index, parameter in enumerate(launch.kernel.params):
        name, value = parameter.name, launch.arguments[parameter.name]
        one = isinstance(value, int) and value == 1 and not parameter.do_not_specialize
        if parameter.is_constexpr or value is None or one:
            signature[name], constants[name] = "constexpr", value
            continue
        if isinstance(value, Tensor):
            signature[name] = "*" + _name(value.dtype)
        elif isinstance(value, float):
            signature[name] = "fp32"
        else:
            signature[name] = "i32" if value < 2**31 else "i64"
        # torch allocates on 16-byte boundaries
        aligned = isinstance(value, Tensor) or (isinstance(value, int) and value % 16 == 0)
        if aligned and not parameter.do_not_specialize:
            attributes[(index,)] = [["tt.divisibility", 16]]
    return signature, constants, attributes


def _name(dtype: torch.dtype) -> str:
    return {
        torch.float32: "fp32", torch.float16: "fp16", torch.bfloat16: "bf16", torch.float8_e4m3fn: "fp8",
        torch.int8: "i8", torch.uint8: "u8", torch.int32: "i32", torch.int64: "i64",
    }[dtype]  # fmt: skip


def _tool(name: str, *arguments: str | Path) -> str:
    import triton

    tool = Path(triton.__file__).parent / "backends/nvidia/bin" / name
    if not tool.is_file():
        raise KernelError(name, "did not come with this triton; without it registers, spills and SASS are unknown")
    return subprocess.run([tool, *arguments], capture_output=True, text=True, check=True).stdout


def _pool(heads: int, head_dim: int, dtype: torch.dtype, scales: Scales = Scales.NONE) -> KVPool:
    return CacheLayout(2, _BLOCKS, 16, heads, head_dim, dtype, scales).allocate("meta")


def _empty(*shape: int, dtype: torch.dtype) -> Tensor:
    return torch.empty(shape, dtype=dtype, device="meta")


def _attention(
    shape: tuple[int, int, int], dtype: torch.dtype, kv_dtype: torch.dtype | None = None, scales: Scales = Scales.NONE,
    *, masked: bool = False, rules: bool = False, decode: bool = False, recorded: bool = False, which: int = 0,
) -> Callable[[], Launch]:  # fmt: skip
    def make() -> Launch:
        from kernels.paged_attention import launches

        query_heads, kv_heads, head_dim = shape
        rows = _TOKENS
        meta = AttentionMetadata(
            query_start_loc=_empty(rows + 1, dtype=torch.int32), seq_lens=_empty(rows, dtype=torch.int32),
            block_table=_empty(rows, 256, dtype=torch.int32), slot_mapping=_empty(_TOKENS, dtype=torch.int64),
            block_size=16, max_query_len=1, max_seq_len=4096,
            semantics=(Semantics.DECODE if decode else Semantics.PREFILL,) * rows,
        )  # fmt: skip
        if masked:
            meta = replace(meta, masks=RowMasks.of([Mask()] * rows, [1] * rows, "meta"))
        slopes = _empty(query_heads, dtype=torch.float32) if rules else None
        rule = ScoreRule(head_dim**-0.5, 30.0 if rules else None, slopes)
        query = _empty(_TOKENS, query_heads, head_dim, dtype=dtype)
        lse = _empty(_TOKENS, query_heads, dtype=torch.float32) if rules else None
        layer = _pool(kv_heads, head_dim, kv_dtype or dtype, scales).layer(1)
        buffers = buffers_for(query, layer, meta) if recorded else None
        return launches(query, layer, meta, rule, torch.empty_like(query), lse, record=buffers)[which]

    return make


def _write(dtype: torch.dtype, scales: Scales) -> Callable[[], Launch]:
    def make() -> Launch:
        from kernels.cache_ops import write_launches

        new = _empty(_TOKENS, 3, 64, dtype=torch.bfloat16)
        return write_launches(new, new, _pool(3, 64, dtype, scales).layer(1), _empty(_TOKENS, dtype=torch.int64))[0]

    return make


def _read() -> Launch:
    from kernels.cache_ops import read_launches

    output = _empty(_TOKENS, 3, 64, dtype=torch.float32)
    layer = _pool(3, 64, torch.float8_e4m3fn, Scales.TOKEN_HEAD).layer(1)
    return read_launches(layer, _empty(_TOKENS, dtype=torch.int64), output, output)[0]


def _copy() -> Launch:
    from kernels.cache_ops import copy_launches

    return copy_launches(_pool(3, 64, torch.bfloat16), _empty(4, 2, dtype=torch.int64))[0]

"""Every kernel compiles for A100 and H100 without a GPU, spills nothing and has not grown by more than 10 %."""

from __future__ import annotations

import ast
import importlib.util
import os
import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from types import ModuleType

import pytest
import torch

pytest.importorskip("triton", reason="triton has wheels for Linux only")

from kernels import offline
from kernels.errors import KernelError
from kernels.tiling import Shape, candidates, default_tiling, tiling, use_fastest
from kernels.tune import tune

if os.environ.get("TRITON_INTERPRET") == "1":
    pytest.skip("the interpreter cannot compile", allow_module_level=True)


@pytest.fixture(scope="module")
def compiled() -> list[offline.Compiled]:
    return list(offline.compile_all())


def test_nothing_spills_and_nothing_grew(compiled: list[offline.Compiled]) -> None:
    now = offline.as_json(compiled)
    assert not offline.regressions(offline.read_baseline(), now)
    if now["triton"] != offline.read_baseline()["triton"]:
        pytest.skip(f"spills checked; the baseline's numbers are Triton {offline.read_baseline()['triton']}'s")


def test_the_baseline_lists_what_is_compiled(compiled: list[offline.Compiled]) -> None:
    assert sorted(offline.read_baseline()["kernels"]) == sorted({one.name for one in compiled})


def test_a_spill_a_jump_and_a_newcomer_are_each_reported() -> None:
    def of(**facts: int) -> dict[str, object]:
        usual = {"registers": 100, "spilled": 0, "shared": 1000, "ptx_bytes": 5000, "mma": 8}
        return {"triton": "1", "kernels": {"a": {"sm_90": {**usual, **facts}}}}

    assert offline.regressions(of(), of(registers=110, ptx_bytes=4000)) == []
    assert offline.regressions(of(), of(registers=111)) == ["a on sm_90: registers rose from 100 to 111"]
    assert offline.regressions(of(), of(shared=1101)) == ["a on sm_90: shared rose from 1000 to 1101"]
    assert offline.regressions(of(), of(spilled=8)) == ["a on sm_90 spills 8 bytes a thread"]
    assert offline.regressions({"triton": "1", "kernels": {}}, of()) == ["a on sm_90 is not in the baseline"]
    assert offline.regressions({**of(), "triton": "2"}, of(registers=200)) == []


def test_half_types_use_tensor_cores_and_fp32_stays_exact(compiled: list[offline.Compiled]) -> None:
    for one in compiled:
        if one.name.startswith("attention"):
            assert (one.facts.mma > 0) == (" fp32" not in one.name), one.name


@pytest.mark.parametrize("more", ["fp32", "bf16", *(f"bf16, {more}" for more in (
    "i8 cache by block", "masks", "soft cap, ALiBi, LSE", "split decode"))])  # fmt: skip
def test_a_record_that_is_off_leaves_no_trace(
    more: str, compiled: list[offline.Compiled], unrecorded: ModuleType
) -> None:
    """The same PTX as of the same source without a word of RECORD."""
    name = f"attention (9, 3, 64) {more}"
    launch = offline.catalogue()[name]()
    kernel = unrecorded.paged_attention_kernel
    kept = {key: value for key, value in launch.arguments.items() if key in kernel.arg_names}
    assert len(launch.arguments) - len(kept) == 6
    for usual in (one for one in compiled if one.name == name):
        without = offline.compile_launch(name, replace(launch, kernel=kernel, arguments=kept), usual.capability)
        assert len(instructions(usual)) > 300
        assert instructions(usual) == instructions(without)
        assert replace(usual.facts, ptx_bytes=0) == replace(without.facts, ptx_bytes=0)


def test_a_record_that_is_on_is_in_the_code(compiled: list[offline.Compiled]) -> None:
    code = {(one.name, one.capability): instructions(one) for one in compiled}
    for capability in offline.CAPABILITIES:
        on, off = (code[f"attention (9, 3, 64) bf16{recorded}", capability] for recorded in (", recorded", ""))
        assert len(on) > len(off)
        assert sum("st.global" in line for line in on) > sum("st.global" in line for line in off)


@pytest.fixture(scope="module")
def unrecorded(tmp_path_factory: pytest.TempPathFactory) -> ModuleType:
    """kernels/paged_attention.py without RECORD."""
    from kernels import paged_attention

    path = tmp_path_factory.mktemp("source") / "unrecorded.py"
    source = Path(paged_attention.__file__).read_text(encoding="utf-8")
    path.write_text(ast.unparse(WithoutRecord().visit(ast.parse(source))), encoding="utf-8")
    spec = importlib.util.spec_from_file_location("unrecorded", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


class WithoutRecord(ast.NodeTransformer):
    """Takes `if RECORD:` and the arguments that serve it out of a module's functions."""

    def visit_If(self, node: ast.If) -> ast.AST | None:
        return None if isinstance(node.test, ast.Name) and node.test.id == "RECORD" else self.generic_visit(node)

    def visit_arguments(self, node: ast.arguments) -> ast.arguments:
        node.args = [argument for argument in node.args if not argument.arg.lower().startswith("record")]
        return node


def instructions(one: offline.Compiled) -> list[str]:
    """The PTX without what names the source: comments, line numbers and the labels between them, debug sections."""
    code = one.text["ptx"].partition(".section")[0]
    lines = (line.partition("//")[0].strip() for line in code.splitlines())
    return [line for line in lines if line and not re.match(r"\.loc|\.file|\$L__(tmp|func)", line)]


def test_offsets_are_64_bit(compiled: list[offline.Compiled]) -> None:
    """A block id times its stride passes 2^31 in a real pool."""
    for one in compiled:
        if not one.name.startswith("reduce"):
            assert re.search(r"arith.muli .*i64", one.text["ttir"]), one.name


def test_every_stage_has_its_text(compiled: list[offline.Compiled]) -> None:
    for one in compiled:
        assert set(one.text) == set(offline.STAGES)
        assert "tt.func" in one.text["ttir"]
        assert "#blocked" in one.text["ttgir"]
        assert f".target sm_{one.capability}" in one.text["ptx"]
        assert "EXIT" in one.text["sass"]


@pytest.mark.parametrize(
    "shape", [Shape(3, 64, torch.bfloat16), Shape(1, 128, torch.float32), Shape(1, 256, torch.float32)], ids=str
)
def test_every_tiling_that_might_be_tuned_compiles_without_spills(shape: Shape) -> None:
    """Split and tile lengths change no registers; warps and stages may."""
    name = f"attention {(shape.group, 1, shape.head_dim)}"
    from kernels.paged_attention import rows_per_program

    assert rows_per_program(shape.group)[1] == 16
    seen = {(tiling.num_warps, tiling.num_stages) for tiling in candidates(shape)}
    base = offline._attention((shape.group, 1, shape.head_dim), shape.dtype)()
    for warps, stages in sorted(seen):
        launch = replace(base, options={**base.options, "num_warps": warps, "num_stages": stages})
        assert offline.compile_launch(name, launch, 90).facts.spilled == 0
    assert default_tiling(shape) in candidates(shape)


def test_the_fastest_tiling_is_used_from_then_on() -> None:
    shape = Shape(7, 40, torch.float16)
    options = candidates(shape)
    assert tiling(shape) == options[0]
    use_fastest(shape, dict(zip(options, (3.0, 1.0, 2.0, 4.0, 5.0), strict=True)))
    assert tiling(shape) == options[1]


def test_tuning_needs_a_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with pytest.raises(KernelError, match=r"^device: there is no CUDA GPU"):
        tune(9, 3, 64, torch.bfloat16)


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA GPU on this machine")
def test_every_candidate_is_timed_on_a_gpu() -> None:
    times = tune(9, 3, 64, torch.bfloat16)
    assert set(times) == set(candidates(Shape(3, 64, torch.bfloat16)))
    assert min(times.values()) > 0


def test_an_interpreting_process_says_that_it_cannot_compile() -> None:
    process = subprocess.run(
        [sys.executable, "-m", "kernels", "offline"],
        env={**os.environ, "TRITON_INTERPRET": "1"}, capture_output=True, text=True, check=False, timeout=120,
    )  # fmt: skip
    assert process.returncode == 1
    assert process.stderr.startswith("python -m kernels: TRITON_INTERPRET: is set")
    assert process.stderr.count("\n") == 1


def test_without_triton_the_reason_is_given(monkeypatch: pytest.MonkeyPatch) -> None:
    launch = offline.catalogue()["copy blocks bf16"]()
    monkeypatch.setattr(offline, "find_spec", lambda name: None)
    with pytest.raises(KernelError, match=r"^triton: is not installed"):
        offline.compile_launch("copy", launch, 90)

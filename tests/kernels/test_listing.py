"""The Triton source beside what became of it: which line is which, from any kind of process."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from kernels import listing as listing_module
from kernels.errors import KernelError
from kernels.listing import Listing, listing, names
from kernels.offline import STAGES

pytest.importorskip("triton", reason="triton has wheels for Linux only")

if os.environ.get("TRITON_INTERPRET") == "1":
    pytest.skip("the interpreter cannot compile", allow_module_level=True)

ROOT = Path(__file__).parents[2]
FP8 = "attention (9, 3, 64) bf16, fp8 cache by token_head"
SMALL = "copy blocks bf16"


def sources(found: Listing, stage: str, *words: str) -> set[str]:
    """The source lines of all lines of a stage that have one of these words."""
    text = found.source.splitlines()
    return {
        text[line - found.first_line].strip()
        for code, line in zip(found.compiled.text[stage].splitlines(), found.lines[stage], strict=True)
        if line is not None and any(word in code for word in words)
    }


def test_an_instruction_is_beside_the_line_it_comes_from() -> None:
    found = listing(FP8, 90)
    dots = {
        'scores = tl.dot(query, key, input_precision="ieee") * scale',
        'accumulator += tl.dot(weights.to(value.dtype), value, input_precision="ieee")',
    }
    assert sources(found, "ttir", "tt.dot ") == dots
    assert sources(found, "ttgir", "tt.dot ") == dots
    assert sources(found, "ptx", "mma.sync") == dots
    assert sources(found, "sass", "HMMA.") == dots
    exponentials = {"weights = tl.exp(scores - shift[:, None])", "decay = tl.exp(running_max - shift)"}
    assert sources(found, "ttir", "math.exp") == sources(found, "ptx", "ex2.approx") == exponentials
    assert "tile = tl.program_id(0)" in sources(found, "ptx", "%ctaid.x")
    assert "tile = tl.program_id(0)" in sources(found, "sass", "SR_CTAID.X")


def test_a_function_that_was_inlined_counts_as_the_line_that_calls_it() -> None:
    """`tl.max` lies in Triton's own library, `decode` in another module."""
    found = listing(FP8, 90)
    assert "new_max = tl.maximum(running_max, tl.max(scores, 1))" in sources(found, "ttir", "tt.reduce.return")
    assert sources(found, "ptx", "@[ paged_attention.py") >= {
        "key = decode(key, FORMAT).to(query.dtype)", "value = decode(value, FORMAT).to(query.dtype)",
    }  # fmt: skip
    # bytes become half floats in formats.py only
    assert sources(found, "ttir", "tt.bitcast") == {
        "key = decode(key, FORMAT).to(query.dtype)", "value = decode(value, FORMAT).to(query.dtype)",
    }  # fmt: skip


@pytest.mark.parametrize("name", [SMALL, "reduce splits (9, 3, 64) bf16", "write 3 x 64 bf16 to i8 by block"])
def test_every_stage_is_there_with_its_source(name: str) -> None:
    found = listing(name, 80)
    assert set(found.lines) == set(found.compiled.text) == set(STAGES)
    lines = (ROOT / found.file).read_text(encoding="utf-8").splitlines()
    own = lines[found.first_line - 1 : found.first_line - 1 + len(found.source.splitlines())]
    assert found.source.splitlines() == own
    assert own[0].startswith("@triton.jit")
    for stage in STAGES:
        text = found.compiled.text[stage]
        assert str(ROOT) not in text
        assert "site-packages" not in text
        assert len({line for line in found.lines[stage] if line is not None}) > 5, stage


def test_a_listing_is_made_once() -> None:
    assert listing(SMALL, 80) is listing(SMALL, 80)
    assert SMALL in names()


def test_an_interpreting_process_has_it_compiled_elsewhere() -> None:
    source = (
        f"import triton; assert triton.knobs.runtime.interpret; from kernels.listing import listing;"
        f"found = listing({SMALL!r}, 80); print(found.compiled.text['ptx']); print(found.lines['ptx'])"
    )
    environment = {**os.environ, "TRITON_INTERPRET": "1"}
    done = subprocess.run(
        [sys.executable, "-c", source], cwd=ROOT, env=environment, capture_output=True, text=True, check=False,
        timeout=300,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    here = listing(SMALL, 80)
    assert done.stdout.strip() == f"{here.compiled.text['ptx']}\n{here.lines['ptx']}".strip()


def test_what_cannot_be_listed_is_one_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(KernelError, match=r"^name: there is no kernel 'nonsense'$"):
        listing("nonsense", 80)
    with pytest.raises(KernelError, match=r"^compiler: failed for sm_13: .+") as here:
        listing(SMALL, 13)
    with pytest.raises(KernelError, match=r"^compiler: failed for sm_13: .+") as elsewhere:
        listing_module._compile_elsewhere(SMALL, 13)
    assert "\n" not in f"{here.value}{elsewhere.value}"
    monkeypatch.setattr(listing_module, "find_spec", lambda name: None)
    with pytest.raises(KernelError, match=r"^triton: is not installed here"):
        listing(SMALL, 80)

"""The lens: a launch run again through the Triton kernel itself, in another process that may fail in any way."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from kernels import lens as lens_module
from kernels import reference
from kernels.errors import KernelError
from kernels.layout import Order, Scales
from kernels.lens import Lens, LensResult, row_of
from kernels.metadata import Mask, MaskKind, Semantics
from kernels.sanitizer import Rights, Why
from kernels.tiling import Tiling
from tests.kernels.batches import Batch, every_mask, make_batch
from tests.kernels.records import apart, trail, written

pytest.importorskip("triton", reason="triton has wheels for Linux only")

ROWS = [(21, 1), (13, 20), (0, 9), (30, 1)]
CUTS = [(13, 6), (20, 8), (2, 9), (9, 4)]


@pytest.fixture(scope="module")
def lens() -> Iterator[Lens]:
    lens = Lens()
    yield lens
    lens.close()


def batch_of(rows: list[tuple[int, int]], masked: bool = False, **options: Any) -> Batch:
    return written(make_batch(rows, (9, 3, 64), 16, masks=every_mask(rows) if masked else None, **options))


def look(lens: Lens, batch: Batch, rights: Rights | None = None, tiling: Tiling | None = None) -> LensResult:
    return lens.look(batch.query, batch.layer, batch.meta, batch.rule, rights or Rights.of(batch.meta), tiling)


def cut(batch: Batch, row: int, last_tokens: int | None = None) -> tuple[Batch, slice]:
    meta, tokens = row_of(batch.meta, row, last_tokens)
    return replace(batch, meta=meta, query=batch.query[tokens]), tokens


def test_a_decode_row_of_smollm2_comes_back(lens: Lens) -> None:
    batch = batch_of([(100, 1)])
    seen = look(lens, batch)
    lse = torch.empty(1, 9)
    twin = reference.paged_attention(batch.query, batch.layer, batch.meta, batch.rule, lse)
    assert (seen.output - twin).abs().max() <= 1e-5
    assert (seen.output - batch.expected()).abs().max() <= 1e-5
    assert (seen.lse - lse).abs().max() <= 1e-5
    assert seen.record.source == "kernel"
    assert apart(seen.record, batch, None) <= 1e-5
    assert seen.reads.source == "hooks"
    assert trail(seen.reads) == trail(seen.record)
    assert len(seen.record.visits) == 3 * 7
    stores = [access.tensor for access in seen.accesses if access.store]
    assert stores.count("output") == stores.count("lse") == 3
    assert {access.tensor for access in seen.accesses if access.blocks} == {"key", "value"}
    assert seen.violations == ()
    assert seen.milliseconds > 0
    assert seen.triton.startswith("3.")


@pytest.mark.parametrize("options", [
    {"masked": True}, {"soft_cap": 3.0, "alibi": True}, {"dtype": torch.float16, "order": Order.BLSH},
    {"kv_dtype": torch.int8, "scales": Scales.BLOCK}, {"kv_dtype": torch.float8_e4m3fn, "scales": Scales.TOKEN_HEAD},
], ids=str)  # fmt: skip
def test_every_kind_of_launch_comes_back(lens: Lens, options: dict[str, Any]) -> None:
    batch = batch_of(ROWS[:3], **options)
    seen = look(lens, batch)
    twin = reference.paged_attention(batch.query, batch.layer, batch.meta, batch.rule)
    assert seen.output.dtype == batch.query.dtype
    assert (seen.output.float() - twin.float()).abs().max() <= (1e-5 if batch.query.dtype == torch.float32 else 2e-3)
    assert apart(seen.record, batch, None) <= 1e-4
    assert seen.violations == ()


def test_a_split_decode_comes_back(lens: Lens) -> None:
    batch, tiling = batch_of([(100, 1), (7, 1)]), Tiling(tile=16, split=48)
    seen = look(lens, batch, tiling=tiling)
    assert (seen.output - batch.expected()).abs().max() <= 1e-5
    assert apart(seen.record, batch, tiling) <= 1e-5
    assert {access.kernel for access in seen.accesses} == {"paged_attention_kernel", "reduce_splits_kernel"}


def test_a_wrong_table_comes_back_with_a_violation(lens: Lens) -> None:
    batch = batch_of(ROWS, poison=0.0)
    free = next(block for block in range(1, 99) if block not in batch.meta.block_table)
    meta, _ = row_of(batch.meta, 1)
    rights = Rights.of(meta, others=frozenset(batch.meta.block_table[0, :2].tolist()))
    for wrong, why in ((free, Why.FREE), (int(batch.meta.block_table[0, 1]), Why.FOREIGN)):
        table = meta.block_table.clone()
        table[0, 1] = wrong
        query = batch.query[1:21]
        seen = lens.look(query, batch.layer, replace(meta, block_table=table), batch.rule, rights)
        assert {violation.why for violation in seen.violations} == {why}
        assert {violation.block for violation in seen.violations} == {wrong}
        # What a wrong block holds is sent too: the output is the one this table gives.
        twin = reference.paged_attention(query, batch.layer, replace(meta, block_table=table), batch.rule)
        assert (seen.output - twin).abs().max() <= 1e-5
    table[0, 1] = 2**30
    seen = lens.look(query, batch.layer, replace(meta, block_table=table), batch.rule, rights)
    assert {violation.why for violation in seen.violations} == {Why.OUTSIDE}


def test_a_row_alone_is_the_row_in_its_batch_to_the_bit(lens: Lens) -> None:
    batch = batch_of(ROWS, masked=True)
    together = look(lens, batch)
    for row in range(len(ROWS)):
        alone, tokens = cut(batch, row)
        assert torch.equal(look(lens, alone).output, together.output[tokens])


@pytest.mark.parametrize("mask", [mask for mask in every_mask(CUTS) if mask.kind is not MaskKind.TREE], ids=str)
def test_the_last_tokens_of_a_row_see_what_they_saw(lens: Lens, mask: Mask) -> None:
    batch = written(make_batch(CUTS, (9, 3, 64), 16, masks=[mask] * 4))
    whole = reference.paged_attention(batch.query, batch.layer, batch.meta, batch.rule)
    for row in range(4):
        for last in (1, 3, 99):
            part, tokens = cut(batch, row, last)
            assert tokens.stop - tokens.start == min(last, CUTS[row][1])
            assert (look(lens, part).output - whole[tokens]).abs().max() <= 1e-6


def test_a_tree_is_not_cut() -> None:
    batch = batch_of(CUTS, masked=True)
    with pytest.raises(KernelError, match=r"^last_tokens: row 2 is a tree"):
        row_of(batch.meta, 2, 3)
    assert row_of(batch.meta, 2, 9)[1] == row_of(batch.meta, 2)[1]


def test_a_row_keeps_what_it_is() -> None:
    batch = batch_of(ROWS)
    meta, tokens = row_of(batch.meta, 1, 5)
    assert tokens == slice(16, 21)
    assert (meta.max_query_len, meta.max_seq_len, meta.num_seqs, meta.num_tokens) == (5, 33, 1, 5)
    assert meta.semantics == (Semantics.PREFILL,)
    assert row_of(batch.meta, 3)[0].is_decode


def test_looks_from_several_threads_do_not_mix(lens: Lens) -> None:
    batches = [batch_of([(5 + n, 1)], seed=n) for n in range(4)]
    with ThreadPoolExecutor(4) as threads:
        results = list(threads.map(lambda batch: look(lens, batch), batches))
    for batch, seen in zip(batches, results, strict=True):
        assert (seen.output - batch.expected()).abs().max() <= 1e-5


class OnArrival:
    """Goes out as a call and arrives as its result: what the worker does with it is up to the call."""

    def __init__(self, call: Callable[..., object], *arguments: object) -> None:
        self.reduced = call, arguments

    def __reduce__(self) -> tuple[Callable[..., object], tuple[object, ...]]:
        return self.reduced


def send(lens: Lens, call: Callable[..., object], *arguments: object) -> LensResult:
    batch = batch_of([(3, 1)])
    return lens.look(batch.query, batch.layer, batch.meta, batch.rule, OnArrival(call, *arguments))  # type: ignore[arg-type]


def works(lens: Lens) -> bool:
    batch = batch_of([(3, 1)])
    return bool((look(lens, batch).output - batch.expected()).abs().max() <= 1e-5)


def test_what_the_worker_prints_does_not_matter(lens: Lens) -> None:
    assert send(lens, print, "a line on stdout" * 1000).violations == ()


def test_an_error_in_the_worker_is_one_sentence_and_not_the_end(lens: Lens) -> None:
    works(lens)
    process = lens._process
    with pytest.raises(KernelError, match=r"^lens: the kernel failed in the interpreter: ValueError: invalid literal"):
        send(lens, int, "not a number")
    assert works(lens)
    assert lens._process is process


def test_a_killed_worker_is_replaced_at_the_next_look(lens: Lens) -> None:
    works(lens)
    process = lens._process
    assert process is not None
    process.kill()
    process.wait()
    assert works(lens)
    assert lens._process is not process


def test_a_worker_that_dies_at_work_is_one_sentence_and_replaced(lens: Lens) -> None:
    with pytest.raises(KernelError, match=r"^lens: the interpreting process ended during a launch \(exit code 7\)$"):
        send(lens, os._exit, 7)
    assert works(lens)


def test_a_worker_that_hangs_is_ended(lens: Lens, monkeypatch: pytest.MonkeyPatch) -> None:
    works(lens)
    process = lens._process
    monkeypatch.setattr(lens, "timeout", 0.2)
    with pytest.raises(KernelError, match=r"^lens: no answer within 0.2 s"):
        send(lens, time.sleep, 3600)
    assert process is not None
    assert process.returncode == -9  # ended and waited for: no zombie
    monkeypatch.undo()
    assert works(lens)


def test_an_interrupted_look_leaves_nothing_to_the_next(lens: Lens, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(data: bytes) -> object:
        raise KeyboardInterrupt

    works(lens)
    with monkeypatch.context() as patch:
        patch.setattr(lens_module, "_unpack", interrupted)
        with pytest.raises(KeyboardInterrupt):
            works(lens)
    assert works(lens)


def test_metadata_that_does_not_fit_is_refused_before_anything_is_sent() -> None:
    batch, never_started = batch_of([(3, 1)]), Lens()
    with pytest.raises(KernelError, match=r"^block_size: "):
        look(never_started, replace(batch, meta=replace(batch.meta, block_size=8)))
    assert never_started._process is None


def test_without_triton_the_reason_is_given(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lens_module, "find_spec", lambda name: None)
    with pytest.raises(KernelError, match=r"^triton: is not installed"):
        works(Lens())


def test_a_triton_that_cannot_be_imported_is_one_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "triton").mkdir()
    (tmp_path / "triton/__init__.py").write_text("raise ImportError('libtriton.so is too old')")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    lens = Lens()
    with pytest.raises(KernelError, match=r"^triton: cannot be imported for the lens: ImportError: libtriton"):
        works(lens)
    assert lens._process is None


def test_the_worker_ends_with_its_owner() -> None:
    """Even where the owner is not given the time to say so."""
    source = (
        "import os; from tests.kernels.test_lens import works, Lens; lens = Lens();"
        "assert works(lens); print(lens._process.pid, flush=True); os._exit(0)"
    )
    root = Path(__file__).parents[2]
    done = subprocess.run(
        [sys.executable, "-c", source], cwd=root, capture_output=True, text=True, check=True, timeout=300
    )
    worker = int(done.stdout)
    for _ in range(600):
        try:
            state = Path(f"/proc/{worker}/stat").read_text().rpartition(")")[2].split()[0]
        except FileNotFoundError:
            return
        if state == "Z":
            return  # ended; not every container's first process collects orphans
        time.sleep(0.1)
    pytest.fail("the worker outlived its owner")

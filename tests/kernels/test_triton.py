"""The Triton sources: in the interpreter (another process), and on a GPU if there is one."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import fields, is_dataclass, replace
from pathlib import Path
from typing import Any

import pytest
import torch

from kernels.layout import CacheLayout, Order, Scales
from tests.kernels.batches import SHAPES, TOLERANCE, every_mask, make_batch, mixed_rows
from tests.kernels.records import apart, launches, written

pytest.importorskip("triton", reason="triton has wheels for Linux only")

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def interpreted() -> dict[str, Any]:
    process = subprocess.run(
        [sys.executable, "-m", "tests.kernels.interpreter_cases"],
        cwd=ROOT, env={**os.environ, "TRITON_INTERPRET": "1"}, capture_output=True, text=True, check=False,
        timeout=1200,
    )  # fmt: skip
    assert process.returncode == 0, process.stderr
    results: dict[str, Any] = json.loads(process.stdout)
    return results


def test_interpreted_attention_equals_dense(interpreted: dict[str, Any]) -> None:
    """O16, with the case's own tolerances for fp32 and fp16."""
    tolerance = {str(dtype): value for dtype, value in TOLERANCE.items()}
    errors = interpreted["shapes"]
    assert len(errors) == 15
    wrong = {name: error for name, error in errors.items() if not error <= tolerance[name.rpartition(" ")[2]]}
    assert not wrong


def test_interpreted_attention_ignores_rubbish(interpreted: dict[str, Any]) -> None:
    """O15."""
    assert len(interpreted["poison"]) == 6
    assert all(interpreted["poison"].values())


def test_interpreted_request_alone_equals_itself_in_a_batch_to_the_bit(interpreted: dict[str, Any]) -> None:
    assert interpreted["alone"] is True
    assert interpreted["split_alone"] is True


def test_interpreted_split_decode_equals_dense(interpreted: dict[str, Any]) -> None:
    assert len(interpreted["splits"]) == 4
    assert all(error <= 1e-5 for error in interpreted["splits"].values())


def test_interpreted_rows_without_context_are_zero(interpreted: dict[str, Any]) -> None:
    assert interpreted["no_context"] is True


def test_interpreted_decode_in_a_larger_bucket_is_the_same_to_the_bit(interpreted: dict[str, Any]) -> None:
    assert len(interpreted["padded_decode"]) == 4
    assert all(interpreted["padded_decode"].values()), interpreted["padded_decode"]


def test_interpreted_offsets_are_64_bit(interpreted: dict[str, Any]) -> None:
    assert interpreted["far_away"] is True


def test_interpreted_quantised_caches_equal_the_twins_to_the_bit(interpreted: dict[str, Any]) -> None:
    assert len(interpreted["quantised"]) == 5
    for name, errors in interpreted["quantised"].items():
        assert errors["same cache"] == 1.0, name
        assert errors["twin"] <= 1e-5, name
        assert errors["stored"] <= 1e-5, name
        # what rounding alone costs: int8 keeps 7 bits of a head's largest number, e4m3 4 bits of each number
        assert 1e-4 < errors["sent"] < (0.05 if "int8" in name else 0.3), name


def test_interpreted_number_formats_equal_torchs(interpreted: dict[str, Any]) -> None:
    assert interpreted["formats"] == {"torch.float8_e4m3fn": True, "torch.float16": True}


def test_interpreted_write_and_read_equal_the_twin(interpreted: dict[str, Any]) -> None:
    assert len(interpreted["writes"]) == 6
    assert all(interpreted["writes"].values()), interpreted["writes"]


def test_interpreted_block_copy_equals_the_twin(interpreted: dict[str, Any]) -> None:
    assert len(interpreted["copies"]) == 3
    assert all(interpreted["copies"].values())


def test_an_interpreted_record_is_the_twins_visit_by_visit(interpreted: dict[str, Any]) -> None:
    assert len(interpreted["records"]) == 8
    for name, (error, same_output) in interpreted["records"].items():
        assert error <= 1e-5, name
        assert same_output, name


def test_any_interpreted_launch_equals_the_twin(interpreted: dict[str, Any]) -> None:
    assert not interpreted["any_launch"], interpreted["any_launch"]


needs_gpu = pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA GPU on this machine")


@pytest.mark.gpu
@needs_gpu
def test_compiled_block_copy_on_a_gpu() -> None:
    from kernels import dispatch

    pool = CacheLayout(3, 8, 16, 3, 64).allocate("cuda")
    for tensor in pool.tensors:
        tensor.normal_()
    before = [tensor.clone() for tensor in pool.tensors]
    dispatch.copy_blocks(pool, [(7, 0), (2, 5), (2, 1)])
    for new, old in zip(pool.tensors, before, strict=True):
        assert torch.equal(new, old[:, [7, 2, 2, 3, 4, 2, 6, 7]])


@pytest.mark.gpu
@needs_gpu
@pytest.mark.parametrize("order", list(Order))
def test_swap_over_the_bus_on_a_stream(order: Order) -> None:
    from kernels import dispatch

    layout = CacheLayout(3, 8, 16, 3, 64, order=order)
    device, host = layout.allocate("cuda"), replace(layout, num_blocks=4).allocate(pin_memory=True)
    for tensor in device.tensors:
        tensor.normal_()
    sent = [tensor[:, [5, 6, 1]].cpu() for tensor in device.tensors]
    stream = torch.cuda.Stream()
    dispatch.swap_blocks(device, host, [(5, 0), (6, 1), (1, 3)], stream)
    dispatch.swap_blocks(host, device, [(0, 2), (1, 3), (3, 7)], stream)
    stream.synchronize()
    for on_host, on_device, expected in zip(host.tensors, device.tensors, sent, strict=True):
        assert torch.equal(on_host[:, [0, 1, 3]], expected)
        assert torch.equal(on_device[:, [2, 3, 7]].cpu(), expected)


def on_gpu(owner: Any) -> Any:
    """A copy of a dataclass with its tensors, and those of the dataclasses in it, on the GPU."""
    changes = {
        name: value.cuda() if isinstance(value, torch.Tensor) else on_gpu(value)
        for name in (field.name for field in fields(owner))
        if isinstance(value := getattr(owner, name), torch.Tensor) or is_dataclass(value)
    }
    return replace(owner, **changes)


@pytest.mark.gpu
@needs_gpu
@pytest.mark.parametrize("name", list(launches()))
def test_a_compiled_record_is_the_twins_visit_by_visit(name: str) -> None:
    from kernels import dispatch, recorder
    from kernels.paged_attention import paged_attention

    batch, tiling = launches()[name]
    there = on_gpu(written(batch))
    assert dispatch.implementation_name("cuda") == "triton"
    plain = paged_attention(there.query, there.layer, there.meta, there.rule, None, tiling)
    output, record = recorder.record(there.query, there.layer, there.meta, there.rule, None, tiling)
    assert record.source == "kernel"
    assert record.visits
    assert apart(record, batch, tiling) <= 1e-4
    assert (output - plain).abs().max() <= 1e-6


QUANTISED = [(torch.float8_e4m3fn, Scales.TOKEN_HEAD), (torch.int8, Scales.BLOCK)]


@pytest.mark.gpu
@needs_gpu
@pytest.mark.parametrize("dtype", list(TOLERANCE), ids=str)
@pytest.mark.parametrize("cache", [(None, Scales.NONE), *QUANTISED], ids=str)
@pytest.mark.parametrize("shape", [*SHAPES, (2, 1, 256)], ids=str)
def test_compiled_kernels_on_a_gpu(
    shape: tuple[int, int, int], cache: tuple[torch.dtype | None, Scales], dtype: torch.dtype
) -> None:
    """Prefill, chunks and every mask in one launch, then a split decode, against the twin on the same cache."""
    from kernels import dispatch, reference

    assert dispatch.implementation_name("cuda") == "triton"
    for rows, masked in ((mixed_rows(4), True), (mixed_rows(16), False), ([(1500, 1), (3, 1)], False)):
        masks = every_mask(rows) if masked else None
        batch = make_batch(rows, shape, 16, dtype=dtype, kv_dtype=cache[0], scales=cache[1], masks=masks)
        there = on_gpu(batch)
        dispatch.write_kv(there.new_key, there.new_value, there.layer, there.meta.slot_mapping)
        lse = torch.empty(there.query.shape[:2], device="cuda")
        output = dispatch.paged_attention(there.query, there.layer, there.meta, there.rule, lse).cpu()
        reference.write_kv(batch.new_key, batch.new_value, batch.layer, batch.meta.slot_mapping)
        twin_lse = torch.empty(batch.query.shape[:2])
        twin = reference.paged_attention(batch.query, batch.layer, batch.meta, batch.rule, twin_lse)
        assert (output.double() - twin.double()).abs().max() <= TOLERANCE[dtype]
        assert (lse.cpu() - twin_lse).abs().max() <= TOLERANCE[dtype]

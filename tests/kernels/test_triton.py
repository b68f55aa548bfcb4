"""The Triton sources: in the interpreter (another process), compiled without a GPU, and on one if there is one."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch

from tests.kernels.batches import SHAPES, TOLERANCE, make_batch, mixed_rows

triton = pytest.importorskip("triton", reason="triton has wheels for Linux only")

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def interpreted() -> dict[str, Any]:
    process = subprocess.run(
        [sys.executable, "-m", "tests.kernels.interpreter_cases"],
        cwd=ROOT, env={**os.environ, "TRITON_INTERPRET": "1"}, capture_output=True, text=True, check=False, timeout=300,
    )  # fmt: skip
    assert process.returncode == 0, process.stderr
    results: dict[str, Any] = json.loads(process.stdout)
    return results


def test_interpreted_attention_equals_dense(interpreted: dict[str, Any]) -> None:
    tolerance = {"float32": 1e-5, "float16": 2e-3, "bfloat16": 2e-2}
    errors = interpreted["shapes"]
    assert len(errors) == 13
    wrong = {name: error for name, error in errors.items() if not error <= tolerance[name.rpartition(".")[2]]}
    assert not wrong


def test_interpreted_attention_ignores_rubbish(interpreted: dict[str, Any]) -> None:
    assert interpreted["poison"] == {"nan": True, "inf": True}


def test_interpreted_request_alone_equals_itself_in_a_batch_to_the_bit(interpreted: dict[str, Any]) -> None:
    assert interpreted["alone"] is True


def test_interpreted_rows_without_context_are_zero(interpreted: dict[str, Any]) -> None:
    assert interpreted["no_context"] is True


def test_interpreted_write_equals_the_twin(interpreted: dict[str, Any]) -> None:
    assert interpreted["writes"] == {"3 x 64": True, "2 x 80": True, "1 x 5": True}


def test_interpreted_block_copy_equals_the_twin(interpreted: dict[str, Any]) -> None:
    assert interpreted["copies"] == {"3 x 4 x 3 x 64": True, "1 x 16 x 2 x 80": True, "2 x 1 x 1 x 5": True}


def compile_for(kernel: Any, pointers: dict[str, str], constants: dict[str, Any], capability: int) -> Any:
    from triton.backends.compiler import GPUTarget
    from triton.compiler import ASTSource

    names = kernel.arg_names
    signature = {
        name: "constexpr" if name in constants else pointers.get(name, "fp32" if name == "scale" else "i32")
        for name in names
    }
    # As at a real launch: torch allocates on 16-byte boundaries and Triton specialises on it.
    aligned = {(index,): [["tt.divisibility", 16]] for index, name in enumerate(names) if name in pointers}
    source = ASTSource(kernel, signature, constants, aligned)
    options = {"enable_fp_fusion": True}
    return triton.compile(source, target=GPUTarget("cuda", capability, 32), options=options)


def resources(compiled: Any, folder: Path) -> dict[str, int]:
    """Registers, stack and local memory per thread, as NVIDIA's cuobjdump (it comes with triton) reports them."""
    tool = Path(triton.__file__).parent / "backends/nvidia/bin/cuobjdump"
    if not tool.is_file():
        pytest.skip("this triton comes without cuobjdump")
    binary = folder / "kernel.cubin"
    binary.write_bytes(compiled.asm["cubin"])
    report = subprocess.run([tool, "-res-usage", binary], capture_output=True, text=True, check=True).stdout
    return {name: int(value) for name, value in re.findall(r"(REG|STACK|LOCAL):(\d+)", report)}


@pytest.mark.skipif(os.environ.get("TRITON_INTERPRET") == "1", reason="the interpreter cannot compile")
@pytest.mark.parametrize("capability", [80, 90])
@pytest.mark.parametrize("dtype", ["fp32", "bf16"])
@pytest.mark.parametrize("shape", [(9, 3, 64), (6, 2, 80), (4, 2, 128)], ids=str)
def test_attention_compiles_without_spills(
    shape: tuple[int, int, int], dtype: str, capability: int, tmp_path: Path
) -> None:
    from kernels.paged_attention import TILE, paged_attention_kernel, tile_rows

    query_heads, kv_heads, head_dim = shape
    group = query_heads // kv_heads
    block_q, block_m = tile_rows(group)
    data = ("output_ptr", "query_ptr", "key_cache_ptr", "value_cache_ptr")
    tables = ("block_table_ptr", "seq_lens_ptr", "query_start_loc_ptr")
    pointers = dict.fromkeys(data, f"*{dtype}") | dict.fromkeys(tables, "*i32")
    constants = {
        "BLOCK_SIZE": 16, "NUM_KV_HEADS": kv_heads, "GROUP": group, "HEAD_DIM": head_dim,
        "HEAD_DIM_PADDED": triton.next_power_of_2(head_dim), "BLOCK_Q": block_q, "BLOCK_M": block_m,
        "TILE_SIZE": TILE, "UPCAST": False,
    }  # fmt: skip
    compiled = compile_for(paged_attention_kernel, pointers, constants, capability)
    assert ("mma.sync" in compiled.asm["ptx"]) == (dtype == "bf16")
    used = resources(compiled, tmp_path)
    assert used["STACK"] == used["LOCAL"] == 0
    assert used["REG"] <= 128


@pytest.mark.skipif(os.environ.get("TRITON_INTERPRET") == "1", reason="the interpreter cannot compile")
@pytest.mark.parametrize("capability", [80, 90])
def test_write_compiles_without_spills(capability: int, tmp_path: Path) -> None:
    from kernels.cache_ops import write_kv_kernel

    pointers = dict.fromkeys(("key_ptr", "value_ptr", "key_cache_ptr", "value_cache_ptr"), "*bf16")
    pointers["slot_mapping_ptr"] = "*i64"
    compiled = compile_for(write_kv_kernel, pointers, {"ROW": 192, "ROW_PADDED": 256}, capability)
    used = resources(compiled, tmp_path)
    assert used["STACK"] == used["LOCAL"] == 0


@pytest.mark.skipif(os.environ.get("TRITON_INTERPRET") == "1", reason="the interpreter cannot compile")
@pytest.mark.parametrize("capability", [80, 90])
def test_block_copy_compiles_without_spills_and_with_64_bit_offsets(capability: int, tmp_path: Path) -> None:
    from kernels.cache_ops import COPY_CHUNK, copy_blocks_kernel

    pointers = {"key_cache_ptr": "*bf16", "value_cache_ptr": "*bf16", "pairs_ptr": "*i64"}
    compiled = compile_for(copy_blocks_kernel, pointers, {"BLOCK": 16 * 192, "CHUNK": COPY_CHUNK}, capability)
    used = resources(compiled, tmp_path)
    assert used["STACK"] == used["LOCAL"] == 0
    assert re.search(r"arith.muli .* : i64", compiled.asm["ttir"])


@pytest.mark.gpu
def test_compiled_block_copy_on_a_gpu() -> None:
    if not torch.cuda.is_available():
        pytest.skip("no CUDA GPU on this machine")
    from kernels import dispatch

    key, value = (torch.randn(3, 8, 16, 3, 64, device="cuda") for _ in range(2))
    old_key, old_value = key.clone(), value.clone()
    dispatch.copy_blocks(key, value, [(7, 0), (2, 5), (2, 1)])
    for new, old in ((key, old_key), (value, old_value)):
        assert torch.equal(new[:, [0, 5, 1]], old[:, [7, 2, 2]])
        assert torch.equal(new[:, [2, 3, 4, 6, 7]], old[:, [2, 3, 4, 6, 7]])


@pytest.mark.gpu
@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16], ids=str)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_compiled_kernels_on_a_gpu(shape: tuple[int, int, int], dtype: torch.dtype) -> None:
    if not torch.cuda.is_available():
        pytest.skip("no CUDA GPU on this machine")
    from kernels import dispatch

    assert dispatch.implementation_name("cuda") == "triton"
    for block_size in (4, 16):
        batch = make_batch(mixed_rows(block_size), shape, block_size, dtype=dtype)
        expected = batch.expected()
        fields = {name: getattr(batch.meta, name).cuda() for name in ("query_start_loc", "seq_lens", "block_table")}
        slots = batch.meta.slot_mapping.cuda()
        meta = type(batch.meta)(
            slot_mapping=slots, block_size=block_size, max_query_len=batch.meta.max_query_len,
            max_seq_len=batch.meta.max_seq_len, **fields,
        )  # fmt: skip
        key_cache, value_cache = batch.key_cache.cuda(), batch.value_cache.cuda()
        dispatch.write_kv(batch.new_key.cuda(), batch.new_value.cuda(), key_cache, value_cache, slots)
        output = dispatch.paged_attention(batch.query.cuda(), key_cache, value_cache, meta, batch.scale)
        error = (output.cpu().double() - expected).abs().max().item()
        assert error <= {**TOLERANCE, torch.bfloat16: 2e-2}[dtype]

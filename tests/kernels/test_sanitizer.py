"""Every load and store of an interpreted launch: what a clean one touches, and each way to go wrong in its words."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from kernels.errors import KernelError
from kernels.layout import CacheLayout, Order
from kernels.sanitizer import SENTENCES, Rights, Why, _Region, watch
from tests.kernels.batches import make_batch

pytest.importorskip("triton", reason="triton has wheels for Linux only")


@pytest.fixture(scope="module")
def watched() -> dict[str, Any]:
    process = subprocess.run(
        [sys.executable, "-m", "tests.kernels.watched_cases"], cwd=Path(__file__).parents[2],
        env={**os.environ, "TRITON_INTERPRET": "1"}, capture_output=True, text=True, check=False, timeout=600,
    )  # fmt: skip
    assert process.returncode == 0, process.stderr
    results: dict[str, Any] = json.loads(process.stdout)
    return results


def test_a_clean_launch_has_no_violation_and_reads_what_the_twin_walks(watched: dict[str, Any]) -> None:
    assert len(watched["clean"]) == 13
    for name, found in watched["clean"].items():
        assert found == {"violations": [], "same": True, "walk": True, "programs": True}, name


def test_every_access_of_a_program_is_logged_in_order(watched: dict[str, Any]) -> None:
    """6 positions of 8 numbers in blocks of 4: 48 lanes of K and of V; two heads of queries."""
    assert [entry[1:] for entry in watched["log"]] == [
        [0, "query_start_loc", False, 1, []],
        [1, "query_start_loc", False, 1, []],
        [2, "query_start_loc", False, 1, []],
        [3, "seq_lens", False, 1, []],
        [4, "query", False, 16, []],
        [5, "block_table", False, 6, []],
        [6, "key", False, 48, [0, 1]],
        [7, "value", False, 48, [0, 1]],
        [8, "output", True, 16, []],
    ]


def both(tile: int, *places: str) -> list[str]:
    """The same complaint of both KV heads' programs, keys then values."""
    return [
        f"program ({tile}, {head}, 0) reads {tensor}, {place}"
        for head in range(2)
        for tensor in ("key", "value")
        for place in places
    ]


def test_each_wrong_table_is_caught_in_its_own_words(watched: dict[str, Any]) -> None:
    """Row A has 10 positions in A0-A2, row C 5 in C0 and C1; tile 0 is A's, tile 1 B's."""
    found = watched["broken"]
    assert len(found) == 7
    assert found["free block"] == both(0, "block FREE, slot 0: a free block")
    assert found["another's block"] == both(1, "block C1, slot 0: another request's block")
    misplaced = "its own block, but not the one for these positions"
    assert found["entries swapped"] == both(0, f"block A1, slot 0: {misplaced}", f"block A0, slot 0: {misplaced}")
    assert found["own block, wrong place"] == both(
        0, "block A2, slot 2: a slot beyond the row's length", f"block A2, slot 0: {misplaced}"
    )
    assert found["no block"] == found["negative block"] == both(0, "an address outside every tensor")
    assert found["one too long"] == both(0, "block A2, slot 2: a slot beyond the row's length")


def test_each_wrong_argument_is_caught_where_it_shows(watched: dict[str, Any]) -> None:
    found = {name: set(reasons) for name, reasons in watched["arguments"].items()}
    assert {"key: foreign", "key: free", "value: foreign", "value: free"} <= found["block_stride x 2"]
    assert "-: outside" in found["block_stride x 1000"]
    assert {"key: beyond", "value: beyond", "value: outside"} <= found["slot_stride x 2"]
    assert {"key: head", "value: head"} <= found["head_stride x 2"]
    assert {"-: outside", "key: free"} <= found["table_stride x 2"]
    assert "-: outside" in found["query_stride_token x 100"]
    assert "output: outside" in found["GROUP x 2"]


def test_a_store_outside_the_output_is_not_done(watched: dict[str, Any]) -> None:
    assert watched["store"] == {"stores": ["query: input"], "others": [], "untouched": True, "written": True}


def test_the_interpreter_is_left_as_it_was(watched: dict[str, Any]) -> None:
    assert watched["gone"] is True


def test_another_layers_numbers_are_outside_a_layers_tensor() -> None:
    """With all layers of a block side by side, a layer's blocks have gaps between them."""
    layer = CacheLayout(2, 3, 4, 2, 8, order=Order.BLSH).allocate().layer(0)
    block, slot, head, _ = layer.key.stride()
    at = np.array([0, slot, block + 3 * slot + head + 7, 4 * slot, 3 * block, -1]) * 4
    inside, index = _Region("key_cache_ptr", layer.key).locate(at + layer.key.data_ptr())
    assert inside.tolist() == [True, True, True, False, False, False]
    assert [axis[:3].tolist() for axis in index] == [[0, 0, 1], [0, 1, 3], [0, 0, 1], [0, 0, 7]]
    inside, _ = _Region("key_cache_ptr", layer.key).locate(np.array([2]) + layer.key.data_ptr())
    assert not inside.any()


def test_rights_come_from_right_metadata() -> None:
    batch = make_batch([(5, 1), (0, 4)], (2, 1, 8), 4)
    table = batch.meta.block_table.tolist()
    assert Rights.of(batch.meta) == Rights((tuple(table[0]), (table[1][0],)), (6, 4))


def test_every_reason_has_a_sentence() -> None:
    assert set(SENTENCES) == set(Why)


def test_a_compiling_process_cannot_be_watched() -> None:
    import triton

    if triton.knobs.runtime.interpret:
        pytest.skip("this process interprets")
    batch = make_batch([(5, 1)], (2, 1, 8), 4)
    with pytest.raises(KernelError, match=r"^TRITON_INTERPRET: is not set"):
        watch(batch.query, batch.layer, batch.meta, batch.rule)

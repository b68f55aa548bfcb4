"""Bytes and FLOPs of a launch against the formulas, counted by hand for small launches."""

from __future__ import annotations

import torch

from kernels.layout import Scales
from kernels.metadata import Mask, MaskKind
from kernels.recorder import walk
from kernels.traffic import Traffic, traffic
from tests.kernels.batches import make_batch


def counted(rows: list[tuple[int, int]], **options: object) -> Traffic:
    batch = make_batch(rows, (9, 3, 64), 4, poison=0.0, **options)  # type: ignore[arg-type]
    record = walk(batch.query, batch.layer, batch.meta, batch.rule)
    return traffic(record, batch.layer, batch.meta, 9, batch.query.element_size())


def test_decode_reads_each_position_once_for_each_kv_head() -> None:
    found = counted([(13, 1)])
    assert found.kv_bytes == found.least_kv_bytes == 14 * 3 * 64 * 4 * 2
    assert found.other_bytes == 2 * 9 * 64 * 4 + 3 * 4 * 4  # q and output; four table entries for each of three heads
    assert found.flops == 4 * 64 * 9 * 14


def test_prefill_reads_the_context_again_for_each_tile_of_queries() -> None:
    """Ten tokens, three heads a KV head, 16 rows a program: two tiles of five tokens, over 5 and 10 positions."""
    found = counted([(0, 10)])
    assert found.least_kv_bytes == 10 * 3 * 64 * 4 * 2
    assert found.kv_bytes == (5 + 10) * 3 * 64 * 4 * 2
    assert found.flops == 4 * 64 * 9 * (10 * 11 // 2)  # the causal half


def test_a_window_reads_and_computes_less() -> None:
    found = counted([(13, 1)], masks=[Mask(MaskKind.WINDOW, size=4)])
    assert found.kv_bytes == 4 * 3 * 64 * 4 * 2
    assert found.flops == 4 * 64 * 9 * 4


def test_int8_moves_a_quarter_and_its_scales() -> None:
    found = counted([(13, 1)], kv_dtype=torch.int8, scales=Scales.TOKEN_HEAD)
    assert found.kv_bytes == 14 * 3 * (64 + 4) * 2


def test_intensity_is_flops_a_byte() -> None:
    found = counted([(13, 1)])
    assert found.intensity == found.flops / (found.kv_bytes + found.other_bytes)

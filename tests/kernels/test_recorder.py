"""What a launch did, block by block: the torch twin's record against the kernel's own result and the block table."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from kernels import reference
from kernels.masks import visible_positions
from kernels.recorder import LaunchRecord, walk
from tests.kernels import oracle
from tests.kernels.batches import Batch, every_mask, make_batch
from tests.kernels.records import DECODES, SPLIT, batches, written


def ends(record: LaunchRecord, batch: Batch) -> tuple[torch.Tensor, torch.Tensor]:
    """(output [T, Hq, D], log-sum-exp [T, Hq]) put together from each program's last visit."""
    group = batch.query.shape[1] // batch.layer.layout.num_kv_heads
    output, sums = torch.zeros(batch.query.shape), torch.full(batch.query.shape[:2], -math.inf)
    for program in record.programs:
        last = record.of(program.place)[-1]
        assert last.running_max is not None and last.running_sum is not None and last.partial is not None
        tokens = slice(program.first_token, program.end_token)
        heads = slice(program.kv_head * group, (program.kv_head + 1) * group)
        count = program.end_token - program.first_token
        output[tokens, heads] = torch.from_numpy(last.partial).view(count, group, -1)
        sums[tokens, heads] = torch.from_numpy(last.running_max + np.log(last.running_sum)).view(count, group)
    return output, sums


@pytest.mark.parametrize("name", list(batches()))
def test_the_walk_ends_at_the_kernels_result(name: str) -> None:
    batch = written(batches()[name])
    output, sums = ends(walk(batch.query, batch.layer, batch.meta, batch.rule), batch)
    lse = torch.empty(batch.query.shape[:2])
    expected = reference.paged_attention(batch.query, batch.layer, batch.meta, batch.rule, lse)
    assert float((output - expected).abs().max()) <= 1e-5
    assert float((sums - lse).abs().max()) <= 1e-5


@pytest.mark.parametrize("name", list(batches()))
def test_every_visit_is_the_block_tables(name: str) -> None:
    batch = written(batches()[name])
    size = batch.meta.block_size
    record = walk(batch.query, batch.layer, batch.meta, batch.rule)
    assert record.visits
    for program in record.programs:
        visits = record.of(program.place)
        table = batch.meta.block_table[program.row]
        assert [visit.order for visit in visits] == list(range(len(visits)))
        assert [visit.physical_block for visit in visits] == [int(table[visit.logical_block]) for visit in visits]
        assert sum(visit.lanes for visit in visits) == program.stop - program.start
        assert all(0 < visit.lanes <= size for visit in visits)


def test_splits_join_to_the_result() -> None:
    """Flash-Decoding: each split counts by its exponential of sums."""
    batch = written(make_batch(DECODES, (6, 2, 80), 4))
    record = walk(batch.query, batch.layer, batch.meta, batch.rule, SPLIT)
    assert record.grid == (len(DECODES) // 5 + len(DECODES), 2, 3)
    expected = batch.expected()
    for row in range(len(DECODES)):
        for head in range(2):
            last = [record.of(each.place)[-1] for each in record.programs if (each.row, each.kv_head) == (row, head)]
            sums = torch.stack(
                [torch.from_numpy(v.running_max + np.log(v.running_sum)) for v in last]  # type: ignore[operator, arg-type]
            )
            partial = torch.stack([torch.from_numpy(v.partial) for v in last if v.partial is not None])
            joined = (torch.softmax(sums, 0)[..., None] * partial).sum(0)
            assert float((joined - expected[row, head * 3 : head * 3 + 3]).abs().max()) <= 1e-5


def test_a_row_without_context_visits_nothing() -> None:
    batch = written(make_batch([(4, 1), (0, 2)], (9, 3, 64), 4))
    batch.meta.seq_lens[1] = 0
    record = walk(batch.query, batch.layer, batch.meta, batch.rule)
    assert {visit.row for visit in record.visits} == {0}


def test_masks_are_the_definitions() -> None:
    rows = [(5, 6), (0, 9), (7, 8), (3, 1)]
    batch = make_batch(rows, (2, 1, 8), 4, masks=every_mask(rows))
    starts = batch.meta.query_start_loc.tolist()
    for row, (mask, (context, length)) in enumerate(zip(batch.masks, rows, strict=True)):
        seen, distance = visible_positions(
            batch.meta, row, slice(starts[row], starts[row + 1]), slice(0, context + length)
        )
        assert torch.equal(seen, oracle.visible(mask, length, context + length))
        assert distance[0, 0] == -context

"""The torch twin against textbook attention, over the shapes and lengths that break kernels (cases O15, O16)."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from kernels import reference
from kernels.batch_plan import plan_batch
from kernels.layout import CacheLayout, Order, Scales
from kernels.metadata import Mask, MaskKind
from tests.kernels import oracle
from tests.kernels.batches import (
    BLOCK_SIZES,
    SHAPES,
    TOLERANCE,
    Batch,
    every_mask,
    interesting_contexts,
    make_batch,
    mixed_rows,
)


def write(batch: Batch) -> None:
    reference.write_kv(batch.new_key, batch.new_value, batch.layer, batch.meta.slot_mapping)


def run(batch: Batch, lse: torch.Tensor | None = None) -> torch.Tensor:
    write(batch)
    return reference.paged_attention(batch.query, batch.layer, batch.meta, batch.rule, lse)


def assert_close(got: torch.Tensor, expected: torch.Tensor, tolerance: float) -> None:
    assert torch.isfinite(got).all()
    assert (got.double() - expected).abs().max().item() <= tolerance


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16], ids=str)
@pytest.mark.parametrize("block_size", BLOCK_SIZES)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_mixed_batch_equals_dense(shape: tuple[int, int, int], block_size: int, dtype: torch.dtype) -> None:
    batch = make_batch(mixed_rows(block_size), shape, block_size, dtype=dtype)
    output = run(batch)
    assert output.dtype == dtype
    assert_close(output, batch.expected(), TOLERANCE[dtype])


@pytest.mark.parametrize("block_size", BLOCK_SIZES)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_each_length_alone(shape: tuple[int, int, int], block_size: int) -> None:
    for length in interesting_contexts(block_size):
        for query_len in {1, length}:
            batch = make_batch([(length - query_len, query_len)], shape, block_size, seed=length)
            assert_close(run(batch), batch.expected(), TOLERANCE[torch.float32])


@pytest.mark.parametrize("poison", [float("nan"), float("inf"), float("-inf")])
@pytest.mark.parametrize("where", ["key", "value", "both"])
@pytest.mark.parametrize("context", [6, 8])
def test_o15_rubbish_in_the_unwritten_end_changes_no_bit(poison: float, where: str, context: int) -> None:
    """O15: bs 4, context 6 in 2 blocks, slots 6 and 7 spoiled; then context 8."""
    clean = make_batch([(context - 1, 1)], (9, 3, 64), 4, poison=0.0)
    dirty = make_batch([(context - 1, 1)], (9, 3, 64), 4, poison=0.0)
    last = int(dirty.meta.block_table[0, 1])
    for name, tensor in (("key", dirty.layer.key), ("value", dirty.layer.value)):
        if where in (name, "both"):
            tensor[last, context - 4 :] = poison
    output = run(dirty)
    assert torch.equal(output, run(clean))
    assert_close(output, dirty.expected(), 1e-5)


@settings(max_examples=60, deadline=None)
@given(
    rows=st.lists(st.tuples(st.integers(0, 40), st.integers(1, 12)), min_size=1, max_size=6),
    block_size=st.integers(1, 33),
    kv_heads=st.integers(1, 3),
    ratio=st.integers(1, 5),
    head_dim=st.sampled_from([2, 8, 24, 64]),
    seed=st.integers(0, 1000),
)
def test_any_batch_equals_dense(
    rows: list[tuple[int, int]], block_size: int, kv_heads: int, ratio: int, head_dim: int, seed: int
) -> None:
    batch = make_batch(rows, (kv_heads * ratio, kv_heads, head_dim), block_size, seed=seed)
    assert_close(run(batch), batch.expected(), TOLERANCE[torch.float32])


RAGGED = [(9, 1), (511, 1), (0, 7), (59, 1), (130, 1), (0, 1), (70, 4), (255, 1), (68, 1)]


@pytest.mark.parametrize("order", list(Order))
@pytest.mark.parametrize(("dtype", "scales"), [
    (torch.float32, Scales.NONE), (torch.bfloat16, Scales.NONE), (torch.int8, Scales.TOKEN_HEAD),
    (torch.float8_e4m3fn, Scales.BLOCK),
])  # fmt: skip
def test_decode_rows_of_any_length_are_attended_in_groups(order: Order, dtype: torch.dtype, scales: Scales) -> None:
    """Padding repeats a row's own last slot: neither the poison around it nor another row may show."""
    batch = make_batch(RAGGED, (9, 3, 64), 16, kv_dtype=dtype, scales=scales, order=order)
    plan = plan_batch(batch.meta)
    assert [group.rows for group in plan.groups] == [1, 1, 2, 3]
    write(batch)
    stored = batch.stored()
    planned = reference.paged_attention(batch.query, batch.layer, batch.meta, batch.rule, plan=plan)
    assert_close(planned, stored.expected(), 1e-5)
    assert torch.equal(planned, run(batch))


def test_decode_rows_of_one_length_need_no_padding() -> None:
    batch = make_batch([(20, 1)] * 5, (9, 3, 64), 16)
    (group,) = plan_batch(batch.meta).groups
    assert (group.tokens, group.bias, group.rows) == (None, None, 5)
    assert_close(run(batch), batch.expected(), 1e-5)


def test_a_wrong_plan_shows() -> None:
    """The groups do decide what is read: the same plan over another step's tables is wrong."""
    batch = make_batch(RAGGED, (9, 3, 64), 16)
    plan = plan_batch(replace(batch.meta, block_table=batch.meta.block_table.roll(1, 0).clamp(max=1)))
    write(batch)
    output = reference.paged_attention(batch.query, batch.layer, batch.meta, batch.rule, plan=plan)
    assert not (output.double() - batch.expected()).abs().max() <= 1e-3


def test_moving_blocks_changes_no_bit() -> None:
    batch = make_batch([(9, 1), (0, 7)], (9, 3, 64), 4)
    before = run(batch)
    order = torch.randperm(batch.layer.key.shape[0], generator=torch.Generator().manual_seed(1))
    new_place = torch.argsort(order).to(torch.int32)
    layer = replace(batch.layer, key=batch.layer.key[order], value=batch.layer.value[order])
    table = new_place[batch.meta.block_table.long().clamp(max=len(order) - 1)]
    meta = replace(batch.meta, block_table=table)
    assert torch.equal(reference.paged_attention(batch.query, layer, meta, batch.rule), before)


def test_o16_query_head_reads_kv_head_h_over_ratio() -> None:
    batch = make_batch([(4, 2)], (9, 3, 8), 4)
    write(batch)
    for kv_head in range(3):
        batch.layer.value[:, :, kv_head] = float(kv_head)
    heads = reference.paged_attention(batch.query, batch.layer, batch.meta, batch.rule).mean(dim=(0, 2))
    assert heads.tolist() == pytest.approx([0, 0, 0, 1, 1, 1, 2, 2, 2])


@pytest.mark.parametrize("order", list(Order))
def test_negative_slots_are_not_written(order: Order) -> None:
    layer = CacheLayout(2, 2, 2, 1, 2, order=order).allocate().layer(1)
    layer.key.zero_()
    layer.value.zero_()
    new = torch.ones(3, 1, 2)
    reference.write_kv(new, 2 * new, layer, torch.tensor([-1, 2, -7]))
    assert layer.key.flatten(0, 1)[:, 0, 0].tolist() == [0, 0, 1, 0]
    assert layer.value.flatten(0, 1)[:, 0, 0].tolist() == [0, 0, 2, 0]


def some_masks(rows: list[tuple[int, int]], offset: int) -> list[Mask]:
    masks = every_mask([(0, 1)] * offset + rows)
    return masks[offset:]


@settings(max_examples=60, deadline=None)
@given(
    rows=st.lists(st.tuples(st.integers(0, 40), st.integers(1, 12)), min_size=1, max_size=6),
    block_size=st.integers(1, 33),
    heads=st.sampled_from([(3, 1, 24), (4, 2, 8), (5, 5, 2)]),
    order=st.sampled_from(list(Order)),
    offset=st.integers(0, 3),
    soft_cap=st.sampled_from([None, 1.5, 30.0]),
    alibi=st.booleans(),
    with_lse=st.booleans(),
    seed=st.integers(0, 1000),
)
def test_every_mask_and_rule_equals_dense(
    rows: list[tuple[int, int]],
    block_size: int,
    heads: tuple[int, int, int],
    order: Order,
    offset: int,
    soft_cap: float | None,
    alibi: bool,
    with_lse: bool,
    seed: int,
) -> None:
    masks = some_masks(rows, offset)
    batch = make_batch(
        rows, heads, block_size, order=order, masks=masks, soft_cap=soft_cap, alibi=alibi, seed=seed
    )  # fmt: skip
    lse = torch.empty(batch.query.shape[:2]) if with_lse else None
    assert_close(run(batch, lse), batch.expected(), 1e-5)
    if lse is not None:
        assert_close(lse, batch.expected_lse(), 1e-5)


def test_blocks_that_left_the_window_are_not_touched() -> None:
    """vLLM puts the null block in their place; here they are gone altogether."""
    batch = make_batch([(40, 1), (30, 4)], (4, 2, 8), 4, masks=[Mask(MaskKind.WINDOW, size=6)] * 2)
    batch.meta.block_table[0, : (41 - 6) // 4] = 2**30
    batch.meta.block_table[1, : (31 - 6) // 4] = 2**30
    assert_close(run(batch), batch.expected(), 1e-5)


@pytest.mark.parametrize(("seq_len", "empty"), [(0, 2), (1, 1)])
def test_rows_without_context_are_zero(seq_len: int, empty: int) -> None:
    batch = make_batch([(0, 2), (3, 1)], (4, 2, 8), 4)
    batch.meta.seq_lens[0] = seq_len
    output = run(batch)
    assert torch.equal(output[:empty], torch.zeros(empty, 4, 8))
    assert torch.isfinite(output).all()
    assert output[empty:].abs().sum(dim=(1, 2)).all()


def test_attention_mass_is_the_softmax_per_block() -> None:
    generator = torch.Generator().manual_seed(0)
    query, key = torch.randn(6, 16, generator=generator), torch.randn(11, 2, 16, generator=generator)
    mass = reference.attention_mass(query, key, 0.25, 4)
    assert mass.shape == (6, 3)
    assert mass.dtype == torch.float32
    for head in range(6):
        weights = torch.softmax(key[:, head // 3] @ query[head] * 0.25, 0)
        expected = [weights[0:4].sum(), weights[4:8].sum(), weights[8:].sum()]
        assert mass[head].tolist() == pytest.approx([float(x) for x in expected], abs=1e-6)


@pytest.mark.parametrize("window", [None, 5])
def test_the_oracle_against_transformers(window: int | None) -> None:
    """Gemma 2's eager attention: soft cap, sliding window, grouped heads."""
    from transformers.models.gemma2 import modeling_gemma2

    generator = torch.Generator().manual_seed(0)
    query = torch.randn(7, 6, 16, generator=generator).double()
    key, value = torch.randn(2, 12, 2, 16, generator=generator).double()
    mask = Mask() if window is None else Mask(MaskKind.WINDOW, size=window)
    grid = torch.where(oracle.visible(mask, 7, 12), 0.0, float("-inf")).double()
    module = torch.nn.Module()
    module.num_key_value_groups = 3  # type: ignore[assignment]
    expected, _ = modeling_gemma2.eager_attention_forward(
        module.eval(), *(x.transpose(0, 1)[None] for x in (query, key, value)), grid[None, None], scaling=0.3,
        softcap=2.5,
    )  # fmt: skip
    got, _ = oracle.attention(query, key, value, 0.3, mask, soft_cap=2.5)
    # transformers takes its softmax in float32
    assert (got - expected[0]).abs().max() < 1e-6


def test_dense_attention_against_torch() -> None:
    generator = torch.Generator().manual_seed(0)
    query = torch.randn(5, 6, 16, generator=generator).double()
    key, value = torch.randn(2, 5, 2, 16, generator=generator).double()
    q, k, v = (x.transpose(0, 1)[None] for x in (query, key, value))
    expected = torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True, scale=0.3, enable_gqa=True)
    got = reference.dense_attention(query, key, value, 0.3)
    assert (got - expected[0].transpose(0, 1)).abs().max() < 1e-12

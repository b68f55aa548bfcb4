"""The torch twin against textbook attention, over the shapes and lengths that break kernels (cases O15, O16)."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from kernels import reference
from tests.kernels.batches import BLOCK_SIZES, SHAPES, TOLERANCE, Batch, interesting_contexts, make_batch, mixed_rows


def run(batch: Batch) -> torch.Tensor:
    reference.write_kv(batch.new_key, batch.new_value, batch.key_cache, batch.value_cache, batch.meta.slot_mapping)
    return reference.paged_attention(batch.query, batch.key_cache, batch.value_cache, batch.meta, batch.scale)


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
def test_rubbish_in_unwritten_slots_changes_no_bit(poison: float, where: str) -> None:
    clean = make_batch([(5, 1), (0, 6), (3, 3)], (9, 3, 64), 4, poison=0.0)
    dirty = make_batch([(5, 1), (0, 6), (3, 3)], (9, 3, 64), 4, poison=poison)
    if where == "key":
        dirty.value_cache = clean.value_cache.clone()
    if where == "value":
        dirty.key_cache = clean.key_cache.clone()
    assert torch.equal(run(dirty), run(clean))


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


def test_moving_blocks_changes_no_bit() -> None:
    batch = make_batch([(9, 1), (0, 7)], (9, 3, 64), 4)
    before = run(batch)
    order = torch.randperm(batch.key_cache.shape[0], generator=torch.Generator().manual_seed(1))
    new_place = torch.argsort(order).to(torch.int32)
    batch.key_cache, batch.value_cache = batch.key_cache[order], batch.value_cache[order]
    table = new_place[batch.meta.block_table.long()]
    offset = batch.meta.slot_mapping % 4
    slots = new_place[batch.meta.slot_mapping // 4].long() * 4 + offset
    meta = type(batch.meta)(
        batch.meta.query_start_loc, batch.meta.seq_lens, table, slots, 4, batch.meta.max_query_len,
        batch.meta.max_seq_len,
    )  # fmt: skip
    after = reference.paged_attention(batch.query, batch.key_cache, batch.value_cache, meta, batch.scale)
    assert torch.equal(after, before)


def test_query_head_reads_its_own_kv_head() -> None:
    batch = make_batch([(4, 2)], (9, 3, 8), 4)
    for kv_head in range(3):
        batch.values[0][:, kv_head] = float(kv_head)
    batch = Batch(**{**vars(batch), "new_value": batch.values[0][4:]})
    batch.value_cache.view(-1, 3, 8)[[int(batch.meta.block_table[0, 0]) * 4 + i for i in range(4)]] = batch.values[0][
        :4
    ]
    heads = run(batch).mean(dim=(0, 2))
    assert heads.tolist() == pytest.approx([0, 0, 0, 1, 1, 1, 2, 2, 2])


def test_negative_slots_are_not_written() -> None:
    cache_k, cache_v = torch.zeros(2, 2, 1, 2), torch.zeros(2, 2, 1, 2)
    new = torch.ones(3, 1, 2)
    reference.write_kv(new, 2 * new, cache_k, cache_v, torch.tensor([-1, 2, -7]))
    assert cache_k.flatten(0, 1)[:, 0, 0].tolist() == [0, 0, 1, 0]
    assert cache_v.flatten(0, 1)[:, 0, 0].tolist() == [0, 0, 2, 0]


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


def test_dense_attention_against_torch() -> None:
    generator = torch.Generator().manual_seed(0)
    query = torch.randn(5, 6, 16, generator=generator).double()
    key, value = torch.randn(2, 5, 2, 16, generator=generator).double()
    q, k, v = (x.transpose(0, 1)[None] for x in (query, key, value))
    expected = torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True, scale=0.3, enable_gqa=True)
    got = reference.dense_attention(query, key, value, 0.3)
    assert (got - expected[0].transpose(0, 1)).abs().max() < 1e-12

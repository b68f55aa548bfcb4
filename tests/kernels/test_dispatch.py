"""Launches that cannot be right are refused before they begin, naming the argument."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
import torch

from kernels import dispatch
from kernels.checks import check_values
from kernels.errors import KernelError
from kernels.layout import SCHEMA_VERSION, CacheLayout, KVPool, Order, Scales
from kernels.metadata import Mask, MaskKind, RowMasks, ScoreRule, Semantics
from kernels.swap import neighbours
from tests.kernels.batches import Batch, make_batch

Change = Callable[[Batch], object]


def change_meta(**fields: Any) -> Change:
    return lambda batch: setattr(batch, "meta", replace(batch.meta, **fields))


def change_masks(**fields: Any) -> Change:
    masks = RowMasks.of([Mask(), Mask()], [1, 3])
    return change_meta(masks=replace(masks, **fields))


def change_rule(**fields: Any) -> Change:
    return lambda batch: setattr(batch, "rule", replace(batch.rule, **fields))


def change(name: str, make: Callable[[torch.Tensor], torch.Tensor]) -> Change:
    return lambda batch: setattr(batch, name, make(getattr(batch, name)))


def attend(batch: Batch, lse: torch.Tensor | None = None) -> torch.Tensor:
    return dispatch.paged_attention(batch.query, batch.layer, batch.meta, batch.rule, lse)


def test_cpu_is_served_by_the_twin() -> None:
    assert dispatch.implementation_name("cpu") == "torch"
    batch = make_batch([(4, 1), (0, 3)], (6, 2, 8), 4)
    dispatch.write_kv(batch.new_key, batch.new_value, batch.layer, batch.meta.slot_mapping)
    assert (attend(batch).double() - batch.expected()).abs().max() < 1e-5


def test_without_triton_cuda_is_served_by_the_twin(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dispatch, "_has_triton", lambda: False)
    assert dispatch.implementation_name("cuda") == "torch"


@pytest.mark.parametrize(
    ("field", "spoil"),
    [
        ("schema_version", change_meta(schema_version=SCHEMA_VERSION + 1)),
        ("block_size", change_meta(block_size=8)),
        ("slot_mapping", change_meta(slot_mapping=torch.zeros(3, dtype=torch.int64))),
        ("slot_mapping", change_meta(slot_mapping=torch.zeros(4, dtype=torch.int32))),
        ("seq_lens", change_meta(seq_lens=torch.zeros(2, dtype=torch.int64))),
        ("query_start_loc", change_meta(query_start_loc=torch.zeros(2, dtype=torch.int32))),
        ("block_table", change_meta(block_table=torch.zeros(3, 4, dtype=torch.int32))),
        ("block_table", change_meta(block_table=torch.zeros(2, 4, dtype=torch.int64))),
        ("block_table", change_meta(block_table=torch.zeros(2, 1, dtype=torch.int32))),
        ("query", change("query", lambda t: t[:, :5])),
        ("query", change("query", lambda t: t[..., :4])),
        ("query", change("query", torch.Tensor.int)),
        ("query", change("query", lambda t: t[0])),
        ("query", change("query", lambda t: t.to("meta"))),
        ("semantics", change_meta(semantics=(Semantics.DECODE,))),
        ("semantics", change_meta(semantics=(Semantics.DECODE, Semantics.DECODE))),
        ("kind", change_masks(kind=torch.zeros(1, dtype=torch.int32))),
        ("size", change_masks(size=torch.zeros(2, dtype=torch.int64))),
        ("branch", change_masks(branch=torch.zeros(2, dtype=torch.int64))),
        ("alibi_slopes", change_rule(alibi_slopes=torch.zeros(5))),
    ],
)
def test_attention_misfits_name_their_field(field: str, spoil: Change) -> None:
    batch = make_batch([(4, 1), (0, 3)], (6, 2, 8), 4)
    spoil(batch)
    with pytest.raises(KernelError) as refused:
        attend(batch)
    assert refused.value.field == field
    assert str(refused.value).startswith(f"{field}: ")


def test_lse_misfits_are_refused() -> None:
    batch = make_batch([(4, 1), (0, 3)], (6, 2, 8), 4)
    for wrong in (torch.empty(4, 5), torch.empty(4, 6).half()):
        with pytest.raises(KernelError, match=r"^lse: "):
            attend(batch, wrong)


@pytest.mark.parametrize(
    ("field", "spoil"),
    [
        ("query_start_loc", change_meta(query_start_loc=torch.tensor([0, 3, 2], dtype=torch.int32))),
        ("query_start_loc", change_meta(query_start_loc=torch.tensor([0, 3, 5], dtype=torch.int32))),
        ("max_query_len", change_meta(max_query_len=2)),
        ("max_seq_len", change_meta(max_seq_len=4)),
        ("seq_lens", change_meta(seq_lens=torch.tensor([5, -1], dtype=torch.int32))),
        ("seq_lens", lambda batch: (change_masks(kind=torch.tensor([0, 3]))(batch), batch.meta.seq_lens[1:].fill_(2))),
        ("semantics", change_meta(semantics=(Semantics.PREFILL, Semantics.DECODE))),
        ("block_table", lambda batch: batch.meta.block_table[0].fill_(7)),
        ("block_table", lambda batch: batch.meta.block_table[1, :1].fill_(-1)),
        ("slot_mapping", lambda batch: batch.meta.slot_mapping.fill_(24)),
        ("slot_mapping", lambda batch: batch.meta.slot_mapping.fill_(5)),
    ],
)
def test_values_that_cannot_be_are_refused(field: str, spoil: Change) -> None:
    batch = make_batch([(4, 1), (0, 3)], (6, 2, 8), 4)
    blocks = batch.layer.layout.num_blocks
    check_values(batch.meta, blocks)
    spoil(batch)
    with pytest.raises(KernelError) as refused:
        check_values(batch.meta, blocks)
    assert refused.value.field == field


@pytest.mark.parametrize(
    ("field", "spoil"),
    [
        ("key", change("new_key", lambda t: t[:2])),
        ("value", change("new_value", torch.Tensor.half)),
        ("key", change("new_key", torch.Tensor.int)),
        ("slot_mapping", change_meta(slot_mapping=torch.zeros(4, dtype=torch.int32))),
    ],
)
def test_write_misfits_name_their_field_and_write_nothing(field: str, spoil: Change) -> None:
    batch = make_batch([(4, 1), (0, 3)], (6, 2, 8), 4, poison=0.0)
    spoil(batch)
    before = batch.layer.key.clone()
    with pytest.raises(KernelError) as refused:
        dispatch.write_kv(batch.new_key, batch.new_value, batch.layer, batch.meta.slot_mapping)
    assert refused.value.field == field
    assert torch.equal(batch.layer.key, before)


@pytest.mark.parametrize(
    ("field", "fields"),
    [
        ("num_layers", {"num_layers": 0}),
        ("block_size", {"block_size": 257}),
        ("head_dim", {"head_dim": 512}),
        ("dtype", {"dtype": torch.float64}),
        ("scales", {"dtype": torch.int8}),
        ("scales", {"scales": Scales.BLOCK}),
        ("schema_version", {"schema_version": SCHEMA_VERSION + 1}),
    ],
)
def test_a_layout_the_kernels_cannot_serve_is_refused_when_it_is_chosen(field: str, fields: dict[str, Any]) -> None:
    with pytest.raises(KernelError) as refused:
        replace(CacheLayout(2, 6, 4, 3, 8), **fields)
    assert refused.value.field == field


@pytest.mark.parametrize("order", list(Order))
@pytest.mark.parametrize(("dtype", "scales", "per_block"), [
    (torch.float32, Scales.NONE, 2 * 2 * 4 * 3 * 8 * 4), (torch.int8, Scales.TOKEN_HEAD, 2 * 2 * 4 * 3 * (8 + 4)),
    (torch.float8_e4m3fn, Scales.BLOCK, 2 * 2 * 3 * (4 * 8 + 4)),
])  # fmt: skip
def test_a_pool_lies_as_its_layout_says(order: Order, dtype: torch.dtype, scales: Scales, per_block: int) -> None:
    layout = CacheLayout(2, 6, 4, 3, 8, dtype, scales, order)
    pool = layout.allocate()
    assert layout.bytes_per_block == per_block
    assert sum(tensor.nbytes for tensor in pool.tensors) == 6 * per_block
    neighbour = pool.key.stride()
    assert sorted(range(4), key=lambda axis: -neighbour[axis]) == ["LBSH".index(axis) for axis in order]


@pytest.mark.parametrize(
    ("field", "fields"),
    [
        ("key", {"key": torch.empty(2, 6, 4, 3, 9)}),
        ("key", {"key": torch.empty(2, 6, 3, 4, 8).transpose(2, 3)}),
        ("value", {"value": torch.empty(2, 6, 4, 3, 8).half()}),
        ("value", {"value": torch.empty(2, 6, 4, 3, 8, device="meta")}),
        ("key_scale", {"key_scale": torch.empty(2, 6, 4, 3)}),
    ],
)
def test_a_pool_that_lies_otherwise_is_refused(field: str, fields: dict[str, torch.Tensor]) -> None:
    with pytest.raises(KernelError) as refused:
        replace(CacheLayout(2, 6, 4, 3, 8).allocate(), **fields)
    assert refused.value.field == field


@pytest.mark.parametrize(
    ("field", "make"),
    [
        ("size", lambda: Mask(MaskKind.WINDOW)),
        ("size", lambda: Mask(size=3)),
        ("parents", lambda: Mask(MaskKind.TREE)),
        ("parents", lambda: Mask(parents=(-1,))),
        ("parents", lambda: Mask(MaskKind.TREE, parents=(-1, 1))),
        ("parents", lambda: Mask(MaskKind.TREE, parents=(-1,) * 65)),
        ("parents", lambda: RowMasks.of([Mask(MaskKind.TREE, parents=(-1, 0))], [3])),
        ("soft_cap", lambda: ScoreRule(1.0, soft_cap=0.0)),
    ],
)
def test_a_mask_that_says_nothing_is_refused(field: str, make: Callable[[], object]) -> None:
    with pytest.raises(KernelError) as refused:
        make()
    assert refused.value.field == field


def test_branches_are_the_ancestors() -> None:
    assert Mask(MaskKind.TREE, parents=(-1, 0, 0, 1)).branches() == [0b1, 0b11, 0b101, 0b1011]
    assert Mask(MaskKind.TREE, parents=tuple(range(-1, 63))).branches()[-1] == -1  # all 64 bits


def a_pool(**fields: Any) -> KVPool:
    pool = replace(CacheLayout(2, 6, 4, 3, 8), **fields).allocate()
    for tensor in pool.tensors:
        tensor.copy_(torch.randn(tensor.shape))
    return pool


KINDS: list[dict[str, Any]] = [
    {}, {"order": Order.LBHS}, {"order": Order.BLSH}, {"order": Order.BLHS, "dtype": torch.float16},
    {"dtype": torch.int8, "scales": Scales.TOKEN_HEAD}, {"dtype": torch.float8_e4m3fn, "scales": Scales.BLOCK},
]  # fmt: skip


def bits(pool: KVPool) -> list[torch.Tensor]:
    return [tensor.contiguous().view(torch.uint8).clone() for tensor in pool.tensors]


@pytest.mark.parametrize("fields", KINDS, ids=str)
def test_block_copy_moves_all_layers_of_k_and_v_and_nothing_else(fields: dict[str, Any]) -> None:
    pool = a_pool(**fields)
    before = bits(pool)
    dispatch.copy_blocks(pool, [(1, 5), (1, 3)])
    dispatch.copy_blocks(pool, [])
    for new, old in zip(bits(pool), before, strict=True):
        assert torch.equal(new, old[:, [0, 1, 2, 1, 4, 1]])


@pytest.mark.parametrize(
    ("pairs", "words"),
    [
        ([(1, 6)], "block 6 is not one of the pool's 6"),
        ([(-1, 2)], "block -1 is not"),
        ([(1, 3), (2, 3)], "block 3 is the target of two"),
        ([(1, 3), (3, 4)], "block 3 is both"),
        ([(2, 2)], "block 2 is both"),
    ],
)
def test_a_copy_that_has_no_one_meaning_is_refused_and_copies_nothing(pairs: list[tuple[int, int]], words: str) -> None:
    pool = a_pool()
    before = pool.key.clone()
    with pytest.raises(KernelError, match=words) as refused:
        dispatch.copy_blocks(pool, pairs)
    assert refused.value.field == "pairs"
    assert torch.equal(pool.key, before)


@pytest.mark.parametrize("fields", KINDS, ids=str)
def test_swap_carries_whole_blocks_of_all_layers_and_their_scales(fields: dict[str, Any]) -> None:
    source, target = a_pool(**fields), a_pool(num_blocks=3, **fields)
    before = bits(target)
    dispatch.swap_blocks(source, target, [(4, 0), (5, 1)])
    for new, old, came in zip(bits(target), before, bits(source), strict=True):
        assert torch.equal(new[:, :2], came[:, 4:])
        assert torch.equal(new[:, 2], old[:, 2])


@pytest.mark.parametrize("pairs", [[(6, 0)], [(0, 3)], [(-1, 0)], [(0, 1), (1, 1)]])
def test_swapping_foreign_blocks_is_refused_before_anything_is_written(pairs: list[tuple[int, int]]) -> None:
    source, target = a_pool(), a_pool(num_blocks=3)
    before = target.key.clone()
    with pytest.raises(KernelError):
        dispatch.swap_blocks(source, target, pairs)
    assert torch.equal(target.key, before)


@pytest.mark.parametrize("fields", [{"block_size": 8}, {"dtype": torch.float16}, {"order": Order.LBHS}], ids=str)
def test_swapping_between_unlike_pools_is_refused(fields: dict[str, Any]) -> None:
    with pytest.raises(KernelError) as refused:
        dispatch.swap_blocks(a_pool(), a_pool(**fields), [(0, 0)])
    assert refused.value.field == "target"


def test_neighbouring_blocks_go_as_one() -> None:
    pairs = [(4, 0), (5, 1), (7, 2), (1, 4), (2, 5), (3, 6), (3, 7)]
    assert neighbours(pairs) == [(4, 0, 2), (7, 2, 1), (1, 4, 3), (3, 7, 1)]


@pytest.mark.parametrize("fields", KINDS, ids=str)
def test_a_hand_over_between_unlike_layouts_keeps_the_numbers(fields: dict[str, Any]) -> None:
    """9 tokens from blocks of 4 to blocks of 2; what the target's dtype cannot hold is its rounding, no more."""
    numbers = torch.randn(2, 9, 3, 8)
    source, target = a_pool(), a_pool(block_size=2, num_blocks=8, **fields)
    source_slots = torch.tensor([20, 21, 22, 23, 4, 5, 6, 7, 8])
    target_slots = torch.tensor([6, 7, 0, 1, 14, 15, 2, 3, 10])
    for index in range(2):
        dispatch.write_kv(numbers[0], numbers[1], source.layer(index), source_slots)
    dispatch.hand_over(source, source_slots, target, target_slots)
    relative = {torch.float32: 0.0, torch.float16: 2**-11, torch.int8: 0.5 / 127, torch.float8_e4m3fn: 2**-4}
    for index in range(2):
        for got, sent in zip(dispatch.read_kv(target.layer(index), target_slots), numbers, strict=True):
            assert (got - sent).abs().max() <= relative[target.layout.dtype] * sent.abs().max()


def test_a_hand_over_to_another_model_is_refused() -> None:
    slots = torch.tensor([0])
    with pytest.raises(KernelError) as refused:
        dispatch.hand_over(a_pool(), slots, a_pool(head_dim=16), slots)
    assert refused.value.field == "target"

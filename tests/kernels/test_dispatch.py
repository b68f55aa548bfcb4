"""Launches that cannot be right are refused before they begin, naming the argument."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
import torch

from kernels import dispatch
from kernels.dispatch import KernelError
from kernels.metadata import SCHEMA_VERSION
from tests.kernels.batches import Batch, make_batch

Change = Callable[[Batch], None]


def change_meta(**fields: Any) -> Change:
    return lambda batch: setattr(batch, "meta", replace(batch.meta, **fields))


def change(name: str, make: Callable[[torch.Tensor], torch.Tensor]) -> Change:
    return lambda batch: setattr(batch, name, make(getattr(batch, name)))


def test_cpu_is_served_by_the_twin() -> None:
    assert dispatch.implementation_name("cpu") == "torch"
    batch = make_batch([(4, 1), (0, 3)], (6, 2, 8), 4)
    dispatch.write_kv(batch.new_key, batch.new_value, batch.key_cache, batch.value_cache, batch.meta.slot_mapping)
    output = dispatch.paged_attention(batch.query, batch.key_cache, batch.value_cache, batch.meta, batch.scale)
    assert (output.double() - batch.expected()).abs().max() < 1e-5


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
        ("query", change("query", torch.Tensor.half)),
        ("query", change("query", lambda t: t[0])),
        ("value_cache", change("value_cache", lambda t: t[:-1])),
        ("value_cache", change("value_cache", torch.Tensor.half)),
        ("key_cache", change("key_cache", lambda t: t[0])),
        ("key_cache", change("key_cache", lambda t: t.transpose(1, 2).contiguous().transpose(1, 2))),
    ],
)
def test_attention_misfits_name_their_field(field: str, spoil: Change) -> None:
    batch = make_batch([(4, 1), (0, 3)], (6, 2, 8), 4)
    spoil(batch)
    with pytest.raises(KernelError) as refused:
        dispatch.paged_attention(batch.query, batch.key_cache, batch.value_cache, batch.meta, batch.scale)
    assert refused.value.field == field
    assert str(refused.value).startswith(f"{field}: ")


@pytest.mark.parametrize(
    ("field", "spoil"),
    [
        ("key", change("new_key", lambda t: t[:2])),
        ("value", change("new_value", torch.Tensor.half)),
        ("slot_mapping", change_meta(slot_mapping=torch.zeros(4, dtype=torch.int32))),
    ],
)
def test_write_misfits_name_their_field_and_write_nothing(field: str, spoil: Change) -> None:
    batch = make_batch([(4, 1), (0, 3)], (6, 2, 8), 4, poison=0.0)
    spoil(batch)
    before = batch.key_cache.clone()
    with pytest.raises(KernelError) as refused:
        dispatch.write_kv(batch.new_key, batch.new_value, batch.key_cache, batch.value_cache, batch.meta.slot_mapping)
    assert refused.value.field == field
    assert torch.equal(batch.key_cache, before)


def test_a_head_size_beyond_the_kernels_is_refused() -> None:
    batch = make_batch([(4, 1)], (1, 1, 256), 4)
    with pytest.raises(KernelError, match="head size is 256"):
        dispatch.paged_attention(batch.query, batch.key_cache, batch.value_cache, batch.meta, batch.scale)


def caches() -> tuple[torch.Tensor, torch.Tensor]:
    return torch.randn(2, 6, 4, 3, 8), torch.randn(2, 6, 4, 3, 8)


def test_block_copy_moves_all_layers_of_k_and_v_and_nothing_else() -> None:
    key, value = caches()
    old_key, old_value = key.clone(), value.clone()
    dispatch.copy_blocks(key, value, [(1, 5), (1, 3)])
    dispatch.copy_blocks(key, value, [])
    for new, old in ((key, old_key), (value, old_value)):
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
    key, value = caches()
    before = key.clone()
    with pytest.raises(KernelError, match=words) as refused:
        dispatch.copy_blocks(key, value, pairs)
    assert refused.value.field == "pairs"
    assert torch.equal(key, before)


def test_block_copy_misfits_name_their_field() -> None:
    key, value = caches()
    for field, arguments in (
        ("key_cache", (key[0], value)), ("value_cache", (key, value.half())), ("value_cache", (key, value[:1])),
        ("key_cache", (key.transpose(2, 3), value)),
    ):  # fmt: skip
        with pytest.raises(KernelError) as refused:
            dispatch.copy_blocks(*arguments, [(1, 2)])
        assert refused.value.field == field

"""A spoilt launch: what changes, what does not, and that the launch it was made from stays whole."""

from __future__ import annotations

import torch

from kernels import faults, reference
from kernels.faults import Launch
from kernels.layout import Scales
from tests.kernels.batches import Batch, make_batch


def one_row(context: int, length: int, block_size: int = 4) -> tuple[Batch, Launch]:
    batch = make_batch([(context, length)], (9, 3, 64), block_size, poison=0.0)
    reference.write_kv(batch.new_key, batch.new_value, batch.layer, batch.meta.slot_mapping)
    return batch, (batch.layer, batch.meta)


def output(batch: Batch, launch: Launch) -> torch.Tensor:
    return reference.paged_attention(batch.query, *launch, batch.rule)


def test_full_blocks_of_the_context_may_change_places_in_decode() -> None:
    """Softmax sums over a set, and positions are in the keys: order is nothing to a token that sees all of it."""
    batch, launch = one_row(13, 1)
    assert float((output(batch, faults.swap_entries(launch, 0, 2)) - output(batch, launch)).abs().max()) <= 1e-6


def test_a_swap_with_the_part_filled_block_reads_what_nobody_wrote() -> None:
    batch, launch = one_row(13, 1)  # 14 positions: two of the last block
    spoilt = faults.swap_entries(faults.poison_tail(launch), 0, 3)
    assert output(batch, spoilt).isnan().all()


def test_a_swap_under_a_causal_mask_changes_the_rows_that_see_only_one_of_them() -> None:
    batch, launch = one_row(0, 8)
    difference = (output(batch, faults.swap_entries(launch, 0, 1)) - output(batch, launch)).abs().amax((1, 2))
    assert float(difference[:7].min()) > 1e-3  # each of them reads keys of its future
    assert float(difference[7]) <= 1e-6  # the last sees both blocks whole


def test_a_foreign_block_changes_the_output() -> None:
    batch, launch = one_row(13, 1)
    foreign = next(block for block in range(batch.layer.layout.num_blocks) if block not in launch[1].block_table[0])
    assert float((output(batch, faults.point_elsewhere(launch, 1, foreign)) - output(batch, launch)).abs().max()) > 1e-3


def test_a_poisoned_tail_is_never_read() -> None:
    """O15: to the last bit."""
    batch, launch = one_row(13, 1)
    spoilt = faults.poison_tail(launch)
    assert spoilt[0].key.isnan().sum() == 2 * 3 * 64
    assert torch.equal(output(batch, spoilt), output(batch, launch))


def test_one_position_too_many_is_seen() -> None:
    batch, launch = one_row(13, 1)
    assert output(batch, faults.read_past_end(launch, 1)).isnan().all()


def test_a_poisoned_slot_spoils_also_those_who_may_not_see_it() -> None:
    """They load it with the others, and a weight of 0 times NaN is NaN: a slot that is read must have been written."""
    batch, launch = one_row(4, 5)
    assert output(batch, faults.poison_slot(launch, 6)).isnan().all()


def test_nothing_given_is_changed() -> None:
    batch, launch = one_row(13, 1)
    before = output(batch, launch).clone()
    table, lengths = launch[1].block_table.clone(), launch[1].seq_lens.clone()
    for make in (
        lambda: faults.swap_entries(launch, 0, 1), lambda: faults.point_elsewhere(launch, 0, 5),
        lambda: faults.read_past_end(launch, 1), lambda: faults.poison_slot(launch, 0),
    ):  # fmt: skip
        make()
    assert torch.equal(output(batch, launch), before)
    assert torch.equal(launch[1].block_table, table) and torch.equal(launch[1].seq_lens, lengths)


def test_a_cache_without_nan_gets_the_largest_number() -> None:
    batch = make_batch([(13, 1)], (9, 3, 64), 4, kv_dtype=torch.int8, scales=Scales.TOKEN_HEAD)
    layer, _ = faults.poison_slot((batch.layer, batch.meta), 6)
    assert (layer.key[int(batch.meta.block_table[0, 1]), 2] == 127).all()

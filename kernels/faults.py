"""What if the table were wrong? One row's launch spoilt on purpose; what is given stays as it is."""

from __future__ import annotations

from dataclasses import replace
from enum import StrEnum

import torch
from torch import Tensor

from kernels.layout import LARGEST, KVLayer
from kernels.metadata import AttentionMetadata

Launch = tuple[KVLayer, AttentionMetadata]


class Fault(StrEnum):
    """What is spoilt."""

    SWAPPED = "swapped"  # two entries of full blocks change places
    SWAPPED_TAIL = "swapped_tail"  # an entry changes places with that of the part-filled block
    FOREIGN = "foreign"  # an entry names a block of somebody else, or a free one
    PAST_END = "past_end"  # the length is too long: slots are read that nobody wrote
    POISONED_TAIL = "poisoned_tail"  # the slots behind the end hold NaN
    POISONED_SLOT = "poisoned_slot"  # one slot within the length holds NaN


def swap_entries(launch: Launch, one: int, other: int) -> Launch:
    """Logical blocks `one` and `other` of row 0 exchanged."""
    layer, meta = launch
    table = meta.block_table.clone()
    table[0, [one, other]] = table[0, [other, one]]
    return layer, replace(meta, block_table=table)


def point_elsewhere(launch: Launch, entry: int, block: int) -> Launch:
    """Logical block `entry` of row 0 is looked for in physical block `block`."""
    layer, meta = launch
    table = meta.block_table.clone()
    table[0, entry] = block
    return layer, replace(meta, block_table=table)


def read_past_end(launch: Launch, extra: int, spoil: bool = True) -> Launch:
    """Row 0 is `extra` positions longer than it is, within its last block; with `spoil` those slots hold NaN."""
    layer, meta = poison_tail(launch) if spoil else launch
    lengths = meta.seq_lens + extra
    return layer, replace(meta, seq_lens=lengths, max_seq_len=meta.max_seq_len + extra)


def poison_tail(launch: Launch) -> Launch:
    """The last block's slots behind row 0's end hold NaN (the largest number in a cache that has none)."""
    layer, meta = launch
    length, size = int(meta.seq_lens[0]), meta.block_size
    return _poisoned(layer, int(meta.block_table[0, (length - 1) // size]), slice((length - 1) % size + 1, size)), meta


def poison_slot(launch: Launch, position: int) -> Launch:
    """The slot of row 0's `position` holds NaN."""
    layer, meta = launch
    slot = position % meta.block_size
    return _poisoned(layer, int(meta.block_table[0, position // meta.block_size]), slice(slot, slot + 1)), meta


def _poisoned(layer: KVLayer, block: int, slots: slice) -> KVLayer:
    key, value = _spoil(layer.key, block, slots), _spoil(layer.value, block, slots)
    return replace(layer, key=key, value=value)


def _spoil(cache: Tensor, block: int, slots: slice) -> Tensor:
    copy = cache.clone(memory_format=torch.preserve_format)
    copy[block, slots] = LARGEST[cache.dtype] if cache.dtype == torch.int8 else float("nan")
    return copy

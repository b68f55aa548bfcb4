"""What an attention launch must be told; nothing is guessed from shapes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum, StrEnum
from itertools import pairwise

import torch
from torch import Tensor

from kernels.errors import KernelError
from kernels.layout import SCHEMA_VERSION
from kernels.transfer import upload

MAX_TREE_TOKENS = 64  # a token's ancestors are the bits of one int64


class Semantics(StrEnum):
    """What a row of the batch is doing."""

    PREFILL = "prefill"  # a prompt or a chunk of one
    DECODE = "decode"  # one new token
    VERIFY = "verify"  # drafted tokens, checked at once


class MaskKind(IntEnum):
    """Which positions j the query at position i may see."""

    CAUSAL = 0  # j <= i
    WINDOW = 1  # i - size < j <= i
    PREFIX = 2  # j <= i, or j < size: the first `size` positions see each other (PrefixLM, images)
    TREE = 3  # the whole context, and of this step's tokens only its own branch


@dataclass(frozen=True, slots=True)
class Mask:
    """One row's mask. `size` is the window's width or the prefix's length; `parents` is a tree's.

    parents[i] < i is the parent of the row's token i among the row's tokens, -1 for the context itself.
    """

    kind: MaskKind = MaskKind.CAUSAL
    size: int = 0
    parents: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        sized = self.kind in (MaskKind.WINDOW, MaskKind.PREFIX)
        if sized != (self.size > 0):
            raise KernelError("size", f"is {self.size}, but a {self.kind.name} mask needs {'one' if sized else '0'}")
        if (self.kind is MaskKind.TREE) != bool(self.parents):
            raise KernelError("parents", f"{len(self.parents)} are given, but the mask is {self.kind.name}")
        if len(self.parents) > MAX_TREE_TOKENS:
            raise KernelError("parents", f"{len(self.parents)} are given, but a tree has at most {MAX_TREE_TOKENS}")
        for token, parent in enumerate(self.parents):
            if not -1 <= parent < token:
                raise KernelError("parents", f"token {token} cannot descend from token {parent}")

    def branches(self) -> list[int]:
        """Per token of a tree: the set of its ancestors and itself, as bits of a signed 64-bit number."""
        sets: list[int] = []
        for token, parent in enumerate(self.parents):
            sets.append((sets[parent] if parent >= 0 else 0) | 1 << token)
        return [bits - (1 << 64) if bits >> 63 else bits for bits in sets]


@dataclass(frozen=True, slots=True)
class RowMasks:
    """The masks of a batch as the kernel reads them: kind, size [B] int32; branch [T] int64, 0 outside trees."""

    kind: Tensor
    size: Tensor
    branch: Tensor

    @classmethod
    def of(cls, masks: Sequence[Mask], query_lens: Sequence[int], device: torch.device | str = "cpu") -> RowMasks:
        """Raises KernelError when a tree has not one parent for each of its row's tokens."""
        branch: list[int] = []
        for row, (mask, length) in enumerate(zip(masks, query_lens, strict=True)):
            if mask.kind is MaskKind.TREE and len(mask.parents) != length:
                raise KernelError("parents", f"row {row} has {length} tokens, but {len(mask.parents)} parents")
            branch += mask.branches() or [0] * length
        return cls(
            kind=torch.tensor([mask.kind for mask in masks], dtype=torch.int32, device=device),
            size=torch.tensor([mask.size for mask in masks], dtype=torch.int32, device=device),
            branch=torch.tensor(branch, dtype=torch.int64, device=device),
        )


@dataclass(frozen=True, slots=True)
class AttentionMetadata:
    """One ragged batch of prefill, decode and verify rows, named as in vLLM 0.33 `TritonAttentionMetadata`.

    query_start_loc [B+1] int32: cumulative query lengths. seq_lens [B] int32: context length, this step's tokens
    included. block_table [B, max_blocks] int32, unused entries 0. slot_mapping [T] int64: physical slot of each new
    token (`block * block_size + offset`), negative = do not write. semantics: one per row. masks None: every row is
    causal.
    """

    query_start_loc: Tensor
    seq_lens: Tensor
    block_table: Tensor
    slot_mapping: Tensor
    block_size: int
    max_query_len: int
    max_seq_len: int
    semantics: tuple[Semantics, ...]
    masks: RowMasks | None = None
    schema_version: int = SCHEMA_VERSION

    @property
    def num_seqs(self) -> int:
        return self.seq_lens.shape[0]

    @property
    def num_tokens(self) -> int:
        return self.slot_mapping.shape[0]

    @property
    def is_decode(self) -> bool:
        """Every row is one new token."""
        return all(row is Semantics.DECODE for row in self.semantics)


def pack_rows(
    *,
    starts: Sequence[int],
    contexts: Sequence[int],
    tables: Sequence[Sequence[int]],
    slots: Sequence[int],
    semantics: Sequence[Semantics],
    block_size: int,
    device: torch.device | str = "cpu",
) -> AttentionMetadata:
    """A causal batch from lists on the host, in two transfers; tables of any lengths, at least one row.

    starts [B+1]: where each row's tokens begin, and where the last row's end; contexts [B]: with this step's tokens.
    """
    width = max(len(table) for table in tables)
    padded = [block for table in tables for block in (*table, *[0] * (width - len(table)))]
    query_start_loc, seq_lens, table = upload([starts, contexts, padded], torch.int32, device)
    return AttentionMetadata(
        query_start_loc=query_start_loc,
        seq_lens=seq_lens,
        block_table=table.view(len(tables), width),
        slot_mapping=upload([slots], torch.int64, device)[0],
        block_size=block_size,
        max_query_len=max(end - start for start, end in pairwise(starts)),
        max_seq_len=max(contexts),
        semantics=tuple(semantics),
    )


def one_sequence(
    start: int, length: int, block_size: int, num_blocks: int, device: torch.device | str = "cpu"
) -> AttentionMetadata:
    """One request alone over blocks 0, 1, 2 …: its tokens `start` to `start + length` are written and attended."""
    return AttentionMetadata(
        query_start_loc=torch.tensor([0, length], dtype=torch.int32, device=device),
        seq_lens=torch.tensor([start + length], dtype=torch.int32, device=device),
        block_table=torch.arange(num_blocks, dtype=torch.int32, device=device)[None],
        slot_mapping=torch.arange(start, start + length, device=device),
        block_size=block_size,
        max_query_len=length,
        max_seq_len=start + length,
        semantics=(Semantics.PREFILL,),
    )


@dataclass(frozen=True, slots=True)
class ScoreRule:
    """How a layer makes a score of q · k; the same for all rows.

    `scale`; then `soft_cap * tanh(x / soft_cap)` if there is a cap (Gemma 2, §2); then `slope * (j - i)` of the query
    head if there are ALiBi slopes, float32 [Hq] (Press et al. 2022, §3).
    """

    scale: float
    soft_cap: float | None = None
    alibi_slopes: Tensor | None = None

    def __post_init__(self) -> None:
        if self.soft_cap is not None and not self.soft_cap > 0:
            raise KernelError("soft_cap", f"is {self.soft_cap}, but it must be above 0")

"""What an attention launch must be told; nothing is guessed from shapes."""

from __future__ import annotations

from dataclasses import dataclass

import torch

SCHEMA_VERSION = 1


@dataclass(frozen=True, slots=True)
class AttentionMetadata:
    """One ragged batch of prefill, chunked-prefill and decode rows, named as in vLLM 0.33 `TritonAttentionMetadata`.

    query_start_loc [B+1] int32: cumulative query lengths. seq_lens [B] int32: context length, this step's tokens
    included. block_table [B, max_blocks] int32, unused entries 0. slot_mapping [T] int64: physical slot of each new
    token (`block * block_size + offset`), negative = do not write. Attention is causal.
    """

    query_start_loc: torch.Tensor
    seq_lens: torch.Tensor
    block_table: torch.Tensor
    slot_mapping: torch.Tensor
    block_size: int
    max_query_len: int
    max_seq_len: int
    schema_version: int = SCHEMA_VERSION

    @property
    def num_seqs(self) -> int:
        return self.seq_lens.shape[0]

    @property
    def num_tokens(self) -> int:
        return self.slot_mapping.shape[0]

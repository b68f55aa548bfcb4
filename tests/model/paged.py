"""Run a model over scattered physical blocks, and build transformers' model from the same weights."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate

import torch
from torch import Tensor
from transformers import LlamaConfig, LlamaForCausalLM

from engine.model.llama import KVCache, LlamaModel, Observer
from engine.model.spec import LlamaSpec
from kernels.layout import CacheLayout
from kernels.metadata import AttentionMetadata, Semantics


class PagedRun:
    """Several requests over one poisoned pool; each `step` computes some tokens of each."""

    def __init__(self, model: LlamaModel, requests: int, max_len: int, block_size: int = 4, seed: int = 0) -> None:
        per_request = -(-max_len // block_size)
        generator = torch.Generator().manual_seed(seed)
        order = (torch.randperm(requests * per_request, generator=generator) + 1).tolist()
        self.tables = [order[i * per_request : (i + 1) * per_request] for i in range(requests)]
        self.done = [0] * requests
        self.model = model
        self.block_size = block_size
        spec, blocks = model.spec, requests * per_request + 1
        layout = CacheLayout(spec.num_layers, blocks, block_size, spec.num_kv_heads, spec.head_dim, model.dtype)
        self.cache = KVCache(layout)
        self.cache.key.fill_(float("nan"))
        self.cache.value.fill_(float("nan"))

    def step(self, tokens: Sequence[Sequence[int]], observer: Observer | None = None) -> list[Tensor]:
        """Logits of every token, per request that had any."""
        lengths = [len(some) for some in tokens if some]
        return list(self.forward(tokens, range(sum(lengths)), observer).split(lengths))

    def forward(self, tokens: Sequence[Sequence[int]], rows: Sequence[int], observer: Observer | None = None) -> Tensor:
        """Logits of these rows of the batch."""
        active = [index for index, some in enumerate(tokens) if some]
        ranges = {index: range(self.done[index], self.done[index] + len(tokens[index])) for index in active}
        slots = [
            self.tables[index][p // self.block_size] * self.block_size + p % self.block_size
            for index in active
            for p in ranges[index]
        ]
        lengths = [len(tokens[index]) for index in active]
        meta = AttentionMetadata(
            query_start_loc=torch.tensor([0, *accumulate(lengths)], dtype=torch.int32),
            seq_lens=torch.tensor([ranges[index].stop for index in active], dtype=torch.int32),
            block_table=torch.tensor([self.tables[index] for index in active], dtype=torch.int32),
            slot_mapping=torch.tensor(slots),
            block_size=self.block_size,
            max_query_len=max(lengths),
            max_seq_len=max(ranges[index].stop for index in active),
            semantics=tuple(Semantics.DECODE if length == 1 else Semantics.PREFILL for length in lengths),
        )
        ids = torch.tensor([token for index in active for token in tokens[index]])
        positions = torch.tensor([p for index in active for p in ranges[index]])
        logits = self.model.forward(ids, positions, self.cache, meta, torch.tensor(rows, dtype=torch.int64), observer)
        for index in active:
            self.done[index] = ranges[index].stop
        return logits


def transformers_model(spec: LlamaSpec, model: LlamaModel) -> LlamaForCausalLM:
    """transformers' Llama with our weights, the oracle for the forward pass."""
    config = LlamaConfig(
        num_hidden_layers=spec.num_layers, hidden_size=spec.hidden_size, num_attention_heads=spec.num_heads,
        num_key_value_heads=spec.num_kv_heads, head_dim=spec.head_dim, intermediate_size=spec.intermediate_size,
        vocab_size=spec.vocab_size, max_position_embeddings=spec.max_positions, rms_norm_eps=spec.rms_eps,
        rope_parameters={"rope_type": "default", "rope_theta": spec.rope_theta},
        tie_word_embeddings=spec.tied_embeddings,
    )  # fmt: skip
    names = {"model.embed_tokens.weight": model.embed, "model.norm.weight": model.norm, "lm_head.weight": model.lm_head}
    q, kv = spec.num_heads * spec.head_dim, spec.num_kv_heads * spec.head_dim
    for index, layer in enumerate(model.layers):
        prefix = f"model.layers.{index}"
        for part, weight in zip("qkv", layer.qkv.split([q, kv, kv]), strict=True):
            names[f"{prefix}.self_attn.{part}_proj.weight"] = weight
        gate, up = layer.gate_up.chunk(2)
        names |= {
            f"{prefix}.self_attn.o_proj.weight": layer.attention_out, f"{prefix}.mlp.gate_proj.weight": gate,
            f"{prefix}.mlp.up_proj.weight": up, f"{prefix}.mlp.down_proj.weight": layer.down,
            f"{prefix}.input_layernorm.weight": layer.attention_norm,
            f"{prefix}.post_attention_layernorm.weight": layer.mlp_norm,
        }  # fmt: skip
    with torch.device("meta"):
        oracle = LlamaForCausalLM(config)
    oracle.to_empty(device="cpu")
    oracle.model.rotary_emb = type(oracle.model.rotary_emb)(config)
    oracle.load_state_dict(names, strict=True)
    return oracle.eval()

"""The Llama-family forward pass: one ragged batch of tokens over a paged KV cache."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor
from torch.nn import functional

from engine.model.errors import ModelError
from engine.model.matrix import PACK_AT_MOST, Format, Matrix, make_matrix
from engine.model.spec import LlamaSpec
from kernels import dispatch
from kernels.layout import CacheLayout
from kernels.metadata import AttentionMetadata, ScoreRule


class Observer(Protocol):
    """Someone who looks at one layer, or at each in turn if `layer` is None. Called after the layer's attention."""

    @property
    def layer(self) -> int | None: ...

    def __call__(self, query: Tensor, key: Tensor, value: Tensor, output: Tensor) -> None:
        """query, output [T, Hq, D]; key, value [T, Hkv, D], this step's tokens only; query and key are rotated."""


class KVCache:
    """The block pool's memory: `pool`, and its `key` and `value` [layers, num_blocks, block_size, Hkv, D].

    Memory is left as the allocator gives it: nothing may ever depend on a slot that was not written.
    """

    def __init__(self, layout: CacheLayout, device: torch.device | str = "cpu") -> None:
        self.pool = layout.allocate(device)
        self.key, self.value = self.pool.key, self.pool.value
        self.layers = tuple(self.pool.layer(index) for index in range(layout.num_layers))

    @property
    def num_blocks(self) -> int:
        return self.key.shape[1]

    @property
    def block_size(self) -> int:
        return self.key.shape[2]

    @property
    def bytes_per_block(self) -> int:
        """Bytes one block takes over all layers, K and V together."""
        return self.pool.layout.bytes_per_block


@dataclass(frozen=True, slots=True)
class _Layer:
    attention_norm: Tensor
    qkv: Tensor
    attention_out: Tensor
    mlp_norm: Tensor
    gate_up: Tensor
    down: Tensor


@dataclass(frozen=True, slots=True)
class _Matrices:
    """A layer's matrices in the format they are multiplied in."""

    qkv: Matrix
    attention_out: Matrix
    gate_up: Matrix
    down: Matrix


class LlamaModel:
    """A Llama-family decoder with fused weights.

    `tensors` holds exactly the names and shapes of `LlamaSpec.tensor_shapes()`, all of one dtype on one device; they
    may be memory-mapped. `weights` is the format the matrices are multiplied in on a CPU (see `engine.model.matrix`);
    everything else stays in the tensors' dtype. Raises ModelError naming the first misfit.
    """

    def __init__(self, spec: LlamaSpec, tensors: Mapping[str, Tensor], weights: Format = "fp32") -> None:
        for name, shape in spec.tensor_shapes().items():
            if name not in tensors:
                raise ModelError("model.missing_tensor", file="the model", tensor=name)
            if tuple(tensors[name].shape) != shape:
                raise ModelError(
                    "model.tensor_shape", file="the model", tensor=name, shape=tuple(tensors[name].shape), need=shape
                )
        self.spec = spec
        self.embed = tensors["embed"]
        self.norm = tensors["norm"]
        self.lm_head = self.embed if spec.tied_embeddings else tensors["lm_head"]
        fields = _Layer.__dataclass_fields__
        self.layers = tuple(
            _Layer(**{field: tensors[f"layers.{layer}.{field}"] for field in fields})
            for layer in range(spec.num_layers)
        )
        self.weights = weights
        packs = sum(tensors[name].nbytes for name in spec.tensor_shapes()) <= PACK_AT_MOST
        parts = _Matrices.__dataclass_fields__
        self._matrices = tuple(
            _Matrices(**{part: make_matrix(getattr(layer, part), weights, packs) for part in parts})
            for layer in self.layers
        )
        # The output head is the one matrix whose rounding goes straight into the logits: GGUF files keep it at 8 bits.
        self._head = make_matrix(self.lm_head, "int8" if weights == "int4" else weights, packs)
        self._tensors = {name: tensors[name] for name in spec.tensor_shapes()}
        self._cos, self._sin = _rope_table(spec, self.embed.device)

    @property
    def dtype(self) -> torch.dtype:
        return self.embed.dtype

    @property
    def device(self) -> torch.device:
        return self.embed.device

    @property
    def tensors(self) -> Mapping[str, Tensor]:
        """The fused weights by the names of `LlamaSpec.tensor_shapes()`."""
        return self._tensors

    def to(self, device: torch.device | str, dtype: torch.dtype) -> LlamaModel:
        """The same model elsewhere or in another dtype (a copy where anything changes)."""
        tensors = {name: tensor.to(device, dtype) for name, tensor in self._tensors.items()}
        return LlamaModel(self.spec, tensors, self.weights)

    def forward(
        self,
        token_ids: Tensor,
        positions: Tensor,
        cache: KVCache,
        meta: AttentionMetadata,
        logits_rows: Tensor,
        observer: Observer | None = None,
    ) -> Tensor:
        """Compute one batch: write its KV into `cache`, return logits float32 [R, vocab] of the rows asked for.

        token_ids, positions [T] int64 (absolute positions, below `spec.max_positions`); logits_rows [R] int64, rows of
        the batch. Each layer writes the KV of all T tokens before it attends, as vLLM does: requests that share blocks
        filled in this very step depend on it. Raises KernelError if `meta` does not fit.
        """
        spec = self.spec
        rule = ScoreRule(spec.scale)
        with torch.inference_mode():
            plan = dispatch.plan(meta)
            hidden = self.embed[token_ids]
            cos, sin = self._cos[positions].unsqueeze(1), self._sin[positions].unsqueeze(1)
            for index, (layer, matrices) in enumerate(zip(self.layers, self._matrices, strict=True)):
                qkv = matrices.qkv(_rms_norm(hidden, layer.attention_norm, spec.rms_eps))
                heads = qkv.view(-1, spec.num_heads + 2 * spec.num_kv_heads, spec.head_dim)
                rotated = _rotate(heads[:, : -spec.num_kv_heads], cos, sin)
                query, key = rotated[:, : spec.num_heads], rotated[:, spec.num_heads :]
                value = heads[:, -spec.num_kv_heads :]
                dispatch.write_kv(key, value, cache.layers[index], meta.slot_mapping)
                attended = dispatch.paged_attention(query, cache.layers[index], meta, rule, plan=plan)
                if observer is not None and observer.layer in (None, index):
                    observer(query, key, value, attended)
                hidden += matrices.attention_out(attended.flatten(1))
                gate, up = matrices.gate_up(_rms_norm(hidden, layer.mlp_norm, spec.rms_eps)).chunk(2, dim=1)
                hidden += matrices.down(functional.silu(gate).mul_(up))
            return self._head(_rms_norm(hidden[logits_rows], self.norm, spec.rms_eps)).float()


def _rms_norm(x: Tensor, weight: Tensor, eps: float) -> Tensor:
    return functional.rms_norm(x, weight.shape, weight, eps)


def _rope_table(spec: LlamaSpec, device: torch.device) -> tuple[Tensor, Tensor]:
    """cos and sin float32 [max_positions, head_dim] in Hugging Face's "rotate half" layout.

    The first half of sin is negated, so that turning a head is one swap of its halves and one multiply-add.
    """
    exponents = torch.arange(0, spec.head_dim, 2, dtype=torch.int64).float() / spec.head_dim
    angles = torch.outer(torch.arange(spec.max_positions).float(), 1.0 / spec.rope_theta**exponents)
    cos, sin = angles.cos(), angles.sin()
    return torch.cat((cos, cos), dim=1).to(device), torch.cat((-sin, sin), dim=1).to(device)


def _rotate(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    turned = x.roll(x.shape[-1] // 2, dims=-1)
    return (x * cos + turned * sin).to(x.dtype)

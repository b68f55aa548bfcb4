"""What every model file is turned into, whatever format it came in."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

from engine.model.errors import ModelError
from engine.model.spec import LlamaSpec
from engine.model.tokenizer import Tokenizer

# Told how far a slow load is, 0.0 to 1.0, and what it is doing: a key "model.progress.…" of the message catalogue.
Progress = Callable[[float, str], None]

_LAYER_PARTS = ("attention_norm", "q", "k", "v", "attention_out", "mlp_norm", "gate", "up", "down")


@dataclass(frozen=True, slots=True)
class SourceModel:
    """A complete model: fused float32 weights (`LlamaSpec.tensor_shapes`) and the tokenizer's data."""

    title: str
    spec: LlamaSpec
    tensors: Mapping[str, Tensor]
    tokenizer_json: str
    chat_template: str | None
    eos_ids: frozenset[int]
    bos_token: str
    eos_token: str

    def tokenizer(self) -> Tokenizer:
        """The tokenizer ready to use. Raises ModelError if it does not belong to the weights."""
        tokenizer = Tokenizer.from_json(
            self.tokenizer_json, self.eos_ids, self.chat_template, self.bos_token, self.eos_token
        )
        if tokenizer.vocab_size > self.spec.vocab_size:
            raise ModelError(
                "model.vocab", file=self.title, tokens=tokenizer.vocab_size, vocab=self.spec.vocab_size
            )  # fmt: skip
        return tokenizer


def ignore_progress(done: float, what: str) -> None:
    """The listener when nobody listens."""


def part_names(spec: LlamaSpec) -> list[str]:
    """The unfused weights a file must hold: "embed", "norm", "lm_head" unless tied, "layers.0.q" and so on."""
    names = ["embed", "norm"] if spec.tied_embeddings else ["embed", "norm", "lm_head"]
    return names + [f"layers.{layer}.{part}" for layer in range(spec.num_layers) for part in _LAYER_PARTS]


def fuse(spec: LlamaSpec, file: str, take: Callable[[str], Tensor], progress: Progress) -> dict[str, Tensor]:
    """Fetch each part with `take(name)` and join q, k, v and gate, up into the matrices the forward pass uses.

    Returns contiguous float32 tensors. `progress` gets 0.0 to 1.0. Raises ModelError naming a tensor that does not fit.
    """
    fused: dict[str, Tensor] = {}
    shapes = spec.tensor_shapes()
    for index, (name, shape) in enumerate(shapes.items()):
        prefix, _, last = name.rpartition(".")
        joined = {"qkv": ("q", "k", "v"), "gate_up": ("gate", "up")}.get(last)
        tensor = take(name) if joined is None else torch.cat([take(f"{prefix}.{part}") for part in joined])
        if tuple(tensor.shape) != shape:
            raise ModelError("model.tensor_shape", file=file, tensor=name, shape=tuple(tensor.shape), need=shape)
        fused[name] = tensor.float().contiguous()
        progress((index + 1) / len(shapes), "model.progress.convert")
    return fused

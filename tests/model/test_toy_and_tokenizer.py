"""The toy model is the same everywhere; text survives the tokenizers; chats are rendered as the models expect."""

from __future__ import annotations

from pathlib import Path

import pytest
import tokenizers
import torch
from transformers import PreTrainedTokenizerFast

from engine.model import toy as toy_module
from engine.model.errors import ModelError
from engine.model.load import LoadedModel, default_device, load_model
from engine.model.tokenizer import Tokenizer
from engine.model.train_toy_tokenizer import train
from tests.model.paged import PagedRun

TEXTS = ["The stars are far away.", "  two  spaces\n\tand a tab", "12345 + 6 = ?", "naïve 中文 🙂", "", "<|im_end|>"]
CHAT = [{"role": "user", "content": "Question: What does a fox eat?"}]


def test_toy_is_the_same_to_the_bit(toy: LoadedModel) -> None:
    assert toy.fingerprint == "e2f1f3ce6027bd4d965bdecc0b6e449f7045719391e38a1276d6bbaadb407636"
    assert load_model("toy").fingerprint == toy.fingerprint


def test_toy_tokenizer_is_what_its_script_makes() -> None:
    folder = Path(toy_module.__file__).parent
    shipped = tokenizers.Tokenizer.from_file(str(folder / "toy_tokenizer.json"))
    assert train(folder / "toy_corpus.txt").to_str() == shipped.to_str()


def test_toy_speaks_words_and_knows_its_mind(toy: LoadedModel) -> None:
    tokens = toy.tokenizer.encode("Once upon a time")
    run = PagedRun(toy.model, 1, 64)
    logits = run.step([tokens])[0][-1]
    words, gaps = [], []
    for _ in range(40):
        best, second = logits.topk(2).values.tolist()
        gaps.append(best - second)
        words.append(int(logits.argmax()))
        logits = run.step([[words[-1]]])[0][-1]
    text = toy.tokenizer.decode(words)
    assert text.isascii()
    assert text.isprintable()
    assert len(set(words)) > 10
    assert sorted(gaps)[20] > 0.5
    assert not toy.tokenizer.eos_ids & set(words)


@pytest.mark.parametrize("text", TEXTS)
def test_toy_round_trip(toy: LoadedModel, text: str) -> None:
    ids = toy.tokenizer.encode(text)
    assert toy.tokenizer.decode(ids, keep_special=True) == text
    assert all(0 <= token < toy.tokenizer.vocab_size == toy.spec.vocab_size for token in ids)


def chat_ids_of_transformers(tokenizer: Tokenizer) -> list[int]:
    fast = PreTrainedTokenizerFast(tokenizer_object=tokenizer._tokenizer)
    rendered = fast.apply_chat_template(
        CHAT, chat_template=tokenizer._chat_template, add_generation_prompt=True, tokenize=False
    )
    assert rendered == tokenizer.render_chat(CHAT)
    ids: list[int] = fast(rendered, add_special_tokens=False)["input_ids"]
    return ids


def test_toy_chat(toy: LoadedModel) -> None:
    ids = toy.tokenizer.apply_chat(CHAT)
    assert ids == chat_ids_of_transformers(toy.tokenizer)
    text = toy.tokenizer.decode(ids, keep_special=True)
    assert text == "<|im_start|>user\nQuestion: What does a fox eat?<|im_end|>\n<|im_start|>assistant\n"
    assert toy.tokenizer.decode(ids) == "user\nQuestion: What does a fox eat?\nassistant\n"
    assert toy.tokenizer.eos_ids == {2}
    assert toy.tokenizer.token_text(2) == "<|im_end|>"


@pytest.mark.model
@pytest.mark.parametrize("text", TEXTS)
def test_smollm2_round_trip(smollm2: LoadedModel, text: str) -> None:
    assert smollm2.tokenizer.decode(smollm2.tokenizer.encode(text), keep_special=True) == text


@pytest.mark.model
def test_smollm2_chat(smollm2: LoadedModel) -> None:
    ids = smollm2.tokenizer.apply_chat(CHAT)
    assert ids == chat_ids_of_transformers(smollm2.tokenizer)
    # The published tokenizer's ids of "<|im_start|>system\nYou are a helpful AI assistant named SmolLM".
    assert ids[:11] == [1, 9690, 198, 2683, 359, 253, 5356, 5646, 11173, 3365, 3511]
    assert smollm2.tokenizer.eos_ids == {2}
    assert len(smollm2.tokenizer.encode("2026")) == 4
    assert smollm2.tokenizer.decode(ids[-3:]) == "assistant\n"


@pytest.mark.model
def test_smollm2_answers(smollm2: LoadedModel) -> None:
    """Weights, rotary layout, tokenizer and template together: any of them wrong gives noise."""
    run = PagedRun(smollm2.model, 1, 80, block_size=16)
    ids = smollm2.tokenizer.apply_chat([{"role": "user", "content": "What is 2+3?"}])
    logits = run.step([ids])[0][-1]
    answer: list[int] = []
    while (token := int(logits.argmax())) not in smollm2.tokenizer.eos_ids and len(answer) < 16:
        answer.append(token)
        logits = run.step([[token]])[0][-1]
    assert smollm2.tokenizer.decode(answer) == "2 + 3 = 5"


def test_token_text(toy: LoadedModel) -> None:
    tokenizer = toy.tokenizer
    assert tokenizer.token_text(1) == "<|im_start|>"
    assert tokenizer.token_text(tokenizer.encode(" fox")[0]) == " fox"
    assert [tokenizer.token_text(token) for token in tokenizer.encode("中")] == ["<0xE4>", "<0xB8>", "<0xAD>"]
    assert tokenizer.token_text(5000) == "<#5000>"
    assert tokenizer.token_text(-1) == "<#-1>"


def make(template: str | None) -> Tokenizer:
    text = (Path(toy_module.__file__).parent / "toy_tokenizer.json").read_text(encoding="utf-8")
    return Tokenizer.from_json(text, frozenset({2}), template)


def test_chat_without_a_template_is_refused() -> None:
    with pytest.raises(ModelError, match="no chat template"):
        make(None).apply_chat(CHAT)


@pytest.mark.parametrize(
    "template", ["{{ raise_exception('roles must alternate') }}", "{{ ''.__class__.__mro__ }}", "{% if"]
)
def test_templates_are_sandboxed_and_their_refusal_is_told(template: str) -> None:
    with pytest.raises(ModelError, match="refused these messages"):
        make(template).apply_chat(CHAT)


def test_a_broken_tokenizer_is_refused() -> None:
    with pytest.raises(ModelError, match="tokenizer cannot be read"):
        Tokenizer.from_json("{}", frozenset(), None)


def test_toy_weights_are_finite(toy: LoadedModel) -> None:
    assert all(torch.isfinite(tensor).all() for tensor in toy.model.tensors.values())


def test_device_follows_the_machine_and_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("KVSCOPE_DEVICE", raising=False)
    assert default_device().type == ("cuda" if torch.cuda.is_available() else "cpu")
    monkeypatch.setenv("KVSCOPE_DEVICE", "cpu")
    assert default_device().type == "cpu"


@pytest.mark.parametrize("asked", ["abacus", "meta", "cuda:x", *([] if torch.cuda.is_available() else ["cuda"])])
def test_a_device_that_is_not_there_is_a_sentence(monkeypatch: pytest.MonkeyPatch, asked: str) -> None:
    monkeypatch.setenv("KVSCOPE_DEVICE", asked)
    with pytest.raises(ModelError, match=f"KVSCOPE_DEVICE is {asked}"):
        load_model("toy")

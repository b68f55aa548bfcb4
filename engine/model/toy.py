"""The seeded toy model: small enough to step in milliseconds, the same to the bit on every machine."""

from __future__ import annotations

import re
from pathlib import Path

import torch
from torch import Tensor

from engine.model.llama import LlamaModel
from engine.model.spec import LlamaSpec
from engine.model.tokenizer import Tokenizer

TOY_SPEC = LlamaSpec(
    num_layers=2,
    hidden_size=128,
    num_heads=4,
    num_kv_heads=2,
    head_dim=32,
    intermediate_size=256,
    vocab_size=1024,
    max_positions=8192,
    rope_theta=10_000.0,
    rms_eps=1e-5,
    tied_embeddings=False,
)
_SEED = 20_230_912
_END_OF_TURN = "<|im_end|>"
_CORPUS_FILE = Path(__file__).with_name("toy_corpus.txt")
_TOKENIZER_FILE = Path(__file__).with_name("toy_tokenizer.json")

# SmolLM2's template without its named system prompt, so that the same chat scenarios run on both models.
CHAT_TEMPLATE = (
    "{% for message in messages %}"
    "{{ '<|im_start|>' + message['role'] + '\n' + message['content'] + '<|im_end|>' + '\n' }}"
    "{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}"
)

# Standard deviation of each weight times sqrt(inputs), i.e. how much the matrix amplifies. Queries and keys are
# strong, so that attention has visible preferences; the output head is strong, so that the best token leads clearly.
_GAIN = {"embed": 1.0, "qkv": 2.0, "attention_out": 1.5, "gate_up": 1.0, "down": 1.0, "lm_head": 6.0}


def toy_tokenizer() -> Tokenizer:
    """Byte-level BPE of 1024 tokens with SmolLM2's special tokens and chat format."""
    text = _TOKENIZER_FILE.read_text(encoding="utf-8")
    return Tokenizer.from_json(text, frozenset({2}), CHAT_TEMPLATE, "<|im_start|>", _END_OF_TURN)


def toy_model(tokenizer: Tokenizer) -> LlamaModel:
    """The model itself, float32 on the CPU.

    Weights come from random integers, not `randn`: integer draws and one exact scaling are the same on every machine,
    while normal draws differ in the last bits between processors.
    """
    generator = torch.Generator().manual_seed(_SEED)
    tensors: dict[str, Tensor] = {}
    for name, shape in TOY_SPEC.tensor_shapes().items():
        kind = name.rpartition(".")[2]
        if kind.endswith("norm"):
            tensors[name] = torch.ones(shape)
            continue
        draws = torch.randint(-(1 << 15), 1 << 15, shape, generator=generator, dtype=torch.int32)
        inputs = 1 if kind == "embed" else shape[1]
        tensors[name] = draws.float() * (_GAIN[kind] * (3.0 / inputs) ** 0.5 / (1 << 15))
    tensors["lm_head"][_unspoken(tokenizer)] = 0.0
    return LlamaModel(TOY_SPEC, tensors)


def _unspoken(tokenizer: Tokenizer) -> list[int]:
    """Tokens the toy never says: all but whole words and punctuation of its corpus.

    Their logit is 0, far below the winner's, so that random weights still write words and never end a text early.
    """
    corpus = _CORPUS_FILE.read_text(encoding="utf-8")
    spoken = {" " + word for word in re.findall("[a-z]+|[A-Z][a-z]+", corpus)} | set(".,?!")
    return [token for token in range(tokenizer.vocab_size) if tokenizer.token_text(token) not in spoken]

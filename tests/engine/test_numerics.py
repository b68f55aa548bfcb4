"""The model's text through the engine equals transformers' on the same weights, however the scheduler cuts the work.

Where the reference's top two logits lie within 1e-3 of each other either token is right (rounding depends on the
shape of the batch); from there on the two texts may part, so the comparison of that request ends.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache

import pytest
import torch
from transformers import LlamaConfig, LlamaForCausalLM

from engine.config import EngineConfig
from engine.engine import Engine
from engine.events import Preempted
from engine.model.load import LoadedModel, load_model
from engine.model.weights import find_smollm2
from engine.model_runner import ModelRunner
from engine.request import RequestSpec
from engine.timeline import Step
from tests.engine.replay import assert_laws, hits

NEAR_TIE = 1e-3
LOGIT_TOLERANCE = 2e-4
OUTPUT_TOKENS = 48
QUESTIONS = (
    "Give me three tips for growing tomatoes.",
    "Explain gravity to a child.",
    "Write a short poem about the sea.",
    "What is the difference between a list and a tuple in Python?",
    "How do bees make honey?",
)

smollm2 = pytest.param(
    "smollm2",
    marks=[
        pytest.mark.model,
        pytest.mark.skipif(find_smollm2() is None, reason="the SmolLM2 weights are not installed (make model)"),
    ],
)


@dataclass(frozen=True)
class Reference:
    """transformers' likeliest token at each position, the gap between its top two logits there, and all logits."""

    tokens: tuple[int, ...]
    gaps: tuple[float, ...]
    logits: torch.Tensor


@cache
def loaded(name: str) -> LoadedModel:
    return load_model(name)


@cache
def hugging_face(name: str) -> LlamaForCausalLM:
    """transformers' Llama over the same tensors, un-fused."""
    model = loaded(name)
    spec, tensors = model.spec, model.model.tensors
    config = LlamaConfig(
        vocab_size=spec.vocab_size,
        hidden_size=spec.hidden_size,
        intermediate_size=spec.intermediate_size,
        num_hidden_layers=spec.num_layers,
        num_attention_heads=spec.num_heads,
        num_key_value_heads=spec.num_kv_heads,
        head_dim=spec.head_dim,
        max_position_embeddings=spec.max_positions,
        rms_norm_eps=spec.rms_eps,
        rope_parameters={"rope_type": "default", "rope_theta": spec.rope_theta},
        tie_word_embeddings=spec.tied_embeddings,
    )
    state = {"model.embed_tokens.weight": tensors["embed"], "model.norm.weight": tensors["norm"]}
    state["lm_head.weight"] = tensors["embed"] if spec.tied_embeddings else tensors["lm_head"]
    heads = [spec.num_heads * spec.head_dim, *[spec.num_kv_heads * spec.head_dim] * 2]
    for index in range(spec.num_layers):
        ours, theirs = f"layers.{index}.", f"model.layers.{index}."
        for part, rows in zip("qkv", tensors[ours + "qkv"].split(heads), strict=True):
            state[f"{theirs}self_attn.{part}_proj.weight"] = rows
        gate, up = tensors[ours + "gate_up"].chunk(2)
        state |= {
            theirs + "self_attn.o_proj.weight": tensors[ours + "attention_out"],
            theirs + "mlp.gate_proj.weight": gate,
            theirs + "mlp.up_proj.weight": up,
            theirs + "mlp.down_proj.weight": tensors[ours + "down"],
            theirs + "input_layernorm.weight": tensors[ours + "attention_norm"],
            theirs + "post_attention_layernorm.weight": tensors[ours + "mlp_norm"],
        }
    reference = LlamaForCausalLM(config).eval()
    reference.load_state_dict(state)
    return reference


def prompts(name: str) -> tuple[tuple[int, ...], ...]:
    tokenizer = loaded(name).tokenizer
    system = {"role": "system", "content": "You are a helpful assistant who answers in plain words."}
    return tuple(tuple(tokenizer.apply_chat([system, {"role": "user", "content": question}])) for question in QUESTIONS)


@cache
def reference(name: str, prompt: tuple[int, ...], tokens: tuple[int, ...]) -> Reference:
    """What transformers would greedily say after the prompt and after each of `tokens`, in one forward pass.

    If it agrees with each token given those before it, its own greedy text is the same, by induction.
    """
    with torch.inference_mode():
        logits = hugging_face(name)(torch.tensor([prompt + tokens[:-1]])).logits[0, len(prompt) - 1 :]
    top = logits.topk(2)
    gaps = (top.values[:, 0] - top.values[:, 1]).tolist()
    return Reference(tuple(top.indices[:, 0].tolist()), tuple(gaps), logits)


def assert_same_text(name: str, prompt: tuple[int, ...], tokens: Sequence[int]) -> None:
    want = reference(name, prompt, tuple(tokens))
    assert len(tokens) == OUTPUT_TOKENS
    for position, (ours, theirs, gap) in enumerate(zip(tokens, want.tokens, want.gaps, strict=True)):
        if ours != theirs:
            assert gap <= NEAR_TIE, f"token {position}: {ours} instead of {theirs}, gap {gap:.4f}"
            return


def generate(name: str, specs: Sequence[RequestSpec], **config: object) -> tuple[Engine, list[Step]]:
    settings = EngineConfig(**{"block_size": 16, "num_blocks": 64, "max_num_seqs": 8, **config})  # type: ignore[arg-type]
    engine = Engine(settings, ModelRunner(loaded(name), settings))
    for spec in specs:
        engine.add(spec)
    steps: list[Step] = []
    while not engine.is_done:
        steps.append(engine.step())
        assert_laws(steps[-1])
    return engine, steps


def specs(name: str) -> list[RequestSpec]:
    return [RequestSpec(f"r{number}", prompt, OUTPUT_TOKENS) for number, prompt in enumerate(prompts(name))]


def output(engine: Engine, request_id: str) -> list[int]:
    return engine.requests[request_id].output_token_ids


@pytest.mark.parametrize("name", ["toy", smollm2])
class TestSameTextAsTransformers:
    def test_alone(self, name: str) -> None:
        for spec in specs(name):
            engine, _ = generate(name, [spec])
            assert_same_text(name, spec.prompt, output(engine, spec.id))

    def test_batched_and_every_step_checked_against_dense(self, name: str) -> None:
        engine, steps = generate(name, specs(name), max_num_batched_tokens=1024)
        for spec in specs(name):
            assert_same_text(name, spec.prompt, output(engine, spec.id))
        assert all(step.laws[9].checked for step in steps)

    def test_chunked(self, name: str) -> None:
        engine, steps = generate(name, specs(name), max_num_batched_tokens=13, block_size=4, num_blocks=256)
        assert len([step for step in steps if "r0" in step.scheduled_tokens]) > OUTPUT_TOKENS
        for spec in specs(name):
            assert_same_text(name, spec.prompt, output(engine, spec.id))

    def test_after_a_prefix_hit(self, name: str) -> None:
        first = specs(name)[0]
        again = RequestSpec("again", first.prompt, OUTPUT_TOKENS, arrival_step=OUTPUT_TOKENS + 2)
        engine, steps = generate(name, [first, again], block_size=8)
        assert hits(steps, "again")[0] >= 8
        assert_same_text(name, again.prompt, output(engine, "again"))

    def test_after_a_preemption(self, name: str) -> None:
        pair = specs(name)[:3]
        longest = max(spec.positions for spec in pair)
        engine, steps = generate(name, pair, block_size=8, num_blocks=longest // 8 + 8, max_num_batched_tokens=256)
        assert any(isinstance(event, Preempted) for step in steps for event in step.events)
        for spec in pair:
            assert_same_text(name, spec.prompt, output(engine, spec.id))

    def test_logits_of_the_first_token(self, name: str) -> None:
        """Measured against transformers' own: |Δlogit| ≤ 2e-4."""
        model = loaded(name)
        for spec in specs(name):
            _, steps = generate(name, [RequestSpec(spec.id, spec.prompt, 1)])
            row = steps[-1].kernel.row(spec.id)  # type: ignore[union-attr]
            assert row is not None
            want = torch.softmax(reference(name, spec.prompt, (0,)).logits[0].float(), -1)
            for candidate in row.top:
                assert abs(candidate.probability - float(want[candidate.token])) < LOGIT_TOLERANCE
                assert candidate.text == model.tokenizer.token_text(candidate.token)


def test_seeded_sampling_does_not_depend_on_the_batch() -> None:
    from engine.request import SamplingParams

    prompt = prompts("toy")[0]
    sampling = SamplingParams(temperature=0.8, top_p=0.9, seed=7)
    drawn = RequestSpec("drawn", prompt, 24, sampling=sampling)
    alone, _ = generate("toy", [drawn])
    crowded, steps = generate(
        "toy", [*specs("toy")[:2], drawn], num_blocks=len(prompt) // 8 + 16, block_size=8, max_num_batched_tokens=24
    )
    assert output(alone, "drawn") == output(crowded, "drawn")
    greedy, _ = generate("toy", [RequestSpec("drawn", prompt, 24)])
    assert output(alone, "drawn") != output(greedy, "drawn")
    assert steps


def test_a_wrong_block_table_is_seen_by_the_dense_check(monkeypatch: pytest.MonkeyPatch) -> None:
    """Law 10 is no decoration: swap two entries of a table between scheduling and the launch."""
    from engine import model_runner

    honest = model_runner.build_metadata

    def swapped(requests, plan, tables, block_size, device):  # type: ignore[no-untyped-def]
        meta = honest(requests, plan, tables, block_size, device)
        if meta.block_table.shape[1] > 1:
            meta.block_table[:, [0, 1]] = meta.block_table[:, [1, 0]]
        return meta

    monkeypatch.setattr(model_runner, "build_metadata", swapped)
    settings = EngineConfig(block_size=8, num_blocks=32)
    engine = Engine(settings, ModelRunner(loaded("toy"), settings))
    engine.add(RequestSpec("A", prompts("toy")[0], 4))
    law = engine.step().laws[9]
    assert not law.holds
    assert law.broken_by == "request A"


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA GPU on this machine")
def test_same_text_on_a_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    """The compiled Triton kernels under the whole engine, every step checked against dense attention."""
    monkeypatch.setenv("KVSCOPE_DEVICE", "cuda")
    settings = EngineConfig(block_size=8, num_blocks=128, max_num_batched_tokens=24)
    engine = Engine(settings, ModelRunner(load_model("toy"), settings))
    for spec in specs("toy"):
        engine.add(spec)
    while not engine.is_done:
        step = engine.step()
        assert_laws(step)
        assert step.laws[9].checked
    for spec in specs("toy"):
        assert_same_text("toy", spec.prompt, output(engine, spec.id))

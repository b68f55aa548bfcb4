"""The forward pass against transformers, over scattered and poisoned blocks."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from engine.model.errors import ModelError
from engine.model.llama import LlamaModel
from engine.model.load import LoadedModel
from engine.model.spec import LlamaSpec
from engine.model.toy import TOY_SPEC
from tests.model.paged import PagedRun, transformers_model

TOLERANCE = 2e-4


def prompts(spec: LlamaSpec, lengths: list[int]) -> list[list[int]]:
    generator = torch.Generator().manual_seed(7)
    return [torch.randint(0, spec.vocab_size, (length,), generator=generator).tolist() for length in lengths]


def check_against_transformers(loaded: LoadedModel, block_size: int) -> None:
    """Three requests: prefill whole, in chunks beside decodes, and token by token, each position's logits compared."""
    texts = prompts(loaded.spec, [23, 17, 9])
    oracle = transformers_model(loaded.spec, loaded.model)
    with torch.inference_mode():
        expected = [oracle(torch.tensor([text])).logits[0] for text in texts]
    run = PagedRun(loaded.model, 3, 24, block_size)
    got: list[list[Tensor]] = [[], [], []]
    plan = [[20, 5, 1], [1, 7, 1], [1, 4, 3], [1, 1, 4]]
    for counts in plan:
        step = [
            text[run.done[i] : run.done[i] + count] for i, (text, count) in enumerate(zip(texts, counts, strict=True))
        ]
        for rows, logits in zip(got, run.step(step), strict=True):
            rows.append(logits)
    assert run.done == [23, 17, 9]
    for rows, truth in zip(got, expected, strict=True):
        logits = torch.cat(rows)
        assert logits.dtype == torch.float32
        assert (logits - truth).abs().max().item() <= TOLERANCE


@pytest.mark.parametrize("block_size", [1, 4, 16])
def test_toy_equals_transformers(toy: LoadedModel, block_size: int) -> None:
    check_against_transformers(toy, block_size)


@pytest.mark.model
def test_smollm2_equals_transformers(smollm2: LoadedModel) -> None:
    check_against_transformers(smollm2, 16)


def test_only_the_rows_asked_for_are_returned(toy: LoadedModel) -> None:
    text = prompts(toy.spec, [6])
    (everything,) = PagedRun(toy.model, 1, 8).step(text)
    some = PagedRun(toy.model, 1, 8).forward(text, [5, 2])
    assert (some - everything[[5, 2]]).abs().max() <= TOLERANCE
    assert PagedRun(toy.model, 1, 8).forward(text, []).shape == (0, toy.spec.vocab_size)


def test_same_step_sharing(toy: LoadedModel) -> None:
    """B reads blocks that A fills in this very step: KV of the whole batch is written before anyone attends."""
    (text,) = prompts(toy.spec, [10])
    alone = PagedRun(toy.model, 1, 12)
    (expected,) = alone.step([text])
    run = PagedRun(toy.model, 2, 12)
    run.tables[1] = [*run.tables[0][:2], run.tables[1][2]]
    run.done[1] = 8
    shared = run.step([text, text[8:]])
    assert (shared[1] - expected[8:]).abs().max() <= TOLERANCE


def test_half_precision_copy(toy: LoadedModel) -> None:
    text = prompts(toy.spec, [12])
    half = toy.model.to("cpu", torch.float16)
    assert (half.dtype, toy.model.dtype) == (torch.float16, torch.float32)
    (expected,), (got,) = PagedRun(toy.model, 1, 12).step(text), PagedRun(half, 1, 12).step(text)
    assert got.dtype == torch.float32
    assert 0 < (got - expected).abs().max() < 0.1


def test_observer_sees_its_layer_only(toy: LoadedModel) -> None:
    class Spy:
        layer = 1

        def __init__(self) -> None:
            self.shapes: list[list[tuple[int, ...]]] = []

        def __call__(self, query: Tensor, key: Tensor, value: Tensor, output: Tensor) -> None:
            self.shapes.append([tuple(tensor.shape) for tensor in (query, key, value, output)])
            self.key = key.clone()

    spy = Spy()
    run = PagedRun(toy.model, 1, 8)
    run.step(prompts(toy.spec, [5]), spy)
    assert spy.shapes == [[(5, 4, 32), (5, 2, 32), (5, 2, 32), (5, 4, 32)]]
    assert torch.equal(run.cache.key[1, run.tables[0][0]], spy.key[:4])


def test_weights_that_do_not_fit_are_refused(toy: LoadedModel) -> None:
    tensors = dict(toy.model.tensors)
    with pytest.raises(ModelError, match=r"has no tensor layers\.1\.down"):
        LlamaModel(TOY_SPEC, {name: tensor for name, tensor in tensors.items() if name != "layers.1.down"})
    with pytest.raises(ModelError, match=r"Tensor norm of the model has shape \(64,\)"):
        LlamaModel(TOY_SPEC, {**tensors, "norm": torch.ones(64)})


@pytest.mark.parametrize(
    ("field", "value"),
    [("num_layers", 0), ("num_kv_heads", 3), ("head_dim", 33), ("head_dim", 512), ("rope_theta", 0.0), ("rms_eps", -1)],
)
def test_impossible_specs_are_refused(field: str, value: float) -> None:
    fields = {name: getattr(TOY_SPEC, name) for name in LlamaSpec.__dataclass_fields__}
    with pytest.raises(ModelError, match=field):
        LlamaSpec(**{**fields, field: value})

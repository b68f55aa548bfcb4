"""Weights in smaller formats: how far off they are, who chooses one, and what a damaged measurement does."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

import pytest
import torch
from torch import Tensor

from engine.model import fastest, llama, matrix
from engine.model.errors import ModelError
from engine.model.fastest import ROWS, Measured
from engine.model.format_error import TEXT, format_error
from engine.model.llama import LlamaModel
from engine.model.load import LoadedModel, load_model
from engine.model.matrix import FORMATS, Format, make_matrix
from engine.model.spec import LlamaSpec

# Relative error of one product of random numbers. bf16 keeps 8 bits; int8 and int4 round inputs to bf16 as well, and
# 15 steps over uniform weights leave 1 / 15 / sqrt(12) of their range.
BOUND: dict[Format, float] = {"fp32": 1e-5, "bf16": 6e-3, "int8": 1e-2, "int4": 8e-2}
SHAPES = [(640, 512), (512, 96), (48, 64)]


def error(weight: Tensor, form: Format, rows: int) -> float:
    x = torch.randn(rows, weight.shape[1], generator=torch.Generator().manual_seed(1))
    truth = x.double() @ weight.double().t()
    product = make_matrix(weight, form)(x)
    assert (product.shape, product.dtype) == (truth.shape, torch.float32)
    return float((product - truth).norm() / truth.norm())


def uniform(shape: tuple[int, int]) -> Tensor:
    return torch.rand(shape, generator=torch.Generator().manual_seed(0)) - 0.5


@pytest.mark.parametrize("rows", [1, 2, 3, 8, 16, 17, 70])
@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("form", FORMATS)
def test_products_are_close(form: Format, shape: tuple[int, int], rows: int) -> None:
    assert error(uniform(shape), form, rows) <= BOUND[form]


@pytest.mark.skipif(not matrix.can_pack(), reason="this build of torch has no oneDNN")
def test_a_few_rows_take_the_packed_copy(monkeypatch: pytest.MonkeyPatch) -> None:
    packed: list[tuple[int, ...]] = []
    honest = matrix.pack
    monkeypatch.setattr(matrix, "pack", lambda weight: packed.append(tuple(weight.shape)) or honest(weight))
    weight = uniform((1024, 512))
    multiply = make_matrix(weight, "fp32")
    for rows in (1, 2, 17, 100):
        multiply(torch.randn(rows, 512))
    assert packed == []
    for rows in (3, 8, 16):
        x = torch.randn(rows, 512)
        assert (multiply(x) - x @ weight.t()).abs().max() < 1e-4
    assert packed == [(1024, 512)]


def test_a_model_too_large_to_keep_twice_is_not_packed(toy: LoadedModel, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(matrix, "_WORTH_PACKING", 1)
    asked: list[bool] = []
    monkeypatch.setattr(matrix, "pack", lambda weight: asked.append(True) or weight)
    monkeypatch.setattr(matrix, "packed_linear", lambda x, weight: x @ weight.t())
    for limit, packs in ((1, False), (1 << 30, True)):
        monkeypatch.setattr(llama, "PACK_AT_MOST", limit)
        format_error(toy.model, LlamaModel(toy.spec, toy.model.tensors), [1, 2, 3, 4])
        assert bool(asked) == packs


def test_four_bits_give_a_four_bit_file_back() -> None:
    """GGUF's Q4_1: 16 levels per 32 weights. What is left is the rounding of scales and inputs to bfloat16."""
    generator = torch.Generator().manual_seed(0)
    steps = torch.randint(0, 16, (64, 4, 32), generator=generator)
    steps[..., :2] = torch.tensor([0, 15])
    scale, low = torch.rand(2, 64, 4, 1, generator=generator)
    weight = (steps * (scale + 0.1) - 8 * low).view(64, 128)
    assert error(weight, "int4", 4) <= 6e-3


def test_rows_that_do_not_fill_the_packed_layout_are_kept_in_8_bits() -> None:
    assert not matrix.fits_int4(torch.zeros(24, 64))
    assert not matrix.fits_int4(torch.zeros(32, 48))
    assert error(uniform((24, 64)), "int4", 4) <= BOUND["int8"]


@pytest.mark.parametrize("form", FORMATS)
def test_error_against_float32_is_measured(toy: LoadedModel, form: Format) -> None:
    ids = toy.tokenizer.encode(TEXT)[:64]
    found = format_error(toy.model, LlamaModel(toy.spec, toy.model.tensors, form), ids)
    assert found.positions == 64
    if form == "fp32":
        assert (found.max_abs, found.same_greedy) == (0.0, 1.0)
    else:
        assert 0.0 < found.max_abs < 15.0  # the toy's logits span ±30
        assert found.same_greedy > 0.5


@pytest.mark.model
@pytest.mark.parametrize(("form", "most", "least_same"), [("bf16", 1.5, 0.9), ("int8", 2.5, 0.85), ("int4", 2.0, 0.88)])
def test_smollm2_in_small_formats(smollm2: LoadedModel, form: Format, most: float, least_same: float) -> None:
    """Measured 0.8, 1.2 and 1.0 on logits up to 30; 96, 92 and 94 % of the greedy tokens are the same."""
    other = LlamaModel(smollm2.spec, smollm2.model.tensors, form)
    found = format_error(smollm2.model, other, smollm2.tokenizer.encode(TEXT))
    assert 0.01 < found.max_abs < most
    assert found.same_greedy >= least_same


def measured(**ms: float) -> Measured:
    times = {form: tuple(ms.get(form, 10.0) for _ in ROWS) for form in FORMATS}
    return fastest._judge(times)


@pytest.fixture
def measurements(monkeypatch: pytest.MonkeyPatch) -> list[LlamaSpec]:
    """Every model that is measured; int8 wins."""
    seen: list[LlamaSpec] = []

    def measure(spec: LlamaSpec, tensors: Mapping[str, Tensor]) -> Measured:
        seen.append(spec)
        return measured(int8=4.0)

    monkeypatch.setattr(fastest, "measure_formats", measure)
    return seen


def test_the_fastest_is_chosen_if_it_is_worth_it() -> None:
    assert measured(int8=4.0, bf16=5.0).chosen == "int8"
    assert measured(bf16=9.5).chosen == "fp32"
    assert measured(bf16=30.0, int8=12.0, int4=11.0).chosen == "fp32"


def test_measured_once(toy: LoadedModel, home: Path, measurements: list[LlamaSpec]) -> None:
    for _ in range(2):
        loaded = load_model("toy", weights="auto")
        assert loaded.model.weights == "int8"
    assert measurements == [toy.spec]
    (file,) = home.iterdir()
    assert json.loads(file.read_text())["chosen"] == "int8"


@pytest.mark.parametrize(
    "damage", [b"", b"{", b"[]", b'{"schema": 1, "ms": {"fp32": [1, 1, 1]}}', b"\xff\xfe", b"null"]
)
def test_a_damaged_measurement_is_made_anew(
    toy: LoadedModel, home: Path, measurements: list[LlamaSpec], damage: bytes
) -> None:
    fastest.fastest(toy.spec, toy.model.tensors)
    (file,) = home.iterdir()
    good = file.read_bytes()
    for bad in (damage, good.replace(b'"schema": 1', b'"schema": 0'), good.replace(b"4.0", b'"x"')):
        file.write_bytes(bad)
        assert fastest.fastest(toy.spec, toy.model.tensors).chosen == "int8"
        assert file.read_bytes() == good
    assert len(measurements) == 4
    assert list(home.iterdir()) == [file]


def test_a_folder_that_cannot_be_written_is_no_error(
    toy: LoadedModel, home: Path, measurements: list[LlamaSpec]
) -> None:
    home.write_text("a file where the folder should be")
    assert fastest.fastest(toy.spec, toy.model.tensors).chosen == "int8"


def test_the_measurement_itself(toy: LoadedModel) -> None:
    found = fastest.measure_formats(toy.spec, toy.model.tensors)
    assert set(found.ms) == set(FORMATS)
    assert all(len(times) == len(ROWS) and min(times) > 0 for times in found.ms.values())


def test_formats_are_asked_for_by_name(toy: LoadedModel, monkeypatch: pytest.MonkeyPatch) -> None:
    assert load_model("toy").model.weights == "fp32"
    monkeypatch.setenv("KVSCOPE_WEIGHTS", "bf16")
    loaded = load_model("toy")
    assert (loaded.model.weights, loaded.title) == ("bf16", f"{toy.title} bf16")
    assert loaded.fingerprint == f"{toy.fingerprint} bf16"
    assert load_model("toy", weights="fp32").fingerprint == toy.fingerprint
    with pytest.raises(ModelError, match="asked for as fp8, but the formats are fp32, bf16, int8, int4, auto"):
        load_model("toy", weights="fp8")


def test_small_formats_on_a_gpu_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    from engine.model import load

    monkeypatch.setattr(load, "default_device", lambda: torch.device("cuda"))
    with pytest.raises(ModelError, match="Weights as int8 are for the CPU"):
        load.weight_format("int8", load.toy_model(load.toy_tokenizer()).spec, {})
    assert load.weight_format("auto", load.toy_model(load.toy_tokenizer()).spec, {}) == "fp32"

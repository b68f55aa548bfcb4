"""KV in other dtypes: the engine runs, copies and checks under each, and says what each costs."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
import torch

from engine import model_runner
from engine.config import EngineConfig
from engine.dense_check import TOLERANCE_FP32
from engine.engine import Engine
from engine.errors import UserError
from engine.events import BlockCopied, Preempted, SwappedIn
from engine.kv_dtype import KV_DTYPES, layout_of
from engine.kv_error import kv_errors
from engine.model.llama import KVCache
from engine.model.load import LoadedModel, load_model
from engine.model_runner import ModelRunner
from engine.prefix_hash import sha256_pickle
from engine.request import RequestSpec, SamplingParams
from engine.timeline import Step
from kernels import reference
from kernels.errors import KernelError
from kernels.layout import LARGEST
from kernels.metadata import one_sequence
from tests.engine.replay import assert_laws, hits

SMALL = ("fp16", "bf16", "fp8_e4m3", "int8")
PROMPTS = tuple(tuple(range(first, first + 15)) for first in (10, 40, 70))
OUTPUT = 20


@pytest.fixture(scope="module")
def toy() -> LoadedModel:
    return load_model("toy")


def run(toy: LoadedModel, specs: Sequence[RequestSpec], **config: object) -> tuple[Engine, list[Step]]:
    settings = EngineConfig(**{"block_size": 4, "num_blocks": 64, "max_num_batched_tokens": 64, **config})  # type: ignore[arg-type]
    engine = Engine(settings, ModelRunner(toy, settings))
    for spec in specs:
        engine.add(spec)
    steps = []
    while not engine.is_done:
        steps.append(engine.step())
        assert_laws(steps[-1])
        assert steps[-1].laws[9].checked == (steps[-1].kernel is not None)
    return engine, steps


def three() -> list[RequestSpec]:
    return [RequestSpec(f"r{number}", prompt, OUTPUT) for number, prompt in enumerate(PROMPTS)]


def texts(engine: Engine) -> dict[str, list[int]]:
    return {name: request.output_token_ids for name, request in engine.requests.items()}


def events(steps: Sequence[Step], kind: type) -> list[object]:
    return [event for step in steps for event in step.events if isinstance(event, kind)]


@pytest.mark.parametrize("kv_dtype", KV_DTYPES)
class TestEveryDtype:
    """Each step's paged attention equals dense attention over rows rounded alike (law 10)."""

    @pytest.mark.parametrize("cache", ["hash", "radix"])
    def test_hits_and_preemption(self, toy: LoadedModel, kv_dtype: str, cache: str) -> None:
        again = RequestSpec("again", PROMPTS[0], OUTPUT, arrival_step=OUTPUT + 4)
        _, steps = run(toy, [*three(), again], kv_dtype=kv_dtype, cache=cache, num_blocks=20, max_num_batched_tokens=24)
        assert events(steps, Preempted)
        assert hits(steps, "again")[0] > 0

    def test_swap_carries_the_scales(self, toy: LoadedModel, kv_dtype: str) -> None:
        free, _ = run(toy, three(), kv_dtype=kv_dtype)
        tight, steps = run(
            toy, three(), kv_dtype=kv_dtype, num_blocks=18, preemption="swap", enable_prefix_caching=False
        )
        moved = events(steps, SwappedIn)
        assert moved
        assert texts(tight) == texts(free)
        per_token = {"fp32": 4 * 32, "fp16": 2 * 32, "bf16": 2 * 32, "fp8_e4m3": 32 + 4, "int8": 32 + 4}[kv_dtype]
        for event in moved:  # K and V, 2 layers, 2 heads, 4 slots
            assert event.bytes == len(event.pairs) * 2 * 2 * 2 * 4 * per_token  # type: ignore[attr-defined]

    def test_copy_on_write_carries_the_scales(self, toy: LoadedModel, kv_dtype: str) -> None:
        sampling = SamplingParams(temperature=1.0, seed=3)
        spec = RequestSpec("A", PROMPTS[0], 6, sampling=sampling, n=3)
        _, steps = run(toy, [spec], kv_dtype=kv_dtype)
        assert len(events(steps, BlockCopied)) == 2

    def test_a_wrong_table_is_seen(self, toy: LoadedModel, kv_dtype: str, monkeypatch: pytest.MonkeyPatch) -> None:
        honest = model_runner.build_metadata

        def swapped(*arguments):  # type: ignore[no-untyped-def]
            meta = honest(*arguments)
            meta.block_table[:, [0, 1]] = meta.block_table[:, [1, 0]]
            return meta

        monkeypatch.setattr(model_runner, "build_metadata", swapped)
        with pytest.raises(AssertionError, match=r"breaks \[\(10, 'request r0'\)"):
            run(toy, three()[:1], kv_dtype=kv_dtype)


@pytest.mark.parametrize("kv_dtype", ["fp8_e4m3", "int8"])
def test_a_scale_that_is_off_is_seen(toy: LoadedModel, kv_dtype: str, monkeypatch: pytest.MonkeyPatch) -> None:
    honest = reference._put

    def off(cache: torch.Tensor, slots: torch.Tensor, rows: torch.Tensor) -> None:
        honest(cache, slots, rows * 1.5 if cache.dtype == torch.float32 else rows)

    monkeypatch.setattr(reference, "_put", off)
    with pytest.raises(AssertionError, match=r"breaks \[\(10, 'request r0'\)"):
        run(toy, three()[:1], kv_dtype=kv_dtype)


def tolerances(toy: LoadedModel, kv_dtype: str, request_id: str, **config: object) -> set[float]:
    """Of the steps that a request is in alone."""
    again = RequestSpec("again", PROMPTS[0], 4, arrival_step=OUTPUT + 4)
    _, steps = run(toy, [three()[0], again], kv_dtype=kv_dtype, **config)
    return {step.kernel.tolerance for step in steps if step.kernel and [*step.scheduled_tokens] == [request_id]}


def test_own_rows_are_checked_to_the_bit_under_any_dtype(toy: LoadedModel) -> None:
    for kv_dtype in KV_DTYPES:
        assert tolerances(toy, kv_dtype, "r0") == {TOLERANCE_FP32}


@pytest.mark.parametrize("cache", ["hash", "radix"])
def test_tolerance_of_found_rows_follows_the_dtype(toy: LoadedModel, cache: str) -> None:
    found = {name: max(tolerances(toy, name, "again", cache=cache)) for name in KV_DTYPES}
    assert found["fp32"] == pytest.approx(TOLERANCE_FP32, rel=0.01)
    assert found["fp32"] < found["fp16"] < found["bf16"] < found["fp8_e4m3"]
    assert found["fp16"] < found["int8"] < found["fp8_e4m3"]


def test_auto_is_the_models_own(toy: LoadedModel) -> None:
    assert texts(run(toy, three(), kv_dtype="auto")[0]) == texts(run(toy, three(), kv_dtype="fp32")[0])
    assert EngineConfig().kv_dtype == "auto"
    runner = ModelRunner(toy, EngineConfig())
    assert runner.cache.key.dtype == toy.model.dtype


def test_hashes_of_two_dtypes_have_nothing_in_common(toy: LoadedModel) -> None:
    roots = {}
    for kv_dtype in ("auto", *KV_DTYPES):
        settings = EngineConfig(kv_dtype=kv_dtype)  # type: ignore[arg-type]
        roots[kv_dtype] = Engine(settings, ModelRunner(toy, settings)).kv.chain.root  # type: ignore[attr-defined]
    assert roots["auto"] == sha256_pickle("vllm-none-hash")
    assert len(set(roots.values())) == len(roots)
    settings = EngineConfig(kv_dtype="int8")
    assert Engine(settings, ModelRunner(toy, settings), "tenant").kv.chain.root not in roots.values()  # type: ignore[attr-defined]


def test_a_dtype_there_is_not_is_refused() -> None:
    with pytest.raises(UserError, match="kv_dtype is int3; choose one of: auto, fp32, fp16, bf16, fp8_e4m3, int8"):
        EngineConfig(kv_dtype="int3")  # type: ignore[arg-type]


def test_a_block_beyond_the_pool_is_refused_before_the_launch(
    toy: LoadedModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    honest = model_runner.build_metadata

    def beyond(*arguments):  # type: ignore[no-untyped-def]
        meta = honest(*arguments)
        meta.block_table[0, 0] = 64
        return meta

    monkeypatch.setattr(model_runner, "build_metadata", beyond)
    with pytest.raises(KernelError, match="row 0 names block 64, but the pool has 64"):
        run(toy, three()[:1])


class TestErrorPerLayer:
    def test_measured_for_each_layer_and_dtype(self, toy: LoadedModel) -> None:
        found = kv_errors(toy, PROMPTS[0])
        assert [(row.layer, row.kv_dtype) for row in found] == [(i, name) for i in range(2) for name in KV_DTYPES]
        for layer in range(2):
            error = {row.kv_dtype: row for row in found if row.layer == layer}
            assert (error["fp32"].max_abs, error["fp32"].relative) == (0.0, 0.0)
            sizes = [error[name].relative for name in ("fp16", "bf16", "int8", "fp8_e4m3")]
            assert sizes == sorted(sizes)
            # What a format of that many bits leaves: 2^-11, 2^-8, 1 / 254, 2^-4, and a few times that through softmax.
            for name, unit in (("fp16", 2**-11), ("bf16", 2**-8), ("int8", 1 / 254), ("fp8_e4m3", 2**-4)):
                assert unit / 5 < error[name].relative < 5 * unit
        assert {row.kv_dtype: row.kv_bytes_per_token for row in found} == {
            "fp32": 1024, "fp16": 512, "bf16": 512, "fp8_e4m3": 288, "int8": 288,
        }  # fmt: skip

    def test_equals_rounding_by_hand(self, toy: LoadedModel) -> None:
        """Layer 0 with int8 written out: divide by a 127th of the row's largest, round, multiply, attend densely."""
        seen: list[tuple[torch.Tensor, ...]] = []

        class Spy:
            layer = 0

            def __call__(self, *tensors: torch.Tensor) -> None:
                seen.append(tuple(tensor.clone() for tensor in tensors))

        cache = KVCache(layout_of("fp32", toy.spec, 1, 16))
        meta = one_sequence(0, 15, 16, 1)
        toy.model.forward(torch.tensor(PROMPTS[0]), torch.arange(15), cache, meta, torch.tensor([14]), Spy())
        query, key, value, output = seen[0]

        def by_hand(rows: torch.Tensor) -> torch.Tensor:
            scale = rows.abs().amax(-1, keepdim=True) / LARGEST[torch.int8]
            return (rows / scale).round() * scale

        off = (reference.dense_attention(query, by_hand(key), by_hand(value), toy.spec.scale) - output).abs()
        (row,) = (row for row in kv_errors(toy, PROMPTS[0], ["int8"]) if row.layer == 0)
        assert row.max_abs == pytest.approx(float(off.max()), rel=1e-3)
        assert float(off[row.query, row.head].max()) == pytest.approx(row.max_abs, rel=1e-3)

    def test_a_decode_step_looks_at_its_own_query(self, toy: LoadedModel) -> None:
        last = kv_errors(toy, PROMPTS[0], ["int8"], queries=1)
        whole = kv_errors(toy, PROMPTS[0], ["int8"])
        assert all(row.query == 0 for row in last)
        assert all(one.max_abs <= every.max_abs for one, every in zip(last, whole, strict=True))

    @pytest.mark.parametrize(
        ("arguments", "says"),
        [
            (([],), "0 tokens cannot be looked at; give 1 to 8192"),
            (([1] * 8193,), "8193 tokens"),
            (([1, 2], ["int3"]), "kv_dtype is int3"),
            (([1, 2], ["int8"], 3), "3 of the last tokens cannot be queries; give 1 to 2"),
            (([1, 2], ["int8"], 0), "0 of the last tokens"),
        ],
    )
    def test_what_cannot_be_looked_at_is_one_sentence(
        self, toy: LoadedModel, arguments: tuple[object, ...], says: str
    ) -> None:
        with pytest.raises(UserError, match=says):
            kv_errors(toy, *arguments)  # type: ignore[arg-type]

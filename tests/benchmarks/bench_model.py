"""Decode and prefill of the model alone, beside transformers and llama.cpp, and the memory-bandwidth floor.

Rivals take turns, round by round, and the least step of all rounds counts, for each alike: other work on the machine
makes a step longer, never shorter.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from importlib.util import find_spec
from itertools import pairwise
from typing import Any

import torch

from engine.model.fastest import fastest
from engine.model.format_error import TEXT, format_error
from engine.model.llama import LlamaModel
from engine.model.load import LoadedModel
from engine.model.matrix import FORMATS, Format
from engine.model.weights import find_smollm2
from tests.benchmarks.report import report
from tests.engine.test_numerics import hugging_face, loaded
from tests.model.paged import PagedRun

ROUNDS = 5
PROMPT_TOKENS, DECODED, PREFILL_TOKENS = 40, 16, 512
BATCHES = (1, 4, 8)
BLOCK_SIZE = 16
Row = tuple[str, str, str, bool | None]


def main() -> None:
    if find_smollm2() is None:
        report("Model", [("SmolLM2", "its weights are not installed (make model)", "", None)])
        return
    model = loaded("smollm2")
    exact: dict[Format, LlamaModel] = {"fp32": model.model}
    forms = exact | {form: LlamaModel(model.spec, model.model.tensors, form) for form in FORMATS if form != "fp32"}
    llama_cpp = _LlamaCpp() if find_spec("llama_cpp") is not None else None
    runs = _runs(model, forms, llama_cpp)
    rounds: dict[str, list[float]] = {name: [] for name in runs}
    for name, run in [*runs.items()] * ROUNDS:
        rounds[name].append(run())
    best = {name: min(times) for name, times in rounds.items()}
    title = f"SmolLM2-135M, {torch.get_num_threads()} torch threads, least of {ROUNDS} rounds in turn"
    report(f"{title}, float32", _exact_rows(best))
    report(f"{title}, smaller weights", _format_rows(best, model, forms, llama_cpp is not None))


def _runs(
    model: LoadedModel, forms: dict[Format, LlamaModel], llama_cpp: _LlamaCpp | None
) -> dict[str, Callable[[], float]]:
    """Name → one round of it, in milliseconds per step, prompt or pass over the weights."""
    matrices = [tensor for tensor in model.model.tensors.values() if tensor.dim() == 2]
    runs: dict[str, Callable[[], float]] = {"floor": lambda: _read_all(matrices)}
    for form, each in forms.items():
        for batch in BATCHES:
            runs[f"{form} decode {batch}"] = lambda each=each, batch=batch: _decode(each, batch)
        runs[f"{form} prefill"] = lambda each=each: _prefill(each)
    runs["transformers decode"] = _transformers_decode
    runs["transformers prefill"] = _transformers_prefill
    if llama_cpp is not None:
        runs |= {"llama.cpp decode": llama_cpp.decode, "llama.cpp prefill": llama_cpp.prefill}
    return runs


def _exact_rows(best: dict[str, float]) -> list[Row]:
    floor, rival = best["floor"], best["transformers decode"]
    one, eight = best["fp32 decode 1"], best["fp32 decode 8"]
    to_floor, to_rival, batched = one / floor, rival / one, 8 * rival / eight
    return [
        ("floor: every weight read once", f"{floor:.1f} ms", "", None),
        ("decode, batch 1", f"{_speed(one, 1)}, {to_floor:.2f} of the floor", "≤ 1.5", to_floor <= 1.5),
        ("transformers generate, batch 1", _speed(rival, 1), "", None),
        ("decode, batch 1, over transformers", f"{to_rival:.2f} ×", "≥ 1.3 ×", to_rival >= 1.3),
        ("decode, batch 4", _speed(best["fp32 decode 4"], 4), "", None),
        ("decode, batch 8", _speed(eight, 8), "", None),
        ("decode, batch 8, over transformers one by one", f"{batched:.2f} ×", "≥ 4 ×", batched >= 4),
        (f"prefill of {PREFILL_TOKENS}", _speed(best["fp32 prefill"], PREFILL_TOKENS), "", None),
        ("transformers, the same prefill", _speed(best["transformers prefill"], PREFILL_TOKENS), "", None),
    ]  # fmt: skip


def _format_rows(
    best: dict[str, float], model: LoadedModel, forms: dict[Format, LlamaModel], has_rival: bool
) -> list[Row]:
    text = model.tokenizer.encode(TEXT)
    rows: list[Row] = []
    for form, each in forms.items():
        if form == "fp32":
            continue
        steps = ", ".join(f"batch {batch} {_speed(best[f'{form} decode {batch}'], batch)}" for batch in BATCHES)
        error = format_error(model.model, each, text)
        rows += [
            (f"{form} decode", steps, "", None),
            (f"{form} prefill of {PREFILL_TOKENS}", _speed(best[f"{form} prefill"], PREFILL_TOKENS), "", None),
            (f"{form} against float32, {error.positions} tokens of text",
             f"max |Δlogit| {error.max_abs:.2f}, same greedy token {error.same_greedy:.0%}", "", None),
        ]  # fmt: skip
    choice = fastest(model.spec, model.model.tensors)
    shares = ", ".join(f"{form} {choice.ratio(form):.2f}" for form in choice.ms)
    rows.append(("auto takes", f"{choice.chosen} (time over float32's: {shares})", "", None))
    if not has_rival:
        return [*rows, ("llama.cpp", "llama_cpp is not importable here", "≤ 1.3 × its time", None)]
    rival = best["llama.cpp decode"]
    ours = min(best[f"{form} decode 1"] for form in ("int8", "int4"))
    rows += [
        ("llama.cpp on the file's own 4 bits, batch 1", _speed(rival, 1), "", None),
        ("llama.cpp, the same prefill", _speed(best["llama.cpp prefill"], PREFILL_TOKENS), "", None),
        ("quantised decode, batch 1, over llama.cpp", f"{ours / rival:.2f} × its time", "≤ 1.3 ×", ours <= 1.3 * rival),
    ]
    return rows


def _speed(ms: float, tokens: int) -> str:
    return f"{ms:.1f} ms, {tokens / ms * 1e3:.0f} tok/s"


def _read_all(matrices: list[torch.Tensor]) -> float:
    """One row times every matrix: the least a decode step must do, and nothing else."""
    inputs = [torch.ones(matrix.shape[1]) for matrix in matrices]
    began = time.perf_counter()
    for matrix, x in zip(matrices, inputs, strict=True):
        torch.mv(matrix, x)
    return _ms_since(began)


def _prompt(row: int, tokens: int) -> list[int]:
    return [(7 + 31 * row + 3 * index) % 40_000 + 5 for index in range(tokens)]


def _decode(model: LlamaModel, batch: int) -> float:
    """Least step of `batch` greedy requests, building the metadata and choosing tokens included."""
    run = PagedRun(model, batch, PROMPT_TOKENS + DECODED + 1, BLOCK_SIZE)
    logits = run.step([_prompt(row, PROMPT_TOKENS) for row in range(batch)])
    tokens = [int(each[-1].argmax()) for each in logits]
    times = []
    for _ in range(DECODED):
        began = time.perf_counter()
        tokens = run.forward([[token] for token in tokens], range(batch)).argmax(-1).tolist()
        times.append(_ms_since(began))
    return min(times)


def _prefill(model: LlamaModel) -> float:
    run = PagedRun(model, 1, PREFILL_TOKENS, BLOCK_SIZE)
    began = time.perf_counter()
    run.forward([_prompt(0, PREFILL_TOKENS)], [PREFILL_TOKENS - 1])
    return _ms_since(began)


class _TokenTimes:
    """A streamer for `generate` that notes when each token came; the first call is the prompt."""

    def __init__(self) -> None:
        self.at: list[float] = []

    def put(self, value: torch.Tensor) -> None:
        self.at.append(time.perf_counter())

    def end(self) -> None: ...


def _transformers_decode() -> float:
    """Least time between two tokens of `generate`, prefill and first token left out."""
    ids, times = torch.tensor([_prompt(0, PROMPT_TOKENS)]), _TokenTimes()
    hugging_face("smollm2").generate(
        ids, attention_mask=torch.ones_like(ids), min_new_tokens=DECODED, max_new_tokens=DECODED, do_sample=False,
        pad_token_id=0, streamer=times,
    )  # fmt: skip
    return min(later - earlier for earlier, later in pairwise(times.at[1:])) * 1e3


def _transformers_prefill() -> float:
    with torch.inference_mode():
        began = time.perf_counter()
        hugging_face("smollm2")(torch.tensor([_prompt(0, PREFILL_TOKENS)]), logits_to_keep=1)
        return _ms_since(began)


class _LlamaCpp:
    """llama.cpp on the GGUF file as it is."""

    def __init__(self) -> None:
        from llama_cpp import Llama

        threads = torch.get_num_threads()
        self._model: Any = Llama(
            str(find_smollm2()), n_ctx=PREFILL_TOKENS + 64, n_batch=PREFILL_TOKENS, n_threads=threads,
            n_threads_batch=threads, verbose=False,
        )  # fmt: skip

    def decode(self) -> float:
        self._model.reset()
        self._model.eval(_prompt(0, PROMPT_TOKENS))
        times = []
        for token in range(DECODED):
            began = time.perf_counter()
            self._model.eval([token + 5])
            times.append(_ms_since(began))
        return min(times)

    def prefill(self) -> float:
        self._model.reset()
        began = time.perf_counter()
        self._model.eval(_prompt(0, PREFILL_TOKENS))
        return _ms_since(began)


def _ms_since(began: float) -> float:
    return (time.perf_counter() - began) * 1e3


if __name__ == "__main__":
    main()

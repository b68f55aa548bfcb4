"""On a GPU a step may wait for the device once, at its end. Counted without one, so that a second wait is noticed.

The kernels are left out of the count, for their twins on a CPU ask the host as they please, and so is everything after
the one download, which is host memory. What asks for a value before that, or sends numbers up by another way than
`upload`, would stall a GPU.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from torch.overrides import TorchFunctionMode, resolve_name

from engine import model_runner
from engine.config import EngineConfig
from engine.engine import Engine
from engine.model.decode_graph import DecodeGraphs
from engine.model_runner import ModelRunner
from engine.request import RequestSpec, SamplingParams
from kernels import dispatch, metadata
from tests.engine.replay import assert_laws
from tests.engine.test_numerics import loaded, prompts

WAITS = {
    "Tensor.item", "Tensor.tolist", "Tensor.cpu", "Tensor.numpy", "Tensor.__int__", "Tensor.__float__",
    "Tensor.__bool__", "Tensor.__index__", "Tensor.__contains__", "Tensor.nonzero", "Tensor.unique",
    "torch.nonzero", "torch.unique", "torch.equal", "torch.allclose", "Tensor.equal", "Tensor.__array__",
}  # fmt: skip
SENDS = {"torch.tensor", "torch.as_tensor", "torch.from_numpy", "Tensor.__getitem__ by a list or a mask"}


class Watch(TorchFunctionMode):
    """Counts, while `counting`, what would wait for the device or send to it."""

    def __init__(self) -> None:
        super().__init__()
        self.counting = False
        self.found: Counter[str] = Counter()

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if self.counting:
            name = (resolve_name(func) or getattr(func, "__name__", "")).replace("torch.Tensor.", "Tensor.")
            name = name if "." in name else f"torch.{name}"
            if name == "Tensor.__getitem__" and any(
                map(_needs_the_host, args[1] if isinstance(args[1], tuple) else args[1:])
            ):
                name = "Tensor.__getitem__ by a list or a mask"
            if name in WAITS | SENDS:
                self.found[name] += 1
        return func(*args, **(kwargs or {}))


def _needs_the_host(index: object) -> bool:
    return isinstance(index, list) or (isinstance(index, torch.Tensor) and index.dtype == torch.bool)


@pytest.fixture
def watch(monkeypatch: pytest.MonkeyPatch) -> Iterator[Watch]:
    """Counting from the start of `execute` or `fork` to the download, kernels and uploads left out."""
    seen = Watch()

    def beside(honest: Callable[..., Any], name: str = "") -> Callable[..., Any]:
        def call(*args: Any, **kwargs: Any) -> Any:
            before, seen.counting = seen.counting, False
            seen.found[name or "kernel"] += before
            try:
                return honest(*args, **kwargs)
            finally:
                seen.counting = before and name != "download"

        return call

    for owner, name in (
        (dispatch, "plan"), (dispatch, "write_kv"), (dispatch, "paged_attention"), (model_runner, "check_values"),
    ):  # fmt: skip
        monkeypatch.setattr(owner, name, beside(getattr(owner, name)))
    for owner, name in (
        (model_runner, "upload"),
        (metadata, "upload"),
        (dispatch, "upload"),
        (model_runner, "download"),
    ):
        monkeypatch.setattr(owner, name, beside(getattr(owner, name), name))
    for method in ("execute", "fork"):
        monkeypatch.setattr(ModelRunner, method, _counted(seen, getattr(ModelRunner, method)))
    with seen:
        yield seen


def _counted(seen: Watch, honest: Callable[..., Any]) -> Callable[..., Any]:
    def call(*args: Any, **kwargs: Any) -> Any:
        seen.counting = True
        seen.found["calls"] += 1
        try:
            return honest(*args, **kwargs)
        finally:
            seen.counting = False

    return call


def run(with_graphs: bool = False) -> ModelRunner:
    """Prefill, chunks, prefix hits, decode, drawn and greedy tokens, a fork with copy-on-write, preemption."""
    config = EngineConfig(block_size=8, num_blocks=28, max_num_batched_tokens=40, max_num_seqs=8)
    runner = ModelRunner(loaded("toy"), config)
    if with_graphs:
        runner.graphs = DecodeGraphs(runner.loaded.model, runner.cache, context_step=32)
    engine = Engine(config, runner)
    texts = prompts("toy")
    drawn = SamplingParams(temperature=0.8, top_p=0.9, seed=7)
    engine.add(RequestSpec("greedy", texts[0], 12))
    engine.add(RequestSpec("drawn", texts[1], 12, sampling=drawn))
    engine.add(RequestSpec("again", texts[0], 12, arrival_step=6))
    engine.add(RequestSpec("three", texts[2][:11], 12, sampling=drawn, n=3, arrival_step=8))
    while not engine.is_done:
        assert_laws(engine.step())
    return runner


def test_a_step_waits_once(watch: Watch) -> None:
    run()
    found = watch.found
    assert found["calls"] > 20 and found["kernel"] > 100
    assert not {name: count for name, count in found.items() if name in WAITS | SENDS}
    assert found["download"] <= found["calls"]
    assert found["upload"] <= 3 * found["calls"] + 3, "three a step, and one a wave of block copies"


def test_a_graph_waits_when_it_is_new(watch: Watch) -> None:
    """Twice, where its first replay is compared with the plain step."""
    graphs = run(with_graphs=True).graphs
    assert graphs is not None and not graphs.failed
    waits = {name: count for name, count in watch.found.items() if name in WAITS | SENDS}
    assert waits == {"Tensor.__float__": 2 * len(graphs.buckets)}


@pytest.mark.parametrize("name", ["float", "tolist", "cpu", "list index", "mask"])
def test_the_count_notices(watch: Watch, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each way of waiting that there was, put back into the sampler."""
    harms: dict[str, Callable[[torch.Tensor], object]] = {
        "float": lambda logits: float(logits.sum()), "tolist": lambda logits: logits.argmax(-1).tolist(),
        "cpu": lambda logits: logits.cpu(), "list index": lambda logits: logits[[0] * len(logits)],
        "mask": lambda logits: logits[logits > 0],
    }  # fmt: skip
    honest = model_runner.likeliest

    def harmed(logits: torch.Tensor) -> torch.Tensor:
        harms[name](logits)
        return honest(logits)

    monkeypatch.setattr(model_runner, "likeliest", harmed)
    run()
    assert any(watch.found[each] for each in WAITS | SENDS)

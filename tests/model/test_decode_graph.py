"""Decode over fixed buffers gives what the plain step gives: padded, in every bucket, from step to step."""

from __future__ import annotations

import inspect
import logging
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from types import SimpleNamespace

import pytest
import torch
from torch import Tensor

from engine.model import decode_graph
from engine.model.decode_graph import DecodeGraphs, bucket, wants_graphs
from engine.model.llama import KVCache, LlamaModel, Observer
from engine.model.load import LoadedModel
from kernels.launch import Launch
from kernels.metadata import AttentionMetadata, ScoreRule, Semantics
from kernels.tiling import Tiling
from tests.model import replayed
from tests.model.paged import PagedRun

TOLERANCE = 2e-4
STEP = 8  # positions of the smallest bucket
MAX_LEN = 70


class Spy:
    """An observer that copies what it is shown."""

    def __init__(self, layer: int | None = 1) -> None:
        self.layer = layer
        self.seen: list[list[Tensor]] = []

    def __call__(self, query: Tensor, key: Tensor, value: Tensor, output: Tensor) -> None:
        self.seen.append([tensor.clone() for tensor in (query, key, value, output)])


class Graphed:
    """Looks like a model to `PagedRun`, and computes through graphs."""

    def __init__(self, model: LlamaModel, **options: object) -> None:
        self.spec, self.dtype = model.spec, model.dtype
        self._model = model
        self._options = options
        self.graphs: DecodeGraphs | None = None

    def forward(
        self, ids: Tensor, positions: Tensor, cache: KVCache, meta: AttentionMetadata, rows: Tensor,
        observer: Observer | None,
    ) -> Tensor:  # fmt: skip
        self.graphs = self.graphs or DecodeGraphs(self._model, cache, **{"context_step": STEP, **self._options})  # type: ignore[arg-type]
        return self.graphs.forward(ids, positions, meta, rows, observer)


class Pair:
    """The same requests twice over: with graphs, and plain."""

    def __init__(self, model: LlamaModel, lengths: Sequence[int], **options: object) -> None:
        self.graphed, self.plain = (PagedRun(each, len(lengths), MAX_LEN) for each in (model, model))  # type: ignore[arg-type]
        self.model = Graphed(model, **options)
        prompts = [[(7 * row + 3 * index) % 90 + 5 for index in range(length)] for row, length in enumerate(lengths)]
        for run in (self.graphed, self.plain):
            run.step(prompts)
        self.graphed.model = self.model  # type: ignore[assignment]

    @property
    def graphs(self) -> DecodeGraphs:
        assert self.model.graphs is not None
        return self.model.graphs

    def decode(self, active: Sequence[int], rows: Sequence[int] | None = None) -> None:
        """One token of each of these requests; everything that comes of it is compared."""
        tokens: list[list[int]] = [[] for _ in self.plain.tables]
        for index in active:
            tokens[index] = [(11 * index + self.plain.done[index]) % 90 + 5]
        wanted = list(range(len(active))) if rows is None else list(rows)
        spies = Spy(), Spy()
        got, want = (
            run.forward(tokens, wanted, spy) for run, spy in zip((self.graphed, self.plain), spies, strict=True)
        )
        assert got.shape == want.shape
        assert off(got, want) <= TOLERANCE
        assert [len(spy.seen) for spy in spies] == [1, 1]
        for ours, theirs in zip(spies[0].seen[0], spies[1].seen[0], strict=True):
            assert off(ours, theirs) <= TOLERANCE
        for mine, theirs in (
            (self.graphed.cache.key, self.plain.cache.key),
            (self.graphed.cache.value, self.plain.cache.value),
        ):
            assert torch.equal(mine.isnan(), theirs.isnan()), "a slot was written that should not, or was not"
            assert off(mine.nan_to_num(0.0), theirs.nan_to_num(0.0)) <= TOLERANCE


def off(got: Tensor, want: Tensor) -> float:
    assert got.shape == want.shape
    difference = (got - want).abs()
    assert not difference.isnan().any()
    return float(difference.max()) if difference.numel() else 0.0


Start = Callable[..., Pair]


@pytest.fixture(params=["eager", "replayed"])
def start(request: pytest.FixtureRequest, toy: LoadedModel, monkeypatch: pytest.MonkeyPatch) -> Start:
    """Makes a pair whose static step runs as it does on a CPU, with the real kernels; or is replayed as on a GPU."""

    def make(lengths: Sequence[int], **options: object) -> Pair:
        if request.param == "eager":
            return Pair(toy.model, lengths, **options)
        pair = Pair(toy.model, lengths, **{"capture": replayed.capture, **options})
        replayed.use_hostless_kernels(monkeypatch)
        return pair

    return make


@pytest.mark.parametrize("size", [1, 2, 3, 4, 5, 7, 8, 9, 16, 17])
def test_every_batch_size(start: Start, size: int) -> None:
    pair = start([1 + 5 * index % 23 for index in range(size)])
    for _ in range(4):  # the first step of a bucket is checked against the plain one on the same cache; others are not
        pair.decode(range(size))
    assert not pair.graphs.failed
    assert {batch for batch, _ in pair.graphs.buckets} == {1 << (size - 1).bit_length()}


def test_across_every_boundary_of_context(start: Start) -> None:
    """Contexts 6 … 69 in steps of one, alone and beside a short row, over buckets of 8, 16, 32, 64 and 128."""
    pair = start([5, 1])
    while (length := pair.plain.done[0] + 1) < MAX_LEN:
        pair.decode([1, 0] if length in (8, 16, 17, 33, 64) else [0])
        assert pair.graphs.buckets[-1][1] == next(size for size in (8, 16, 32, 64, 128) if size >= length)
    assert sorted(pair.graphs.buckets) == [(rows, size) for rows in (1, 2) for size in (8, 16, 32, 64, 128)][:9]
    assert not pair.graphs.failed


def test_nothing_is_left_of_larger_and_other_batches(start: Start) -> None:
    pair = start([3, 20, 9, 1, 14, 30, 2, 7])
    for active in (
        [0, 1, 2, 3, 4],
        [2, 3, 4],
        [5],
        [7, 0, 1, 6],
        list(range(8)),
        [1, 2],
        [6, 5],
        [4, 3, 2, 1, 0],
        [0, 1],
    ):
        pair.decode(active)
    assert not pair.graphs.failed


def test_only_the_rows_asked_for_are_returned(start: Start) -> None:
    pair = start([3, 20, 9])
    for rows in ([2, 0], [], [1, 1], [0]):
        pair.decode([0, 1, 2], rows)


def test_returned_logits_outlive_the_next_step(start: Start) -> None:
    pair = start([3, 4])
    first = pair.graphed.forward([[5], [6]], [0, 1])
    kept = first.clone()
    pair.graphed.forward([[7], [8]], [0, 1])
    assert torch.equal(first, kept)


def test_a_step_of_padding_alone_leaves_the_cache_and_gives_numbers(toy: LoadedModel) -> None:
    """Warm-ups and captures compute it."""
    run = PagedRun(toy.model, 2, 16)
    step = decode_graph._StaticStep(toy.model, run.cache, 4, 16, 1)
    step.compute()
    assert run.cache.key.isnan().all() and run.cache.value.isnan().all()
    assert torch.isfinite(step.logits).all()
    assert torch.equal(step.seen(4)[3], torch.zeros(4, 4, 32))


def test_padding_attends_to_nothing(toy: LoadedModel) -> None:
    run = PagedRun(toy.model, 3, 16)
    step = decode_graph._StaticStep(toy.model, run.cache, 4, 16, 1)
    for lengths in ([1, 1, 1], [1]):  # the second leaves two rows to be forgotten
        step.fill(
            torch.tensor([5] * len(lengths)), torch.zeros(len(lengths), dtype=torch.int64), decode_meta(run, lengths)
        )
        step.compute()
        output = step.seen(4)[3]
        assert output[: len(lengths)].abs().sum(dim=(1, 2)).all()
        assert torch.equal(output[len(lengths) :], torch.zeros(4 - len(lengths), 4, 32))


def test_a_bucket_has_one_launch(toy: LoadedModel) -> None:
    """What Triton's kernels are launched with stays the same, whatever batch the buffers hold."""
    compiled = pytest.importorskip("kernels.paged_attention", reason="triton has wheels for Linux only")
    run = PagedRun(toy.model, 4, 70)
    query, rule = torch.zeros(4, 4, 32), ScoreRule(toy.spec.scale)
    output, seen = torch.zeros_like(query), []
    tiling = Tiling(tile=16, split=32)
    step = decode_graph._StaticStep(toy.model, run.cache, 4, 128, None)
    for lengths in ([1], [70, 3], [64, 65, 70, 1]):
        step.fill(torch.zeros(len(lengths), dtype=torch.int64), torch.tensor(lengths) - 1, decode_meta(run, lengths))
        launches = compiled.launches(query, run.cache.layers[0], step._meta, rule, output, chosen=tiling)
        seen.append([(launch.grid, launch.options, constants(launch, output)) for launch in launches])
    assert seen[0] == seen[1] == seen[2]
    assert [grid for grid, _, _ in seen[0]] == [(4 // 8 + 4, 2, 4), (4, 4)]


def constants(launch: Launch, output: Tensor) -> dict[str, object]:
    """Numbers, and addresses; but not of what a launch allocates for itself, which a graph has in its own pool."""
    return {
        name: value.data_ptr() if isinstance(value, Tensor) else value
        for name, value in launch.arguments.items()
        if value is output or not name.startswith(("output", "lse", "partial"))
    }


def decode_meta(run: PagedRun, lengths: list[int]) -> AttentionMetadata:
    return AttentionMetadata(
        query_start_loc=torch.arange(len(lengths) + 1, dtype=torch.int32),
        seq_lens=torch.tensor(lengths, dtype=torch.int32),
        block_table=torch.tensor(run.tables[: len(lengths)], dtype=torch.int32),
        slot_mapping=torch.tensor(
            [
                run.tables[row][(length - 1) // run.block_size] * run.block_size + (length - 1) % run.block_size
                for row, length in enumerate(lengths)
            ]
        ),
        block_size=run.block_size,
        max_query_len=1,
        max_seq_len=max(lengths),
        semantics=(Semantics.DECODE,) * len(lengths),
    )


def test_the_least_recently_used_graph_goes_first(start: Start) -> None:
    pair = start([3, 20, 9, 1, 2], max_graphs=2)
    for active, batches in (([0], [1]), ([0, 3], [1, 2]), ([0], [2, 1]), ([0, 3, 4], [1, 4]), ([0, 3], [4, 2])):
        pair.decode(active)
        assert [batch for batch, _ in pair.graphs.buckets] == batches


def test_other_steps_run_plain(toy: LoadedModel) -> None:
    pair = Pair(toy.model, [3, 4])
    tokens = [[5, 6], [7]]
    got, want = pair.graphed.step(tokens), pair.plain.step(tokens)
    assert all(off(ours, theirs) == 0.0 for ours, theirs in zip(got, want, strict=True))
    spy = Spy(layer=None)
    pair.graphed.forward([[5], [6]], [0], spy)
    assert len(spy.seen) == toy.spec.num_layers
    assert pair.graphs.buckets == ()


def test_a_batch_that_is_too_large_runs_plain(toy: LoadedModel, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(decode_graph, "MAX_BATCH", 2)
    pair = Pair(toy.model, [3, 4, 5])
    pair.decode([0, 1, 2])
    assert pair.graphs.buckets == ()
    pair.decode([0, 2])
    assert pair.graphs.buckets == ((2, STEP),)


def no_capture(compute: Callable[[], None]) -> Callable[[], None]:
    raise RuntimeError("operation not permitted when stream is capturing")


def stale(compute: Callable[[], None]) -> Callable[[], None]:
    """A replay that does nothing: the numbers stay those of the capture."""
    compute()
    return lambda: None


class FailsAtThirdReplay:
    def __init__(self, compute: Callable[[], None]) -> None:
        self.compute = compute
        self.replays = 0

    def __call__(self) -> None:
        self.replays += 1
        if self.replays == 3:
            raise RuntimeError("an illegal memory access was encountered")
        self.compute()


@pytest.mark.parametrize(
    ("capture", "why"),
    [(no_capture, "stream is capturing"), (stale, "a replay's logits are off by"), (FailsAtThirdReplay, "illegal")],
)
def test_a_failure_is_one_line_and_plain_steps(
    toy: LoadedModel, capture: Callable[..., object], why: str, caplog: pytest.LogCaptureFixture
) -> None:
    """`decode` also sees that the observer is called once in every step."""
    pair = Pair(toy.model, [3, 20, 9], capture=capture)
    with caplog.at_level(logging.WARNING, "kvscope"):
        for _ in range(4):
            pair.decode([0, 1, 2])
    assert pair.graphs.failed
    assert pair.graphs.buckets == ()
    assert [why in record.message for record in caplog.records] == [True]


def test_an_observer_that_raises_is_no_failure_of_the_graph(toy: LoadedModel) -> None:
    class Broken(Spy):
        def __call__(self, query: Tensor, key: Tensor, value: Tensor, output: Tensor) -> None:
            raise ValueError("broken")

    pair = Pair(toy.model, [3])
    with pytest.raises(ValueError, match="broken"):
        pair.graphed.forward([[5]], [0], Broken())
    assert not pair.graphs.failed


def test_buckets_double() -> None:
    assert [bucket(length, 8) for length in (1, 8, 9, 16, 17, 33, 65)] == [8, 8, 16, 16, 32, 64, 128]


def test_graphs_are_for_those_who_ask_on_a_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KVSCOPE_CUDA_GRAPHS", "1")
    monkeypatch.setattr(
        decode_graph, "implementation_name", lambda device: {"cuda": "triton"}.get(device.type, "torch")
    )
    assert wants_graphs(torch.device("cuda"))
    assert not wants_graphs(torch.device("cpu"))
    monkeypatch.delenv("KVSCOPE_CUDA_GRAPHS")
    assert not wants_graphs(torch.device("cuda"))


class FakeCuda:
    """The few things a capture asks of torch.cuda, each noted; a graph's replay computes again."""

    def __init__(self, fails: bool = False) -> None:
        self.log: list[str] = []
        self.current: object = self
        self.fails = fails

    def wait_stream(self, other: object) -> None:
        self.log.append("wait")

    @contextmanager
    def inside(self, what: str) -> Iterator[None]:
        self.log.append(f"in {what}")
        yield
        self.log.append(f"out of {what}")

    def graph(self, *args: object, **kwargs: object) -> AbstractContextManager[None]:
        self.graph_arguments = signature.bind(*args, **kwargs).arguments
        self.current = "side"
        if self.fails:
            raise RuntimeError("operation not permitted when stream is capturing")
        return self.inside("graph")

    def install(self, monkeypatch: pytest.MonkeyPatch) -> None:
        for name, value in {
            "graph_pool_handle": lambda: (0, 1), "Stream": lambda _: self, "device": lambda _: self.inside("device"),
            "current_stream": lambda: self, "set_stream": lambda stream: setattr(self, "current", stream),
            "stream": lambda _: self.inside("side stream"), "graph": self.graph,
            "CUDAGraph": lambda: SimpleNamespace(replay=lambda: self.log.append("replay")),
        }.items():  # fmt: skip
            monkeypatch.setattr(torch.cuda, name, value)


signature = inspect.signature(torch.cuda.graph)


def test_warm_ups_come_before_the_capture(monkeypatch: pytest.MonkeyPatch) -> None:
    cuda = FakeCuda()
    cuda.install(monkeypatch)
    replay = decode_graph._CudaCapture(torch.device("cuda"))(lambda: cuda.log.append("compute"))
    replay()
    warm_ups = ["in side stream", "compute", "compute", "out of side stream"]
    captured = ["in graph", "compute", "out of graph"]
    assert cuda.log == ["in device", "wait", *warm_ups, "wait", *captured, "out of device", "replay"]
    assert cuda.graph_arguments["pool"] == (0, 1)
    assert cuda.graph_arguments["stream"] is cuda
    assert cuda.graph_arguments["capture_error_mode"] == "thread_local"


def test_a_failed_capture_comes_back_to_its_stream(monkeypatch: pytest.MonkeyPatch) -> None:
    cuda = FakeCuda(fails=True)
    cuda.install(monkeypatch)
    with pytest.raises(RuntimeError, match="capturing"):
        decode_graph._CudaCapture(torch.device("cuda"))(lambda: None)
    assert cuda.current is cuda
    assert not decode_graph._CAPTURING.locked()

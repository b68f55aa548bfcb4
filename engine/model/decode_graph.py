"""Decode steps with fixed shapes: on a GPU each is captured once as a CUDA graph and then replayed as one launch.

A decode step is hundreds of small launches, and the host that issues them is slower than the GPU. A graph replays them
all at once, but with the very addresses, grids and numbers it was captured with. So a step is padded to a bucket: a
number of rows and a context length, both of which its launches are made for, and its inputs are copied into buffers
that stay where they are (as in vLLM 0.33 `CUDAGraphWrapper` and its batch-size buckets). On a CPU the same function
over the same buffers simply runs, which is how it is tested.
"""

from __future__ import annotations

import logging
import os
from collections import OrderedDict
from collections.abc import Callable, Sequence
from threading import Lock

import torch
from torch import Tensor

from engine.model.llama import KVCache, LlamaModel, Observer
from kernels.dispatch import implementation_name
from kernels.metadata import AttentionMetadata, Semantics
from kernels.tiling import Shape, power_of_two, tiling

MAX_BATCH = 64  # rows of the largest bucket; larger steps hide their launches behind their work
MAX_GRAPHS = 16  # the least recently used is dropped: each keeps its intermediate tensors
WARM_UPS = 2  # the first compiles kernels and lets cuBLAS take its workspace: neither may happen in a capture
# A replay may differ from the plain step by rounding in matrices of another height; share of the largest |logit|.
_AGREES = {torch.float32: 1e-3, torch.float64: 1e-3}
_HALF_AGREES = 3e-2

_LOG = logging.getLogger("kvscope")
_CAPTURING = Lock()  # a process may capture one graph at a time, and each session has a thread

# Takes a function without arguments or result, returns one that does the same again.
Capture = Callable[[Callable[[], None]], Callable[[], None]]


def wants_graphs(device: torch.device) -> bool:
    """Asked for with KVSCOPE_CUDA_GRAPHS=1, on a CUDA GPU whose kernels never ask the host."""
    return os.environ.get("KVSCOPE_CUDA_GRAPHS") == "1" and implementation_name(device) == "triton"


class DecodeGraphs:
    """A model's decode steps over one cache, by bucket. Every other step runs plain, and all do once one has failed.

    A new graph serves only after its first replay gave the plain step's logits.
    """

    def __init__(
        self,
        model: LlamaModel,
        cache: KVCache,
        context_step: int | None = None,
        capture: Capture | None = None,
        max_graphs: int = MAX_GRAPHS,
    ) -> None:
        """`context_step`: positions of the smallest bucket, by default what one program of the kernel walks."""
        spec = model.spec
        shape = Shape(spec.num_heads // spec.num_kv_heads, spec.head_dim, model.dtype)
        self._model = model
        self._cache = cache
        self._context_step = context_step or tiling(shape).split
        self._capture = capture or _capture_for(model.device)
        self._max_graphs = max_graphs
        self._graphs: OrderedDict[tuple[int, int, int | None], _Graph] = OrderedDict()
        self._failed = False

    @property
    def buckets(self) -> tuple[tuple[int, int], ...]:
        """(rows, context) of the graphs at hand, the most recently used last."""
        return tuple((batch, context) for batch, context, _ in self._graphs)

    @property
    def failed(self) -> bool:
        """One could not be captured, replayed or trusted: all steps run plain from there on."""
        return self._failed

    def forward(
        self,
        token_ids: Tensor,
        positions: Tensor,
        meta: AttentionMetadata,
        logits_rows: Tensor,
        observer: Observer | None = None,
    ) -> Tensor:
        """As `LlamaModel.forward`. What the observer is shown of a replay is overwritten by the next one."""
        graph = self._replay(token_ids, positions, meta, observer) if self._serves(meta, observer) else None
        if graph is None:
            return self._model.forward(token_ids, positions, self._cache, meta, logits_rows, observer)
        if observer is not None:
            with torch.inference_mode():
                observer(*graph.step.seen(meta.num_seqs))
        return graph.step.logits.index_select(0, logits_rows)

    def _serves(self, meta: AttentionMetadata, observer: Observer | None) -> bool:
        """Decode rows only, plainly causal, one token each, not too many, and one layer looked at at most."""
        one_layer = observer is None or observer.layer is not None
        plain = meta.is_decode and meta.masks is None and meta.num_tokens == meta.num_seqs
        return plain and one_layer and not self._failed and 0 < meta.num_seqs <= MAX_BATCH

    def _replay(
        self, token_ids: Tensor, positions: Tensor, meta: AttentionMetadata, observer: Observer | None
    ) -> _Graph | None:
        """The graph whose step now holds this batch's results; None, and a line in the log, where that failed."""
        batch, context = power_of_two(meta.num_seqs), bucket(meta.max_seq_len, self._context_step)
        key = (batch, context, None if observer is None else observer.layer)
        try:
            graph = self._graphs.get(key)
            is_new = graph is None
            if graph is None:
                graph = _Graph(_StaticStep(self._model, self._cache, *key), self._capture)
            graph.step.fill(token_ids, positions, meta)
            graph.replay()
            if is_new:
                self._check(graph, token_ids, positions, meta)
        except Exception as error:  # whatever it was, the step can be computed without a graph
            self._failed = True
            self._graphs.clear()
            _LOG.warning("CUDA graphs are off from here on, decode of %d rows failed: %s", meta.num_seqs, error)
            return None
        self._graphs[key] = graph
        self._graphs.move_to_end(key)
        if len(self._graphs) > self._max_graphs:
            self._graphs.popitem(last=False)  # its last replay is over: each step ends by waiting for its tokens
        return graph

    def _check(self, graph: _Graph, token_ids: Tensor, positions: Tensor, meta: AttentionMetadata) -> None:
        """Waits for the device, once a graph. Raises RuntimeError when the replay computed something else."""
        rows = torch.arange(meta.num_seqs, device=token_ids.device)
        want = self._model.forward(token_ids, positions, self._cache, meta, rows)
        allowed = _AGREES.get(self._model.dtype, _HALF_AGREES) * float(want.abs().max())
        off = float((graph.step.logits[: meta.num_seqs] - want).abs().max())
        if not off <= allowed:
            raise RuntimeError(f"a replay's logits are off by {off:.3g}, and {allowed:.3g} are allowed")


def bucket(length: int, step: int) -> int:
    """The least of step, 2 step, 4 step … that holds `length`."""
    return step * power_of_two(-(-length // step))


class _Graph:
    """A static step and what replays it."""

    def __init__(self, step: _StaticStep, capture: Capture) -> None:
        self.step = step
        self.replay = capture(step.compute)


class _StaticStep:
    """One decode step over buffers of its own, for up to `batch` rows of up to `context` positions.

    A padding row has length 0, slot -1, and token and position 0: kernels write nothing for it and attend to nothing.
    A new step has padding rows only, so that computing it leaves the cache alone.
    """

    def __init__(self, model: LlamaModel, cache: KVCache, batch: int, context: int, layer: int | None) -> None:
        device = model.device
        self._model = model
        self._cache = cache
        self._ids = torch.zeros(batch, dtype=torch.int64, device=device)
        self._positions = torch.zeros(batch, dtype=torch.int64, device=device)
        self._rows = torch.arange(batch, device=device)
        self._seen = None if layer is None else _OneLayer(layer)
        self._meta = AttentionMetadata(
            query_start_loc=torch.arange(batch + 1, dtype=torch.int32, device=device),
            seq_lens=torch.zeros(batch, dtype=torch.int32, device=device),
            block_table=torch.zeros((batch, -(-context // cache.block_size)), dtype=torch.int32, device=device),
            slot_mapping=torch.full((batch,), -1, dtype=torch.int64, device=device),
            block_size=cache.block_size,
            max_query_len=1,
            max_seq_len=context,
            semantics=(Semantics.DECODE,) * batch,
        )
        self.logits = torch.empty(0)  # [batch, vocab]

    def fill(self, token_ids: Tensor, positions: Tensor, meta: AttentionMetadata) -> None:
        """This batch's rows, then padding: nothing of an earlier step stays."""
        rows, mine = meta.num_seqs, self._meta
        for buffer, source, padding in (
            (self._ids, token_ids, 0),
            (self._positions, positions, 0),
            (mine.seq_lens, meta.seq_lens, 0),
            (mine.slot_mapping, meta.slot_mapping, -1),
        ):
            buffer[:rows].copy_(source)
            buffer[rows:].fill_(padding)
        width = min(mine.block_table.shape[1], meta.block_table.shape[1])
        mine.block_table.zero_()
        mine.block_table[:rows, :width].copy_(meta.block_table[:, :width])

    def compute(self) -> None:
        """Once captured, a replay renews the same tensors in place."""
        self.logits = self._model.forward(
            self._ids, self._positions, self._cache, self._meta, self._rows, observer=self._seen
        )

    def seen(self, rows: int) -> Sequence[Tensor]:
        """Query, key, value and output of the layer looked at, without the padding."""
        assert self._seen is not None
        return [tensor[:rows] for tensor in self._seen.tensors]


class _OneLayer:
    """Keeps what it is shown. Held, a captured tensor's memory is not given to another."""

    def __init__(self, layer: int) -> None:
        self.layer: int | None = layer
        self.tensors: tuple[Tensor, ...] = ()

    def __call__(self, query: Tensor, key: Tensor, value: Tensor, output: Tensor) -> None:
        self.tensors = (query, key, value, output)


def _capture_for(device: torch.device) -> Capture:
    return _CudaCapture(device) if device.type == "cuda" else lambda compute: compute


class _CudaCapture:
    """Warms up and captures on a side stream, into a memory pool that nothing but these graphs uses.

    One stream for all: cuBLAS keeps a workspace for each it has seen.
    """

    def __init__(self, device: torch.device) -> None:
        self._device = device
        self._pool = torch.cuda.graph_pool_handle()
        self._stream = torch.cuda.Stream(device)  # type: ignore[no-untyped-call]

    def __call__(self, compute: Callable[[], None]) -> Callable[[], None]:
        with _CAPTURING, torch.cuda.device(self._device):
            outside = torch.cuda.current_stream()
            try:
                return self._captured(compute, outside)
            finally:
                torch.cuda.set_stream(outside)  # `torch.cuda.graph` does not come back to it from a failure

    def _captured(self, compute: Callable[[], None], outside: torch.cuda.Stream) -> Callable[[], None]:
        self._stream.wait_stream(outside)
        with torch.cuda.stream(self._stream):
            for _ in range(WARM_UPS):
                compute()
        outside.wait_stream(self._stream)
        graph = torch.cuda.CUDAGraph()
        # Other threads (another visitor's session) may use the GPU meanwhile: only this one's calls are restricted.
        with torch.cuda.graph(graph, self._pool, self._stream, capture_error_mode="thread_local"):
            compute()
        replay: Callable[[], None] = graph.replay
        return replay

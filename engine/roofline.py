"""Modelled step time: a roofline over the bytes and FLOPs that a step costs a named model on a named GPU.

Source: Williams, Waterman, Patterson, "Roofline" (CACM 52:4, 2009). For a step with rows of n new positions each,
after `start` that have KV already, and P the parameters of the layers:

    bytes   = weights + Σ rows (start + n) · kv + Σ rows n · kv + copied blocks · 2 · block · kv
    FLOPs   = Σ rows [2 · P · n + 2 · hidden · vocab + 4 · layers · heads · head_dim · Σ_{i=1..n} (start + i)]
    step ms = max(bytes / bandwidth, FLOPs / peak) + swapped bytes / host link + launch overhead

Weights are read once a step (all but an untied embedding table, of which only a row per token is), each row reads its
own context once and has logits for its last position, as in vLLM. Activations stay on the chip; nothing overlaps
with a swap. It is a bound from below: what runs in practice takes longer. A step that launches nothing takes no time.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from math import prod
from typing import ClassVar

from engine.clock import Clock, ClockKind, Measured
from engine.errors import UserError
from engine.events import BlockCopied, Scheduled, SwappedIn, SwappedOut
from engine.model.spec import LlamaSpec
from engine.swap import SwapCost
from engine.timeline import Step

MAX_OVERHEAD_MS = 1e4


@dataclass(frozen=True, slots=True)
class GPU:
    """Published peaks: memory bandwidth and host link (one direction) in bytes/s, dense bf16 tensor FLOP/s."""

    name: str
    bandwidth: float
    flops: float
    host_link: float

    def seconds(self, moved: float, flops: float) -> float:
        """At least, for `moved` bytes and as many FLOPs: whichever of the two takes longer."""
        return max(moved / self.bandwidth, flops / self.flops)


@dataclass(frozen=True, slots=True)
class NamedModel:
    """A model by its published shape, weights and KV in bf16."""

    name: str
    spec: LlamaSpec
    bytes_per_value: int = 2

    @property
    def parameters(self) -> int:
        return sum(prod(shape) for shape in self.spec.tensor_shapes().values())

    @property
    def weight_bytes(self) -> int:
        """What a step reads: a tied embedding table serves as the output matrix, an untied one is hardly touched."""
        untouched = 0 if self.spec.tied_embeddings else self.spec.vocab_size * self.spec.hidden_size
        return (self.parameters - untouched) * self.bytes_per_value

    @property
    def layer_parameters(self) -> int:
        """Weights that every position is multiplied with."""
        shapes = self.spec.tensor_shapes()
        return sum(prod(shape) for name, shape in shapes.items() if name.startswith("layers.") and len(shape) == 2)

    @property
    def kv_bytes_per_token(self) -> int:
        return self.spec.kv_floats_per_token * self.bytes_per_value


# NVIDIA's data sheets; where they state FLOP/s "with sparsity" the dense rate is half, and of a PCIe link's total
# bandwidth one direction is half. A100 (SXM, 80 GB): 2,039 GB/s, 312 TFLOPS, PCIe 4. H100 (SXM): 3.35 TB/s,
# 1,979 TFLOPS sparse, PCIe 5. H200 (SXM): 4.8 TB/s, 1,979 sparse, PCIe 5. L4: 300 GB/s, 242 sparse, PCIe 4.
GPUS = (
    GPU("A100-80GB-SXM", bandwidth=2.039e12, flops=312e12, host_link=32e9),
    GPU("H100-SXM", bandwidth=3.35e12, flops=989.5e12, host_link=64e9),
    GPU("H200", bandwidth=4.8e12, flops=989.5e12, host_link=64e9),
    GPU("L4", bandwidth=300e9, flops=121e12, host_link=32e9),
)


def _llama(*numbers: int, theta: float, tied: bool) -> LlamaSpec:
    layers, hidden, heads, kv_heads, inner, vocab, positions = numbers
    return LlamaSpec(layers, hidden, heads, kv_heads, hidden // heads, inner, vocab, positions, theta, 1e-5, tied)


# Shapes from each model's published config.json: HuggingFaceTB/SmolLM2-135M, meta-llama/Llama-3.2-1B and -3.1-8B.
MODELS = (
    NamedModel("SmolLM2-135M", _llama(30, 576, 9, 3, 1536, 49_152, 8192, theta=1e5, tied=True)),
    NamedModel("Llama-3.2-1B", _llama(16, 2048, 32, 8, 8192, 128_256, 131_072, theta=5e5, tied=True)),
    NamedModel("Llama-3.1-8B", _llama(32, 4096, 32, 8, 14_336, 128_256, 131_072, theta=5e5, tied=False)),
)


@dataclass(frozen=True, slots=True)
class Work:
    """What a launch moves through GPU memory, in bytes, and computes, in FLOPs."""

    bytes: int
    flops: int


@dataclass(frozen=True, slots=True)
class Roofline:
    """A modelled clock. `overhead_ms` is added to every step that launches something."""

    model: NamedModel
    gpu: GPU
    overhead_ms: float = 0.0
    kind: ClassVar[ClockKind] = "modelled"

    def __post_init__(self) -> None:
        if not 0.0 <= self.overhead_ms <= MAX_OVERHEAD_MS:
            raise UserError("config.range", field="overhead_ms", value=self.overhead_ms, low=0, high=MAX_OVERHEAD_MS)

    @property
    def name(self) -> str:
        overhead = f"+{self.overhead_ms:g}ms" if self.overhead_ms else ""
        return f"{self.model.name}@{self.gpu.name}{overhead}"

    @property
    def kv_bytes_per_token(self) -> int:
        return self.model.kv_bytes_per_token

    def work(self, rows: Iterable[tuple[int, int]]) -> Work:
        """Of one launch over `rows` of (positions that have KV, new positions)."""
        spec, kv = self.model.spec, self.kv_bytes_per_token
        count = tokens = read = pairs = 0
        for start, new in rows:
            count += 1
            tokens += new
            read += start + new
            pairs += new * start + new * (new + 1) // 2  # of query and key under the causal mask
        flops = 2 * self.model.layer_parameters * tokens + 2 * spec.hidden_size * spec.vocab_size * count
        flops += 4 * spec.num_layers * spec.num_heads * spec.head_dim * pairs
        return Work(self.model.weight_bytes + (read + tokens) * kv, flops)

    def step_ms(self, step: Step) -> float:
        block_size = step.scheduled.pool.block_size
        rows, copies, swaps = [], 0, 0.0
        for event in step.events:
            match event:
                case Scheduled():
                    rows.append((event.start, event.tokens))
                case BlockCopied():
                    copies += 2 * block_size * self.kv_bytes_per_token
                case SwappedOut() | SwappedIn():
                    swaps += self._link_ms(event, block_size)
        if not rows:
            return swaps
        work = self.work(rows)
        return self.gpu.seconds(work.bytes + copies, work.flops) * 1e3 + swaps + self.overhead_ms

    def swap(self, event: SwappedOut | SwappedIn, block_size: int) -> SwapCost:
        return SwapCost(self._swapped(event, block_size), self._link_ms(event, block_size))

    def _swapped(self, event: SwappedOut | SwappedIn, block_size: int) -> int:
        return len(event.pairs) * block_size * self.kv_bytes_per_token

    def _link_ms(self, event: SwappedOut | SwappedIn, block_size: int) -> float:
        return self._swapped(event, block_size) / self.gpu.host_link * 1e3


def read_clock(text: str, overhead_ms: float = 0.0) -> Clock:
    """The clock that `text` names: "measured" or MODEL@GPU. Raises UserError naming what there is."""
    if text == Measured.name:
        if overhead_ms:
            raise UserError("clock.overhead", value=overhead_ms)
        return Measured()
    model_name, _, gpu_name = text.partition("@")
    model = next((each for each in MODELS if each.name.lower() == model_name.lower()), None)
    gpu = next((each for each in GPUS if each.name.lower() == gpu_name.lower()), None)
    if model is None or gpu is None:
        models, gpus = (", ".join(each.name for each in names) for names in (MODELS, GPUS))
        raise UserError("clock.unknown", clock=text, models=models, gpus=gpus)
    return Roofline(model, gpu, overhead_ms)

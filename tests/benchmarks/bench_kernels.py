"""Paged attention on a GPU: decode in GB/s against a device copy, prefill in TFLOP/s, beside torch and vLLM.

And a model's whole decode step, launch by launch and as one CUDA graph.

torch's scaled_dot_product_attention reads K and V that were gathered before the clock started; paged attention reads
them through the block table. Every rival's result is compared with ours before it is timed.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from importlib.util import find_spec

import torch
from torch import Tensor
from torch.nn import functional

from engine.model.decode_graph import DecodeGraphs
from engine.model.llama import KVCache, LlamaModel
from engine.model.load import load_model
from engine.model.weights import find_smollm2
from kernels import dispatch
from kernels.layout import CacheLayout, KVLayer
from kernels.metadata import AttentionMetadata, ScoreRule, Semantics
from tests.benchmarks.report import median, report

QUERY_HEADS, KV_HEADS, HEAD_DIM, BLOCK_SIZE = 32, 8, 128, 16  # Llama 3 8B
DECODE = (64, 4096, 1)  # requests, context, new tokens of each
PREFILL = (1, 8192, 8192)
COPY_BYTES = 1 << 30
STEP_CONTEXT, STEP_BATCHES = 1024, (1, 8, 32)
DTYPE = torch.bfloat16
REPETITIONS, WARM_UPS = 20, 3
AGREE = 2e-2  # bf16 outputs of about 1
Row = tuple[str, str, str, bool | None]


@dataclass(frozen=True, slots=True)
class Problem:
    """One launch over a filled cache, its K and V also gathered: [requests, KV heads, context, D]."""

    query: Tensor
    layer: KVLayer
    meta: AttentionMetadata
    key: Tensor
    value: Tensor

    @property
    def kv_bytes(self) -> int:
        return self.key.nbytes + self.value.nbytes

    @property
    def flops(self) -> int:
        """Multiply-adds of q·k and p·v over what the causal mask leaves, two operations each."""
        requests, _, context, head_dim = self.key.shape
        new = len(self.query) // requests
        seen = new * context - new * (new - 1) // 2
        return 4 * requests * seen * self.query.shape[1] * head_dim


def main() -> None:
    if not torch.cuda.is_available():
        report("Kernels", [("paged attention on a GPU", "no CUDA GPU on this machine", "", None)])
        return
    from kernels.tune import tune

    tune(QUERY_HEADS, KV_HEADS, HEAD_DIM, DTYPE)
    rows = [*_decode_rows(make_problem(*DECODE, "cuda")), *_prefill_rows(make_problem(*PREFILL, "cuda"))]
    report(f"Kernels on {torch.cuda.get_device_name()}, {QUERY_HEADS}/{KV_HEADS} heads of {HEAD_DIM}, {DTYPE}", rows)
    model = load_model("smollm2" if find_smollm2() is not None else "toy")
    steps = [row for batch in STEP_BATCHES for row in _step_rows(model.model.to("cuda", torch.float32), batch)]
    report(f"A decode step of {model.title}, contexts of {STEP_CONTEXT}, float32", steps)


def _decode_rows(problem: Problem) -> list[Row]:
    source = torch.empty(COPY_BYTES, dtype=torch.uint8, device="cuda")
    target = torch.empty_like(source)
    times = _in_turn({"copy": lambda: target.copy_(source), **rivals(problem)})
    copy = 2 * COPY_BYTES / times["copy"] / 1e6
    rate = {name: problem.kv_bytes / ms / 1e6 for name, ms in times.items() if name != "copy"}
    title = f"decode, {DECODE[0]} requests × {DECODE[1]}"
    share = rate["ours"] / copy
    return [
        ("device copy, read and write", f"{copy:.0f} GB/s", "", None),
        (title, f"{rate['ours']:.0f} GB/s, {share:.0%} of the copy", "≥ 85 %", share >= 0.85),
        *_beside(title, times),
    ]


def _prefill_rows(problem: Problem) -> list[Row]:
    times = _in_turn(rivals(problem))
    title = f"prefill of {PREFILL[2]}"
    return [(title, f"{problem.flops / times['ours'] / 1e9:.0f} TFLOP/s", "", None), *_beside(title, times)]


def _beside(title: str, times: dict[str, float]) -> list[Row]:
    rows: list[Row] = []
    for name, ms in times.items():
        if name not in ("ours", "copy"):
            ratio = ms / times["ours"]
            rows.append((f"{title}, over {name}", f"{ratio:.2f} × ({ms:.3f} ms)", "≥ 1.0 ×", ratio >= 1.0))
    if "vLLM" not in times:
        rows.append((f"{title}, over vLLM", "vllm is not importable here", "", None))
    return rows


def _step_rows(model: LlamaModel, batch: int) -> list[Row]:
    """The same step over a cache of any numbers, plain and replayed. Raises RuntimeError if no graph could be used."""
    runs, graphs = step_runs(model, batch, "cuda")
    times = _in_turn(runs)
    if graphs.failed:
        raise RuntimeError("the graph failed: the log says why")
    plain, graph = times["plain"], times["graph"]
    return [
        (f"batch {batch}, launch by launch", f"{plain:.3f} ms", "", None),
        (f"batch {batch}, as a CUDA graph", f"{graph:.3f} ms, {plain / graph:.2f} × as fast", "", None),
    ]


def step_runs(model: LlamaModel, batch: int, device: str) -> tuple[dict[str, Callable[[], Tensor]], DecodeGraphs]:
    """One decode step of `batch` requests, without graphs and with."""
    spec, per_request = model.spec, STEP_CONTEXT // BLOCK_SIZE
    layout = CacheLayout(spec.num_layers, batch * per_request, BLOCK_SIZE, spec.num_kv_heads, spec.head_dim)
    cache = KVCache(layout, device)
    for tensor in cache.pool.tensors:
        tensor.normal_()
    table = torch.arange(batch * per_request, dtype=torch.int32, device=device).view(batch, per_request)
    meta = AttentionMetadata(
        query_start_loc=torch.arange(batch + 1, dtype=torch.int32, device=device),
        seq_lens=torch.full((batch,), STEP_CONTEXT, dtype=torch.int32, device=device),
        block_table=table,
        slot_mapping=table[:, -1].long() * BLOCK_SIZE + BLOCK_SIZE - 1,
        block_size=BLOCK_SIZE,
        max_query_len=1,
        max_seq_len=STEP_CONTEXT,
        semantics=(Semantics.DECODE,) * batch,
    )
    rows = torch.arange(batch, device=device)
    ids, positions = rows + 5, torch.full((batch,), STEP_CONTEXT - 1, device=device)
    graphs = DecodeGraphs(model, cache)
    return {
        "plain": lambda: model.forward(ids, positions, cache, meta, rows),
        "graph": lambda: graphs.forward(ids, positions, meta, rows),
    }, graphs


def make_problem(requests: int, context: int, new: int, device: str, block_size: int = BLOCK_SIZE) -> Problem:
    """Random numbers; physical blocks in random order, so that no neighbour in the table is one in memory."""
    generator = torch.Generator().manual_seed(0)
    per_request = -(-context // block_size)
    blocks = requests * per_request + 1
    table = (torch.randperm(blocks - 1, generator=generator) + 1).view(requests, per_request)
    layer = CacheLayout(1, blocks, block_size, KV_HEADS, HEAD_DIM, DTYPE).allocate(device).layer(0)
    for tensor in (layer.key, layer.value):
        tensor.normal_()
    positions = torch.arange(context - new, context)
    slots = table[:, positions // block_size] * block_size + positions % block_size
    meta = AttentionMetadata(
        query_start_loc=torch.arange(0, (requests + 1) * new, new, dtype=torch.int32, device=device),
        seq_lens=torch.full((requests,), context, dtype=torch.int32, device=device),
        block_table=table.to(device, torch.int32),
        slot_mapping=slots.flatten().to(device),
        block_size=block_size,
        max_query_len=new,
        max_seq_len=context,
        semantics=(Semantics.DECODE if new == 1 else Semantics.PREFILL,) * requests,
    )
    query = torch.randn(requests * new, QUERY_HEADS, HEAD_DIM, dtype=DTYPE, device=device)
    key, value = (
        cache[table.to(device)].flatten(1, 2)[:, :context].transpose(1, 2).contiguous()
        for cache in (layer.key, layer.value)
    )
    return Problem(query, layer, meta, key, value)


def rivals(problem: Problem) -> dict[str, Callable[[], Tensor]]:
    """Ours and who else is here, each returning [T, Hq, D]. Raises RuntimeError if one disagrees with ours."""
    rule = ScoreRule(HEAD_DIM**-0.5)
    found: dict[str, Callable[[], Tensor]] = {
        "ours": lambda: dispatch.paged_attention(problem.query, problem.layer, problem.meta, rule),
        "torch SDPA on gathered KV": lambda: _sdpa(problem, rule.scale),
    }
    if find_spec("vllm") is not None:
        found["vLLM"] = lambda: _vllm(problem, rule.scale)
    ours = found["ours"]()
    for name, run in found.items():
        if not (run() - ours).abs().max() <= AGREE:
            raise RuntimeError(f"{name} computes something else")
    return found


def _sdpa(problem: Problem, scale: float) -> Tensor:
    requests = len(problem.key)
    query = problem.query.view(requests, -1, QUERY_HEADS, HEAD_DIM).transpose(1, 2)
    causal = query.shape[2] > 1  # every problem here is one new token, or a whole prompt
    out = functional.scaled_dot_product_attention(
        query, problem.key, problem.value, is_causal=causal, scale=scale, enable_gqa=True
    )
    return out.transpose(1, 2).reshape(problem.query.shape)


def _vllm(problem: Problem, scale: float) -> Tensor:
    """vLLM's `unified_attention`, as its Triton backend calls it."""
    from vllm.v1.attention.ops.triton_unified_attention import unified_attention

    output = torch.empty_like(problem.query)
    meta = problem.meta
    unified_attention(
        q=problem.query, k=problem.layer.key, v=problem.layer.value, out=output, cu_seqlens_q=meta.query_start_loc,
        max_seqlen_q=meta.max_query_len, seqused_k=meta.seq_lens, max_seqlen_k=meta.max_seq_len, softmax_scale=scale,
        causal=True, window_size=(-1, -1), block_table=meta.block_table, softcap=0.0, q_descale=None, k_descale=None,
        v_descale=None,
    )  # fmt: skip
    return output


def _in_turn(runs: dict[str, Callable[[], object]]) -> dict[str, float]:
    """Median milliseconds of each on the GPU's own clock, one after the other in every repetition."""
    times: dict[str, list[float]] = {name: [] for name in runs}
    for repetition in range(WARM_UPS + REPETITIONS):
        for name, run in runs.items():
            began, ended = (torch.cuda.Event(enable_timing=True) for _ in range(2))
            began.record()
            run()
            ended.record()
            torch.cuda.synchronize()
            if repetition >= WARM_UPS:
                times[name].append(began.elapsed_time(ended))
    return {name: median(each) for name, each in times.items()}


if __name__ == "__main__":
    main()

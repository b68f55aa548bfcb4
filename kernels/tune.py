"""Measure the tilings of one shape on the GPU at hand and use the fastest from then on."""

from __future__ import annotations

import torch

from kernels.errors import KernelError
from kernels.layout import CacheLayout
from kernels.metadata import AttentionMetadata, ScoreRule, Semantics
from kernels.tiling import Shape, Tiling, candidates, use_fastest

REQUESTS, CONTEXT, BLOCK = 64, 4096, 16


def tune(num_heads: int, num_kv_heads: int, head_dim: int, dtype: torch.dtype) -> dict[Tiling, float]:
    """Milliseconds of a decode launch (64 requests of 4096 tokens) under each candidate, the fastest used from now on.

    Raises KernelError without a CUDA GPU: times in the interpreter say nothing.
    """
    if not torch.cuda.is_available():
        raise KernelError("device", "there is no CUDA GPU on this machine to measure")
    from triton.testing import do_bench

    from kernels.paged_attention import paged_attention

    per_request = CONTEXT // BLOCK
    layout = CacheLayout(1, REQUESTS * per_request, BLOCK, num_kv_heads, head_dim, dtype)
    pool = layout.allocate("cuda")
    for tensor in pool.tensors:
        tensor.normal_()
    meta = AttentionMetadata(
        query_start_loc=torch.arange(REQUESTS + 1, dtype=torch.int32, device="cuda"),
        seq_lens=torch.full((REQUESTS,), CONTEXT, dtype=torch.int32, device="cuda"),
        block_table=torch.randperm(layout.num_blocks, device="cuda").to(torch.int32).view(REQUESTS, per_request),
        slot_mapping=torch.full((REQUESTS,), -1, dtype=torch.int64, device="cuda"),
        block_size=BLOCK, max_query_len=1, max_seq_len=CONTEXT, semantics=(Semantics.DECODE,) * REQUESTS,
    )  # fmt: skip
    query = torch.randn(REQUESTS, num_heads, head_dim, dtype=dtype, device="cuda")
    layer, rule = pool.layer(0), ScoreRule(head_dim**-0.5)
    shape = Shape(num_heads // num_kv_heads, head_dim, dtype)
    times = {
        option: float(do_bench(lambda option=option: paged_attention(query, layer, meta, rule, chosen=option)))
        for option in candidates(shape)
    }
    use_fastest(shape, times)
    return times

"""A schedule becomes tensors, kernels run, logits become tokens."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import accumulate

import torch

from engine.branching import copy_waves
from engine.config import EngineConfig
from engine.dense_check import AttentionLens
from engine.kv_dtype import cache_layout
from engine.kv_manager import KVManager
from engine.model.llama import KVCache
from engine.model.load import LoadedModel
from engine.model.spec import LlamaSpec
from engine.request import Request
from engine.runner import RunnerOutput, samples
from engine.sampler import sample, top_candidates
from engine.scheduler import Plan
from engine.swap import SwapCost, SwapJob
from engine.timeline import KernelRecord, KernelRow, NextToken
from kernels.checks import check_values
from kernels.dispatch import copy_blocks, implementation_name, swap_blocks
from kernels.layout import KVPool
from kernels.metadata import AttentionMetadata, Semantics

TOP_CANDIDATES = 5


class ModelRunner:
    """The real thing: a Llama-family model over a paged KV cache of its own."""

    def __init__(self, loaded: LoadedModel, config: EngineConfig, lens_layer: int | None = None) -> None:
        spec = loaded.spec
        self.loaded = loaded
        self.config = config
        self.vocab_size: int | None = spec.vocab_size
        self.device = loaded.model.device
        self.cache = KVCache(cache_layout(spec, config, loaded.model.dtype), self.device)
        self._host: KVPool | None = None
        self.lens = AttentionLens(
            layer=spec.num_layers // 2 if lens_layer is None else lens_layer,
            layout=self.cache.pool.layout,
            scale=spec.scale,
            tables_may_change=config.cache == "radix",
        )
        self._logits: dict[str, torch.Tensor] = {}  # of the last step, for those who fork at its token

    def execute(self, requests: Sequence[Request], plan: Plan, kv: KVManager) -> RunnerOutput:
        """One forward pass over the ragged batch; scripted requests run the model too, only their token is given."""
        tables = [[block.id for block in kv.block_table(request.id)] for request in requests]
        meta = build_metadata(requests, plan, tables, self.config.block_size, self.device)
        if self.device.type == "cpu":  # reading values back would stall a GPU; here it is microseconds
            check_values(meta, self.config.num_blocks)
        ids, positions = _inputs(requests, plan, self.device)
        sampling = [index for index, request in enumerate(requests) if samples(request)]
        ends = meta.query_start_loc[1:].long() - 1
        self.lens.begin(requests, plan)
        for wave in copy_waves(plan.copies):
            copy_blocks(self.cache.pool, wave)
        logits = self.loaded.model.forward(ids, positions, self.cache, meta, ends[sampling], observer=self.lens).cpu()
        self._logits = {requests[index].id: row for index, row in zip(sampling, logits, strict=True)}
        tokens, scripted = self._sample([requests[index] for index in sampling], logits)
        record = self._record(requests, plan, tables, meta, sampling, logits)
        return RunnerOutput(tokens, scripted, record, self._texts(requests, tokens))

    @property
    def bytes_per_block(self) -> int:
        """K and V of all layers in one block."""
        return self.cache.bytes_per_block

    def swap(self, job: SwapJob) -> SwapCost:
        """Copies the job's blocks to host memory or back; the time is measured up to the end of the copy."""
        host = self._host_cache()
        self._synchronize()
        began = time.perf_counter()
        if job.direction == "out":
            swap_blocks(self.cache.pool, host, job.pairs)
        else:
            swap_blocks(host, self.cache.pool, [(slot, block) for block, slot in job.pairs])
        self._synchronize()
        return SwapCost(len(job.pairs) * self.bytes_per_block, (time.perf_counter() - began) * 1e3)

    def _host_cache(self) -> KVPool:
        """Made at the first swap: most engines never need it. Pinned beside a GPU, so that copies go by DMA."""
        if self._host is None:
            layout = replace(self.cache.pool.layout, num_blocks=self.config.swap_blocks)
            self._host = layout.allocate(pin_memory=self.cache.key.device.type == "cuda")
        return self._host

    def _synchronize(self) -> None:
        if self.cache.key.device.type == "cuda":
            torch.cuda.synchronize(self.cache.key.device)

    def fork(self, parent: Request, children: Sequence[Request], draw: bool) -> RunnerOutput:
        """Copies no KV: children share blocks until one writes. Drawn tokens come from the parent's last logits."""
        for child in children:
            self.lens.fork(parent, child)
        rows = [self._logits[parent.id]] * len(children) if draw else []
        tokens, scripted = self._sample(children if draw else [], rows)
        return RunnerOutput(tokens, scripted, text=self._texts(children, tokens))

    def _sample(
        self, requests: Sequence[Request], logits: Iterable[torch.Tensor]
    ) -> tuple[dict[str, int], frozenset[str]]:
        tokens, scripted = {}, set()
        for request, row in zip(requests, logits, strict=True):
            script = request.spec.output
            if script is not None:
                tokens[request.id] = script[request.num_output_tokens]
                scripted.add(request.id)
            else:
                tokens[request.id] = sample(row, request.spec.sampling, self.config.seed, request.num_tokens)
        return tokens, frozenset(scripted)

    def _texts(self, requests: Sequence[Request], tokens: Mapping[str, int]) -> dict[str, str]:
        return {
            request.id: self.loaded.tokenizer.decode(
                request.output_token_ids + ([tokens[request.id]] if request.id in tokens else [])
            )
            for request in requests
        }

    def _record(
        self,
        requests: Sequence[Request],
        plan: Plan,
        tables: Sequence[Sequence[int]],
        meta: AttentionMetadata,
        sampling: Sequence[int],
        logits: torch.Tensor,
    ) -> KernelRecord:
        spec = self.loaded.spec
        starts = meta.query_start_loc.tolist()
        slots = meta.slot_mapping.tolist()
        top = {index: self._top(row) for index, row in zip(sampling, logits, strict=True)}
        rows = tuple(
            KernelRow(
                request=request.id,
                query_start=starts[index],
                query_len=plan.tokens[request.id],
                context_len=request.num_computed_tokens,
                block_table=tuple(tables[index]),
                slot_mapping=tuple(slots[starts[index] : starts[index + 1]]),
                attention_mass=self.lens.mass[request.id],
                max_abs_diff=self.lens.diff[request.id],
                top=top.get(index, ()),
            )
            for index, request in enumerate(requests)
        )
        return KernelRecord(
            implementation=implementation_name(self.cache.key.device),
            layer=self.lens.layer,
            num_layers=spec.num_layers,
            num_query_heads=spec.num_heads,
            num_kv_heads=spec.num_kv_heads,
            head_dim=spec.head_dim,
            rows=rows,
            tolerance=self.lens.tolerance,
        )

    def _top(self, logits: torch.Tensor) -> tuple[NextToken, ...]:
        tokenizer = self.loaded.tokenizer
        pairs = top_candidates(logits, TOP_CANDIDATES)
        return tuple(NextToken(token, tokenizer.token_text(token), share) for token, share in pairs)


def build_metadata(
    requests: Sequence[Request],
    plan: Plan,
    tables: Sequence[Sequence[int]],
    block_size: int,
    device: torch.device | str = "cpu",
) -> AttentionMetadata:
    """Query ranges, context lengths, block tables and slots of one step, all requests in batch order."""
    lengths = [plan.tokens[request.id] for request in requests]
    starts = [0, *accumulate(lengths)]
    contexts = [request.num_computed_tokens for request in requests]
    width = max(len(table) for table in tables)
    slots = [
        table[position // block_size] * block_size + position % block_size
        for request, table in zip(requests, tables, strict=True)
        for position in range(plan.starts[request.id], request.num_computed_tokens)
    ]
    return AttentionMetadata(
        query_start_loc=torch.tensor(starts, dtype=torch.int32, device=device),
        seq_lens=torch.tensor(contexts, dtype=torch.int32, device=device),
        block_table=torch.tensor(
            [[*table, *[0] * (width - len(table))] for table in tables], dtype=torch.int32, device=device
        ),
        slot_mapping=torch.tensor(slots, dtype=torch.int64, device=device),
        block_size=block_size,
        max_query_len=max(lengths),
        max_seq_len=max(contexts),
        semantics=tuple(_semantics(request, plan) for request in requests),
    )


def _semantics(request: Request, plan: Plan) -> Semantics:
    """One token after the prompt is decode; a recomputed tail of several is prefill again."""
    decode = plan.tokens[request.id] == 1 and plan.starts[request.id] >= request.num_prompt_tokens
    return Semantics.DECODE if decode else Semantics.PREFILL


def fit_to_model(config: EngineConfig, spec: LlamaSpec) -> EngineConfig:
    """The configuration with sequences no longer than the model has positions for."""
    if config.model_len <= spec.max_positions:
        return config
    return config.with_changes({"max_model_len": spec.max_positions})


def _inputs(requests: Sequence[Request], plan: Plan, device: torch.device | str) -> tuple[torch.Tensor, torch.Tensor]:
    ids: list[int] = []
    positions: list[int] = []
    for request in requests:
        start, end = plan.starts[request.id], request.num_computed_tokens
        ids.extend(request.token_ids[start:end])
        positions.extend(range(start, end))
    return (
        torch.tensor(ids, dtype=torch.int64, device=device),
        torch.tensor(positions, dtype=torch.int64, device=device),
    )

"""A schedule becomes tensors, kernels run, logits become tokens."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import accumulate

import torch

from engine.branching import copy_waves
from engine.config import EngineConfig
from engine.dense_check import AttentionLens
from engine.kv_dtype import cache_layout
from engine.kv_manager import KVManager
from engine.model.decode_graph import DecodeGraphs, wants_graphs
from engine.model.llama import KVCache
from engine.model.load import LoadedModel
from engine.model.spec import LlamaSpec
from engine.request import Request
from engine.runner import RunnerOutput, samples
from engine.sampler import likeliest, sample, top_candidates
from engine.scheduler import Plan
from engine.swap import SwapCost, SwapJob
from engine.timeline import KernelRecord, KernelRow, NextToken
from kernels.checks import check_values
from kernels.dispatch import copy_blocks, implementation_name, swap_blocks
from kernels.layout import KVPool
from kernels.metadata import AttentionMetadata, Semantics, pack_rows
from kernels.transfer import download, upload

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
        self.graphs = DecodeGraphs(loaded.model, self.cache) if wants_graphs(self.device) else None
        self._host: KVPool | None = None
        self.lens = AttentionLens(
            layer=spec.num_layers // 2 if lens_layer is None else lens_layer,
            layout=self.cache.pool.layout,
            scale=spec.scale,
            tables_may_change=config.cache == "radix",
        )
        self._logits: dict[str, torch.Tensor] = {}  # of the last step, on its device, for those who fork at its token

    def execute(self, requests: Sequence[Request], plan: Plan, kv: KVManager) -> RunnerOutput:
        """One forward pass over the ragged batch; scripted requests run the model too, only their token is given."""
        tables = [[block.id for block in kv.block_table(request.id)] for request in requests]
        meta = build_metadata(requests, plan, tables, self.config.block_size, self.device)
        if self.device.type == "cpu":  # reading values back would stall a GPU; here it is microseconds
            check_values(meta, self.config.num_blocks)
        sampling = [index for index, request in enumerate(requests) if samples(request)]
        ids, positions, ends = _inputs(requests, plan, sampling, self.device)
        self.lens.begin(requests, plan)
        for wave in copy_waves(plan.copies):
            copy_blocks(self.cache.pool, wave)
        logits = self._forward(ids, positions, meta, ends)
        self._logits = {requests[index].id: row for index, row in zip(sampling, logits, strict=True)}
        seen = [*top_candidates(logits, TOP_CANDIDATES), *self.lens.pending]
        tokens, scripted, (ids, shares, *pending) = self._sample([requests[index] for index in sampling], logits, seen)
        self.lens.settle(pending)
        top = dict(zip(sampling, self._candidates(ids, shares), strict=True))
        return RunnerOutput(tokens, scripted, self._record(requests, plan, tables, top), self._texts(requests, tokens))

    def _forward(
        self, ids: torch.Tensor, positions: torch.Tensor, meta: AttentionMetadata, ends: torch.Tensor
    ) -> torch.Tensor:
        if self.graphs is not None:
            return self.graphs.forward(ids, positions, meta, ends, self.lens)
        return self.loaded.model.forward(ids, positions, self.cache, meta, ends, observer=self.lens)

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
        if not draw:
            return RunnerOutput({}, text=self._texts(children, {}))
        tokens, scripted, _ = self._sample(children, self._logits[parent.id].expand(len(children), -1))
        return RunnerOutput(tokens, scripted, text=self._texts(children, tokens))

    def _sample(
        self, requests: Sequence[Request], logits: torch.Tensor, more: Sequence[torch.Tensor] = ()
    ) -> tuple[dict[str, int], frozenset[str], list[torch.Tensor]]:
        """Tokens, who has them from a script, and `more` on the host: all of it comes down in one transfer.

        Greedy tokens are chosen where the logits lie; a whole row comes down only for whom a token is drawn.
        """
        drawing = [request.spec.output is None and request.spec.sampling.temperature > 0 for request in requests]
        rows = [row for row, draws in zip(logits, drawing, strict=True) if draws]
        greedy, *down = download([likeliest(logits), *rows, *more])
        tokens, scripted, drawn = {}, set(), iter(down[: len(rows)])
        for request, token, draws in zip(requests, greedy.tolist(), drawing, strict=True):
            script, sampling = request.spec.output, request.spec.sampling
            if script is not None:
                token = script[request.num_output_tokens]
                scripted.add(request.id)
            elif draws:
                token = sample(next(drawn), sampling, self.config.seed, request.num_tokens)
            tokens[request.id] = token
        return tokens, frozenset(scripted), down[len(rows) :]

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
        top: Mapping[int, tuple[NextToken, ...]],
    ) -> KernelRecord:
        spec = self.loaded.spec
        starts = _starts(requests, plan)
        rows = tuple(
            KernelRow(
                request=request.id,
                query_start=starts[index],
                query_len=plan.tokens[request.id],
                context_len=request.num_computed_tokens,
                block_table=tuple(tables[index]),
                slot_mapping=tuple(_slots(request, plan, tables[index], self.config.block_size)),
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

    def _candidates(self, ids: torch.Tensor, shares: torch.Tensor) -> list[tuple[NextToken, ...]]:
        """ids, shares [R, count], on the host."""
        text = self.loaded.tokenizer.token_text
        return [
            tuple(NextToken(token, text(token), share) for token, share in zip(*row, strict=True))
            for row in zip(ids.tolist(), shares.tolist(), strict=True)
        ]


def build_metadata(
    requests: Sequence[Request],
    plan: Plan,
    tables: Sequence[Sequence[int]],
    block_size: int,
    device: torch.device | str = "cpu",
) -> AttentionMetadata:
    """Query ranges, context lengths, block tables and slots of one step, all requests in batch order."""
    return pack_rows(
        starts=_starts(requests, plan),
        contexts=[request.num_computed_tokens for request in requests],
        tables=tables,
        slots=[
            slot
            for request, table in zip(requests, tables, strict=True)
            for slot in _slots(request, plan, table, block_size)
        ],
        semantics=[_semantics(request, plan) for request in requests],
        block_size=block_size,
        device=device,
    )


def _starts(requests: Sequence[Request], plan: Plan) -> list[int]:
    """Where each row begins in the batch, and where the last ends."""
    return [0, *accumulate(plan.tokens[request.id] for request in requests)]


def _slots(request: Request, plan: Plan, table: Sequence[int], block_size: int) -> list[int]:
    """The physical slot of each of the request's tokens in this step."""
    positions = range(plan.starts[request.id], request.num_computed_tokens)
    return [table[position // block_size] * block_size + position % block_size for position in positions]


def _semantics(request: Request, plan: Plan) -> Semantics:
    """One token after the prompt is decode; a recomputed tail of several is prefill again."""
    decode = plan.tokens[request.id] == 1 and plan.starts[request.id] >= request.num_prompt_tokens
    return Semantics.DECODE if decode else Semantics.PREFILL


def fit_to_model(config: EngineConfig, spec: LlamaSpec) -> EngineConfig:
    """The configuration with sequences no longer than the model has positions for."""
    if config.model_len <= spec.max_positions:
        return config
    return config.with_changes({"max_model_len": spec.max_positions})


def _inputs(
    requests: Sequence[Request], plan: Plan, sampling: Sequence[int], device: torch.device | str
) -> list[torch.Tensor]:
    """Token ids, positions, and the last rows of those who sample, all int64."""
    ids: list[int] = []
    positions: list[int] = []
    for request in requests:
        start, end = plan.starts[request.id], request.num_computed_tokens
        ids.extend(request.token_ids[start:end])
        positions.extend(range(start, end))
    starts = _starts(requests, plan)
    return upload([ids, positions, [starts[index + 1] - 1 for index in sampling]], torch.int64, device)

"""One step's attention launches, layer by layer, for whoever looks inside: the step computed again, and kept.

A step leaves the KV it read where it was until the next one begins. Its forward pass can therefore run once more over
the same rows: it writes the same numbers to the same slots, and an observer keeps each layer's queries and outputs.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

from engine.errors import UserError
from engine.kv_dtype import layout_of
from engine.model.llama import KVCache, LlamaModel
from engine.model_runner import ModelRunner
from engine.request import Request
from engine.timeline import KernelRecord, Step
from kernels.layout import MAX_BLOCK_SIZE, KVLayer
from kernels.metadata import AttentionMetadata, ScoreRule, Semantics, one_sequence, pack_rows

_NO_ROWS = torch.empty(0, dtype=torch.int64)  # whose logits are wanted: nobody's


@dataclass(frozen=True, slots=True)
class Capture:
    """The launches of step `step` over `requests`, in batch order.

    queries, outputs: per layer [T, Hq, D]; layers: the paged cache as the launches read it; tokens: per request the ids
    of its whole context, those of this step included.
    """

    step: int
    requests: tuple[str, ...]
    meta: AttentionMetadata
    rule: ScoreRule
    queries: tuple[Tensor, ...]
    outputs: tuple[Tensor, ...]
    layers: tuple[KVLayer, ...]
    tokens: tuple[tuple[int, ...], ...]

    def rows(self, row: int) -> slice:
        """The batch's tokens that are request number `row`'s."""
        starts = self.meta.query_start_loc
        return slice(int(starts[row]), int(starts[row + 1]))


@dataclass(frozen=True, slots=True)
class DenseKV:
    """K and V of one sequence computed alone, as they came out of each layer: [context, Hkv, D], keys rotated."""

    keys: tuple[Tensor, ...]
    values: tuple[Tensor, ...]


class _EveryLayer:
    """An observer that keeps what it sees: (query, key, value, output) of each layer in turn."""

    layer = None

    def __init__(self) -> None:
        self.seen: list[tuple[Tensor, Tensor, Tensor, Tensor]] = []

    def __call__(self, query: Tensor, key: Tensor, value: Tensor, output: Tensor) -> None:
        self.seen.append((query.clone(), key.clone(), value.clone(), output.clone()))


def capture(runner: ModelRunner, requests: Mapping[str, Request], step: Step) -> Capture:
    """The launches of `step`, the last one that `runner` executed. Raises UserError where it launched nothing."""
    record = step.kernel
    if record is None:
        raise UserError("capture.nothing", step=step.index)
    model, device = runner.loaded.model, runner.device
    meta = _metadata(record, requests, runner.config.block_size, device)
    contexts = [tuple(requests[row.request].token_ids[: row.context_len]) for row in record.rows]
    ids: list[int] = []
    positions: list[int] = []
    for row, context in zip(record.rows, contexts, strict=True):
        ids += context[row.context_len - row.query_len :]
        positions += range(row.context_len - row.query_len, row.context_len)
    observer = _EveryLayer()
    model.forward(
        torch.tensor(ids, device=device), torch.tensor(positions, device=device), runner.cache, meta,
        _NO_ROWS.to(device), observer,
    )  # fmt: skip
    return Capture(
        step=step.index,
        requests=tuple(row.request for row in record.rows),
        meta=meta,
        rule=ScoreRule(runner.loaded.spec.scale),
        queries=tuple(seen[0] for seen in observer.seen),
        outputs=tuple(seen[3] for seen in observer.seen),
        layers=runner.cache.layers,
        tokens=tuple(contexts),
    )


def _metadata(
    record: KernelRecord, requests: Mapping[str, Request], block_size: int, device: torch.device
) -> AttentionMetadata:
    """What the step's launches were told, from its record."""
    rows = record.rows
    decodes = [row.query_len == 1 and row.context_len > requests[row.request].num_prompt_tokens for row in rows]
    return pack_rows(
        starts=[*(row.query_start for row in rows), rows[-1].query_start + rows[-1].query_len],
        contexts=[row.context_len for row in rows],
        tables=[row.block_table for row in rows],
        slots=[slot for row in rows for slot in row.slot_mapping],
        semantics=[Semantics.DECODE if decode else Semantics.PREFILL for decode in decodes],
        block_size=block_size,
        device=device,
    )


def dense_kv(model: LlamaModel, tokens: tuple[int, ...]) -> DenseKV:
    """K and V of `tokens` from one forward pass of that sequence alone, kept as the layers computed them."""
    blocks = -(-len(tokens) // MAX_BLOCK_SIZE)
    cache = KVCache(layout_of("auto", model.spec, blocks, MAX_BLOCK_SIZE, model.dtype), model.device)
    meta = one_sequence(0, len(tokens), MAX_BLOCK_SIZE, blocks, model.device)
    positions = torch.arange(len(tokens), device=model.device)
    observer = _EveryLayer()
    ids = torch.tensor(tokens, device=model.device)
    model.forward(ids, positions, cache, meta, _NO_ROWS.to(model.device), observer)
    return DenseKV(tuple(seen[1] for seen in observer.seen), tuple(seen[2] for seen in observer.seen))

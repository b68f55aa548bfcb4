"""What a KV dtype costs: every layer's attention over rounded K and V, beside the same attention over float32."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from engine.errors import UserError
from engine.kv_dtype import KV_DTYPES, bytes_per_token, layout_of
from engine.model.llama import KVCache
from engine.model.load import LoadedModel
from kernels import dispatch
from kernels.metadata import AttentionMetadata, ScoreRule, one_sequence

_BLOCK_SIZE = 16


@dataclass(frozen=True, slots=True)
class LayerError:
    """One layer under one KV dtype, measured against float32 KV with the same queries, keys and values.

    `max_abs`: largest |Δ| of the attention output. `relative`: length of Δ over length of the exact output, all numbers
    of the layer taken together. `query`, `head`: which of the queries looked at, and which query head, is farthest off.
    `kv_bytes_per_token`: K and V of one position over all layers, scales included.
    """

    layer: int
    kv_dtype: str
    max_abs: float
    relative: float
    query: int
    head: int
    kv_bytes_per_token: int


def kv_errors(
    loaded: LoadedModel,
    token_ids: Sequence[int],
    kv_dtypes: Sequence[str] = KV_DTYPES,
    queries: int | None = None,
) -> tuple[LayerError, ...]:
    """The error each of `kv_dtypes` causes in each layer's attention, layer by layer, dtypes in the order given.

    token_ids: a request's tokens up to and with the step of interest (prompt, then output so far), at most the model's
    positions. queries: how many of the last tokens count as queries: 1 is a decode step, the chunk's length a prefill
    chunk, None the whole text. The forward pass runs once, with float32 KV; each layer's K and V are then written into
    a cache of each dtype and attended from there by the kernels that serve this device. Errors are therefore each
    layer's own: they do not add up over the layers as they would in a run with that dtype. float32 gives exact zeros.

    Takes one prefill and, per dtype and layer, one write and one attention: about a second for SmolLM2 and 200 tokens.
    Raises UserError "kv_error.tokens" for no tokens or too many, "kv_error.queries" for a number of queries that is not
    between 1 and the tokens, "config.choice" for a dtype that is none of `KV_DTYPES`.
    """
    spec = loaded.spec
    if not 1 <= len(token_ids) <= spec.max_positions:
        raise UserError("kv_error.tokens", count=len(token_ids), most=spec.max_positions)
    count = len(token_ids) if queries is None else queries
    if not 1 <= count <= len(token_ids):
        raise UserError("kv_error.queries", count=count, most=len(token_ids))
    for name in kv_dtypes:
        if name not in KV_DTYPES:
            raise UserError("config.choice", field="kv_dtype", value=name, choices=", ".join(KV_DTYPES))
    blocks = -(-len(token_ids) // _BLOCK_SIZE)
    meta = one_sequence(0, len(token_ids), _BLOCK_SIZE, blocks, loaded.model.device)
    observer = _EveryLayer(loaded, meta, blocks, kv_dtypes, count)
    ids = torch.tensor(list(token_ids), device=loaded.model.device)
    positions = torch.arange(len(token_ids), device=loaded.model.device)
    cache = KVCache(layout_of("fp32", spec, blocks, _BLOCK_SIZE), loaded.model.device)
    loaded.model.forward(ids, positions, cache, meta, ids.new_empty(0), observer)
    return tuple(observer.found)


class _EveryLayer:
    """Attends each layer's queries again, over a cache of one layer a dtype, written anew each time."""

    layer = None

    def __init__(
        self, loaded: LoadedModel, meta: AttentionMetadata, blocks: int, kv_dtypes: Sequence[str], count: int
    ) -> None:
        self.found: list[LayerError] = []
        self._meta = meta
        self._rule = ScoreRule(loaded.spec.scale)
        self._count = count
        self._next = 0
        layouts = {name: layout_of(name, loaded.spec, blocks, _BLOCK_SIZE) for name in dict.fromkeys(kv_dtypes)}
        self._sizes = {name: bytes_per_token(layout) for name, layout in layouts.items()}
        self._layers = {
            name: replace(layout, num_layers=1).allocate(loaded.model.device).layer(0)
            for name, layout in layouts.items()
        }

    def __call__(self, query: Tensor, key: Tensor, value: Tensor, output: Tensor) -> None:
        exact = output[-self._count :].float()
        for name, layer in self._layers.items():
            dispatch.write_kv(key, value, layer, self._meta.slot_mapping)
            rounded = dispatch.paged_attention(query, layer, self._meta, self._rule)
            self._judge(name, exact, rounded[-self._count :].float())
        self._next += 1

    def _judge(self, name: str, exact: Tensor, rounded: Tensor) -> None:
        """exact, rounded [queries, Hq, D]."""
        off = (rounded - exact).abs()
        place = int(off.amax(-1).argmax())
        self.found.append(
            LayerError(
                layer=self._next,
                kv_dtype=name,
                max_abs=float(off.max()),
                relative=float(off.norm() / exact.norm()),
                query=place // off.shape[1],
                head=place % off.shape[1],
                kv_bytes_per_token=self._sizes[name],
            )
        )

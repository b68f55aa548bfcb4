"""Paged against dense, in every step: one layer's attention again over contiguous K and V kept beside the pool.

The shadow copy never reads the pool or a block table: it takes K and V as the layer computed them, and for a prefix
hit it copies the rows that some request computed for the same tokens. A wrong block, a stale row or a wrong table
therefore shows as a difference. A cache of a smaller dtype rounds what it is given; the shadow rounds its rows in the
same way, so that rounding itself is no difference, and what it costs is `engine.kv_error`'s to say.
"""

from __future__ import annotations

import hashlib
from collections import OrderedDict
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
import torch
from numpy.typing import NDArray

from engine.kv_dtype import rounding_reach
from engine.request import Request
from kernels.layout import CacheLayout
from kernels.reference import attention_mass, dense_attention, round_trip

if TYPE_CHECKING:
    from engine.scheduler import Plan

SHADOW_BLOCKS = 8192  # of ~25 KB each on SmolLM2; the oldest content is forgotten first

# Rows found in the cache and rows computed again were rounded in batches of other shapes (measured: ≤ 5e-5).
TOLERANCE_FP32 = 2e-4


class AttentionLens:
    """Observer of one layer: per request the dense difference and the attention mass over its blocks."""

    def __init__(self, layer: int, layout: CacheLayout, scale: float, tables_may_change: bool = False) -> None:
        """`tables_may_change`: a running request's blocks may be replaced by equal ones of another (radix cache)."""
        self.layer = layer
        self._tables_may_change = tables_may_change
        self._found: set[str] = set()  # requests with rows that may be another computation than their shadow's
        self.mass: dict[str, NDArray[np.float32]] = {}
        self.diff: dict[str, float | None] = {}
        self._block_size = layout.block_size
        self._layout = layout
        self._scale = scale
        self._largest_value = 0.0
        self._rows: list[tuple[Request, int, int]] = []
        self._pending: list[torch.Tensor] = []  # of the last launch, on its device: the largest value, then the two
        self._compared: list[str] = []  # of each of these requests, |Δ| and mass
        self._seen: dict[str, Request] = {}
        self._shadow: dict[str, tuple[torch.Tensor, torch.Tensor]] = {}
        self._content: OrderedDict[bytes, tuple[torch.Tensor, torch.Tensor]] = OrderedDict()
        self._chains: dict[str, list[bytes]] = {}

    @property
    def tolerance(self) -> float:
        """Of the last launch. The shadow of rows a request computed itself is what the cache holds, to the bit.

        Rows it found in the cache may be of another computation than the shadow's: these differ by what floats leave
        open, and may be rounded the other way. An output is a mean of V rows, so a number of V that was moves it by one
        spacing at most, taken at the largest V so far. In float32 this adds nothing to speak of.
        """
        if not self._tables_may_change and not any(request.id in self._found for request, _, _ in self._rows):
            return TOLERANCE_FP32
        return TOLERANCE_FP32 + rounding_reach(self._layout.dtype, self._largest_value)

    def begin(self, requests: Sequence[Request], plan: Plan) -> None:
        """Announces the rows of the coming launch; forgets requests that are over."""
        self._rows = [(request, plan.starts[request.id], plan.tokens[request.id]) for request in requests]
        self.mass, self.diff = {}, {}
        self._pending, self._compared = [], []
        self._seen.update({request.id: request for request in requests})
        for request_id in [name for name, request in self._seen.items() if request.status.is_over]:
            for store in (self._seen, self._shadow, self._chains):
                store.pop(request_id, None)
            self._found.discard(request_id)

    def fork(self, parent: Request, child: Request) -> None:
        """The child's shadow starts with its parent's rows; they are never changed in place, so both may hold them."""
        shadow = self._shadow.get(parent.id)
        if shadow is None:
            return
        self._seen[child.id] = child
        if parent.id in self._found:
            self._found.add(child.id)
        self._shadow[child.id] = shadow
        self._chains[child.id] = list(self._chains.get(parent.id, []))

    def __call__(self, query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, output: torch.Tensor) -> None:
        """query, output [T, Hq, D]; key, value [T, Hkv, D], key after rotary embedding.

        Nothing here waits for the device: the results are `pending` until `settle` is given them on the host.
        """
        self._pending.append(value.abs().max())
        key, value = (round_trip(rows, self._layout) for rows in (key, value))
        first = 0
        for request, start, length in self._rows:
            rows = slice(first, first + length)
            first += length
            self._keep(request, start, key[rows], value[rows])
            self._compare(request, query[rows], output[rows])

    @property
    def pending(self) -> Sequence[torch.Tensor]:
        """What the last launch left on its device; `settle` takes the same on the host."""
        return self._pending

    def settle(self, results: Sequence[torch.Tensor]) -> None:
        """`mass` and `diff` of the last launch become readable. `results`: `pending`, on the host, in its order."""
        if not results:
            return
        self._largest_value = max(self._largest_value, float(results[0]))
        for request_id, diff, mass in zip(self._compared, results[1::2], results[2::2], strict=True):
            self.diff[request_id] = float(diff)
            self.mass[request_id] = mass.numpy()

    def _compare(self, request: Request, query: torch.Tensor, output: torch.Tensor) -> None:
        shadow = self._shadow.get(request.id)
        if shadow is None:
            self.diff[request.id] = None
            self.mass[request.id] = np.zeros((query.shape[1], 0), dtype=np.float32)
            return
        dense = dense_attention(query, shadow[0], shadow[1], self._scale)
        mass = attention_mass(query[-1], shadow[0], self._scale, self._block_size)
        self._pending += [(dense - output).abs().max(), mass]
        self._compared.append(request.id)

    def _keep(self, request: Request, start: int, key: torch.Tensor, value: torch.Tensor) -> None:
        """Extends the request's shadow by this launch's rows; without rows 0..start-1 there is none."""
        before = self._rows_before(request, start)
        if before is None:
            self._shadow.pop(request.id, None)
            return
        shadow = (torch.cat([*before[0], key]), torch.cat([*before[1], value]))
        self._shadow[request.id] = shadow
        self._remember(request, shadow)

    def _rows_before(self, request: Request, start: int) -> tuple[list[torch.Tensor], list[torch.Tensor]] | None:
        """Pieces of K and of V that make rows 0..start-1."""
        shadow = self._shadow.get(request.id)
        if start > 0 and (shadow is None or shadow[0].shape[0] != start):
            self._found.add(request.id)
        elif start == 0:
            self._found.discard(request.id)
        if shadow is not None and shadow[0].shape[0] >= start:
            return [shadow[0][:start]], [shadow[1][:start]]
        digests = self._chain(request, start)
        blocks = [self._content.get(digest) for digest in digests]
        keys = [block[0] for block in blocks if block is not None]
        values = [block[1] for block in blocks if block is not None]
        if len(keys) < len(blocks) or len(blocks) * self._block_size != start:
            return None
        return keys, values

    def _remember(self, request: Request, shadow: tuple[torch.Tensor, torch.Tensor]) -> None:
        size = self._block_size
        for index, digest in enumerate(self._chain(request, shadow[0].shape[0])):
            if digest not in self._content:
                rows = slice(index * size, (index + 1) * size)
                self._content[digest] = (shadow[0][rows].clone(), shadow[1][rows].clone())
            else:
                self._content.move_to_end(digest)
        while len(self._content) > SHADOW_BLOCKS:
            self._content.popitem(last=False)

    def _chain(self, request: Request, tokens: int) -> list[bytes]:
        """Digests of the full blocks within `tokens`: a chain of its own, apart from the prefix cache's."""
        chain = self._chains.setdefault(request.id, [])
        size = self._block_size
        for index in range(len(chain), tokens // size):
            block = np.array(request.token_ids[index * size : (index + 1) * size], dtype=np.int64)
            parent = chain[-1] if chain else b""
            chain.append(hashlib.blake2b(parent + block.tobytes(), digest_size=16).digest())
        return chain[: tokens // size]

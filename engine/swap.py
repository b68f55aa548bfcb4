"""Swap to host memory: a victim's KV is copied out and back instead of being computed again.

Source: vLLM paper (SOSP 2023) §4.5 and vLLM V0's `BlockSpaceManager.swap_out` / `swap_in`; V1 has recompute only.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import Literal

from engine.kv_manager import NO_HIT, Hit, KVManager, Shortage
from engine.request import Request


@dataclass(frozen=True, slots=True)
class SwapJob:
    """KV to copy before the step's kernels run: `pairs` of (device block, host block) for `tokens` positions."""

    request: str
    direction: Literal["out", "in"]
    pairs: tuple[tuple[int, int], ...]
    tokens: int
    hit_blocks: int = 0


@dataclass(frozen=True, slots=True)
class SwapCost:
    """What a copy moved and how long it took, measured; `ms` is None where there was no KV to copy."""

    bytes: int
    ms: float | None


class SwapSpace:
    """The host pool: which host blocks are free, and which hold whose KV.

    A block that others share, or that is published, stays on the device with them: its copy goes to the host. On
    resume what the prefix cache still holds is shared again, and only the rest is copied back.
    """

    def __init__(self, num_blocks: int, block_size: int, kv: KVManager) -> None:
        self.num_blocks = num_blocks
        self._block_size = block_size
        self._kv = kv
        self._free = deque(range(num_blocks))
        self._held: dict[str, tuple[int, ...]] = {}

    @property
    def num_free(self) -> int:
        return len(self._free)

    def blocks(self, request_id: str) -> tuple[int, ...]:
        """Host blocks that hold the request's KV, in logical order; empty if it is not swapped out."""
        return self._held.get(request_id, ())

    def holds(self, request: Request) -> bool:
        return request.id in self._held

    def out(self, request: Request) -> SwapJob | Shortage:
        """Moves the request's computed positions to host blocks; its device blocks are free from here on."""
        need = -(-request.num_computed_tokens // self._block_size)
        if need > self.num_free:
            return Shortage(need, self.num_free)
        table = self._kv.block_table(request.id)[:need]
        host = tuple(self._free.popleft() for _ in range(need))
        self._held[request.id] = host
        pairs = tuple((block.id, slot) for block, slot in zip(table, host, strict=True))
        self._kv.free(request, "swapped")
        return SwapJob(request.id, "out", pairs, request.num_computed_tokens)

    def lookup(self, request: Request) -> Hit:
        """Leading full blocks of the swapped positions that the prefix cache still has: shared, not copied.

        Their tokens count as computed already, so the hit adds none.
        """
        full = request.num_computed_tokens // self._block_size
        hit = self._kv.lookup(request)
        return Hit(hit.blocks[:full], 0) if hit.blocks else NO_HIT

    def back(self, request: Request, hit_blocks: int) -> SwapJob:
        """The copies that fill the freshly allocated blocks behind the `hit_blocks`; the host blocks are free again."""
        host = self._held.pop(request.id)
        table = self._kv.block_table(request.id)
        pairs = tuple((table[index].id, host[index]) for index in range(hit_blocks, len(host)))
        self._free.extend(host)
        return SwapJob(request.id, "in", pairs, request.num_computed_tokens, hit_blocks)

    def drop(self, request: Request) -> None:
        """Forgets the KV of a request that was aborted while it was out."""
        self._free.extend(self._held.pop(request.id, ()))

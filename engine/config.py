"""The one place where an engine's settings live and are checked."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal, get_args

from engine.errors import UserError

Policy = Literal["fcfs", "priority"]

# Bounds keep a typed-in number from freezing a browser or filling the memory of a shared server.
_RANGES: dict[str, tuple[int, int]] = {
    "block_size": (1, 256),
    "num_blocks": (2, 1_000_000),
    "max_num_batched_tokens": (1, 1_000_000),
    "max_num_seqs": (1, 100_000),
    "long_prefill_token_threshold": (0, 1_000_000),
    "num_lookahead_tokens": (0, 1_000),
    "seed": (0, 2**63 - 1),
}


@dataclass(frozen=True, slots=True)
class EngineConfig:
    """Settings of one engine, named as in vLLM 0.33 (`SchedulerConfig`, `CacheConfig`).

    `num_blocks` counts the null block 0, as vLLM's logs do: `num_blocks - 1` blocks are usable.
    `max_num_batched_tokens` is the token budget of a step, `max_num_seqs` the sequence limit.
    `max_model_len` of None means "what the pool can hold".
    """

    block_size: int = 16
    num_blocks: int = 64
    max_num_batched_tokens: int = 256
    max_num_seqs: int = 8
    enable_chunked_prefill: bool = True
    long_prefill_token_threshold: int = 0
    policy: Policy = "fcfs"
    enable_prefix_caching: bool = True
    watermark: float = 0.0
    scheduler_reserve_full_isl: bool = True
    num_lookahead_tokens: int = 0
    max_model_len: int | None = None
    seed: int = 0

    def __post_init__(self) -> None:
        for name, (low, high) in _RANGES.items():
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
                raise UserError("config.range", field=name, value=value, low=low, high=high)
        for name in ("enable_chunked_prefill", "enable_prefix_caching", "scheduler_reserve_full_isl"):
            if not isinstance(getattr(self, name), bool):
                raise UserError("config.bool", field=name, value=getattr(self, name))
        if self.policy not in get_args(Policy):
            raise UserError("config.choice", field="policy", value=self.policy, choices=", ".join(get_args(Policy)))
        watermark = self.watermark
        if isinstance(watermark, bool) or not isinstance(watermark, (int, float)) or not 0.0 <= watermark < 1.0:
            raise UserError("config.range", field="watermark", value=self.watermark, low=0.0, high="<1")
        if self.max_num_batched_tokens < self.max_num_seqs:
            raise UserError("config.budget", budget=self.max_num_batched_tokens, seqs=self.max_num_seqs)
        length = self.max_model_len
        if length is not None and (isinstance(length, bool) or not isinstance(length, int) or length < 1):
            raise UserError("config.range", field="max_model_len", value=length, low=1, high=self.num_blocks)

    @property
    def usable_blocks(self) -> int:
        """Blocks that requests can own: all but the null block."""
        return self.num_blocks - 1

    @property
    def model_len(self) -> int:
        """Longest sequence in tokens, by default what the pool can hold plus one: the last token needs no KV.

        Without chunking a prompt must also fit one step's token budget.
        """
        length = self.max_model_len or self.usable_blocks * self.block_size + 1
        return length if self.enable_chunked_prefill else min(length, self.max_num_batched_tokens)

    @property
    def watermark_blocks(self) -> int:
        """Blocks kept free when a waiting request is admitted beside running ones (vLLM `KVCacheManager`)."""
        return int(self.watermark * self.num_blocks)

    def with_changes(self, changes: dict[str, object]) -> EngineConfig:
        """A copy with `changes` applied; an unknown field is refused by name."""
        known = self.__dataclass_fields__
        for name in changes:
            if name not in known:
                raise UserError("config.unknown", field=name, known=", ".join(known))
        return replace(self, **changes)  # type: ignore[arg-type]

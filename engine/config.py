"""The one place where an engine's settings live and are checked."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal, get_args

from engine.errors import UserError

Policy = Literal[
    "fcfs", "priority", "lpm", "dfs-weight", "hrrn", "shortest-prefill-first", "lof", "random"
]  # fmt: skip
Cache = Literal["hash", "radix"]
EvictionPolicy = Literal["lru", "lfu", "fifo", "mru", "filo", "slru", "priority", "tlru"]
Admission = Literal["vllm", "sglang"]
KVLayout = Literal["paged", "contiguous"]
ContiguousFit = Literal["first", "best"]
ContiguousReserve = Literal["max", "known"]
Batching = Literal["continuous", "static"]
Preemption = Literal["recompute", "swap", "delay"]
KVDtype = Literal["auto", "fp32", "fp16", "bf16", "fp8_e4m3", "int8"]
Victim = Literal["auto", "last_admitted", "least_progress", "most_blocks", "lowest_priority"]

CHOICES: dict[str, tuple[str, ...]] = {
    "policy": get_args(Policy),
    "kv_layout": get_args(KVLayout),
    "contiguous_fit": get_args(ContiguousFit),
    "contiguous_reserve": get_args(ContiguousReserve),
    "batching": get_args(Batching),
    "preemption": get_args(Preemption),
    "victim": get_args(Victim),
    "cache": get_args(Cache),
    "eviction_policy": get_args(EvictionPolicy),
    "admission": get_args(Admission),
    "kv_dtype": get_args(KVDtype),
}

# Bounds keep a typed-in number from freezing a browser or filling the memory of a shared server.
RANGES: dict[str, tuple[int, int]] = {
    "block_size": (1, 256),
    "num_blocks": (2, 1_000_000),
    "max_num_batched_tokens": (1, 1_000_000),
    "max_num_seqs": (1, 100_000),
    "long_prefill_token_threshold": (0, 1_000_000),
    "num_lookahead_tokens": (0, 1_000),
    "swap_blocks": (0, 1_000_000),
    "seed": (0, 2**63 - 1),
    "lpm_ageing": (0, 1_000_000),
    "in_batch_check": (-1, 1_000_000),
    "in_batch_deprioritize": (1, 1_000_000),
}


@dataclass(frozen=True, slots=True)
class EngineConfig:
    """Settings of one engine, named as in vLLM 0.33 (`SchedulerConfig`, `CacheConfig`).

    `num_blocks` counts the null block 0, as vLLM's logs do: `num_blocks - 1` blocks are usable.
    `max_num_batched_tokens` is the token budget of a step, `max_num_seqs` the sequence limit.
    `max_model_len` of None means "what the pool can hold".

    The rest chooses what vLLM's V1 does not offer, with its behaviour as the default. `kv_layout`, `contiguous_fit`,
    `contiguous_reserve`: paged blocks, or one run of neighbours per request, reserved for `max_model_len` positions or
    for prompt + max_tokens. `batching`: requests join at any step, or a batch at a time. `preemption`: how room is
    made; `swap` copies to a host pool of `swap_blocks`, `delay` admits only what can finish. `victim`: who gives way;
    `auto` is what vLLM does for `policy`.

    From SGLang 0.5.23: `cache` radix keeps prefixes in a tree whose pages are blocks, evicted by `eviction_policy`.
    `policy` also takes its orders; `lpm_ageing` lets a step of waiting count as that many matched tokens (0: lpm may
    starve). A request with at most `in_batch_check` cached tokens (-1: none is looked at) goes to the end of the queue
    if one before it shares `in_batch_deprioritize` tokens. `admission` sglang admits by an estimate of what running
    requests will still write, `schedule_conservativeness` times 0.7 of it at first, and retracts where it was wrong.

    `kv_dtype`: what the cache keeps K and V in; `auto` is the model's own. fp8_e4m3 and int8 have a scale per token and
    head. Part of what a cached block means: engines of two dtypes share no hash.
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
    kv_layout: KVLayout = "paged"
    contiguous_fit: ContiguousFit = "first"
    contiguous_reserve: ContiguousReserve = "max"
    batching: Batching = "continuous"
    preemption: Preemption = "recompute"
    victim: Victim = "auto"
    swap_blocks: int = 64
    cache: Cache = "hash"
    eviction_policy: EvictionPolicy = "lru"
    lpm_ageing: int = 0
    in_batch_check: int = 32
    in_batch_deprioritize: int = 32
    admission: Admission = "vllm"
    schedule_conservativeness: float = 1.0
    kv_dtype: KVDtype = "auto"

    def __post_init__(self) -> None:
        for name, (low, high) in RANGES.items():
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
                raise UserError("config.range", field=name, value=value, low=low, high=high)
        for name in ("enable_chunked_prefill", "enable_prefix_caching", "scheduler_reserve_full_isl"):
            if not isinstance(getattr(self, name), bool):
                raise UserError("config.bool", field=name, value=getattr(self, name))
        for name, choices in CHOICES.items():
            if getattr(self, name) not in choices:
                raise UserError("config.choice", field=name, value=getattr(self, name), choices=", ".join(choices))
        self._check_ways_to_make_room()
        self._check_what_needs_what()
        if not _is_number(self.watermark) or not 0.0 <= self.watermark < 1.0:
            raise UserError("config.range", field="watermark", value=self.watermark, low=0.0, high="<1")
        factor = self.schedule_conservativeness
        if not _is_number(factor) or not 0.0 < factor <= 10.0:
            raise UserError("config.range", field="schedule_conservativeness", value=factor, low=">0", high=10)
        if self.max_num_batched_tokens < self.max_num_seqs:
            raise UserError("config.budget", budget=self.max_num_batched_tokens, seqs=self.max_num_seqs)
        length = self.max_model_len
        if length is not None and (isinstance(length, bool) or not isinstance(length, int) or length < 1):
            raise UserError("config.range", field="max_model_len", value=length, low=1, high=self.num_blocks)

    def _check_ways_to_make_room(self) -> None:
        """An engine that never preempts has no use for a way to do it; saying so beats ignoring the setting."""
        if self.preemption == "swap" and not self.swap_blocks:
            raise UserError("config.swap_pool", value=self.swap_blocks)
        for name, never in (("kv_layout", "contiguous"), ("batching", "static")):
            if getattr(self, name) == never and self.preemption != "recompute":
                raise UserError("config.never_preempts", field=name, setting=never, value=self.preemption)

    def _check_what_needs_what(self) -> None:
        """Settings that cannot go together, each with what the first of them needs of the second."""
        for name, value, other, needed in _NEEDS:
            if getattr(self, name) == value and getattr(self, other) not in needed:
                have, choices = getattr(self, other), " / ".join(needed)
                raise UserError("config.needs", field=name, value=value, other=other, have=have, needed=choices)

    @property
    def kv_namespace(self) -> str:
        """What the root of every chain of block hashes binds; "" is vLLM's own root."""
        return "" if self.kv_dtype == "auto" else f"kv_dtype={self.kv_dtype}"

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


# (setting, value, other setting, what that may be)
_NEEDS = (
    ("cache", "radix", "kv_layout", ("paged",)),
    ("cache", "radix", "preemption", ("recompute", "delay")),
    ("policy", "dfs-weight", "cache", ("radix",)),
    ("admission", "sglang", "kv_layout", ("paged",)),
    ("admission", "sglang", "batching", ("continuous",)),
    ("admission", "sglang", "preemption", ("recompute",)),
)


def _is_number(value: object) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)

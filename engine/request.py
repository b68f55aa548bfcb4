"""A request: its tokens, how many of them are computed, and its place in life."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from engine.errors import UserError
from engine.prefix_hash import BlockKey

MAX_TOKENS_LIMIT = 1_000_000


class RequestStatus(Enum):
    """Places in life; the values are vLLM's names, FINISHED and ABORTED being its two kinds of end."""

    WAITING = "WAITING"
    RUNNING = "RUNNING"
    PREEMPTED = "PREEMPTED"
    FINISHED = "FINISHED"
    ABORTED = "ABORTED"

    @property
    def is_over(self) -> bool:
        return self in (RequestStatus.FINISHED, RequestStatus.ABORTED)


@dataclass(frozen=True, slots=True)
class SamplingParams:
    """How the next token is drawn: greedy at temperature 0, otherwise seeded top-p sampling."""

    temperature: float = 0.0
    top_p: float = 1.0
    seed: int | None = None
    stop_token_ids: frozenset[int] = frozenset()

    def __post_init__(self) -> None:
        if not 0.0 <= self.temperature <= 10.0:
            raise UserError("config.range", field="temperature", value=self.temperature, low=0.0, high=10.0)
        if not 0.0 < self.top_p <= 1.0:
            raise UserError("config.range", field="top_p", value=self.top_p, low=">0", high=1.0)


@dataclass(frozen=True, slots=True)
class RequestSpec:
    """What a user asks for. `output`, if given, scripts the sampled tokens (the model still runs).

    `n` answers are drawn after one prefill: the others fork off at the first token (`Engine.fork_at_next_token`).
    """

    id: str
    prompt: tuple[int, ...]
    max_tokens: int
    arrival_step: int = 0
    priority: int = 0
    sampling: SamplingParams = SamplingParams()
    output: tuple[int, ...] | None = None
    adapter: str | None = None
    salt: str | None = None
    abort_step: int | None = None
    n: int = 1

    def __post_init__(self) -> None:
        if not self.id:
            raise UserError("request.no_id")
        if not self.prompt:
            raise UserError("request.empty_prompt", id=self.id)
        if any(token < 0 for token in self.prompt):
            raise UserError("request.negative_token", id=self.id)
        if not 1 <= self.max_tokens <= MAX_TOKENS_LIMIT:
            raise UserError("request.max_tokens", id=self.id, value=self.max_tokens, limit=MAX_TOKENS_LIMIT)
        if self.n < 1:
            raise UserError("config.range", field="n", value=self.n, low=1, high="max_num_seqs")
        if self.arrival_step < 0:
            raise UserError("request.negative_arrival", id=self.id, value=self.arrival_step)
        if self.output is not None and len(self.output) < self.max_tokens:
            raise UserError("request.short_script", id=self.id, have=len(self.output), need=self.max_tokens)

    @property
    def positions(self) -> int:
        """Positions that get KV if all output is produced: the last sampled token's is never computed."""
        return len(self.prompt) + self.max_tokens - 1


class Request:
    """A live request. Only the scheduler and the engine's commit change it."""

    __slots__ = (
        "arrival", "block_keys", "finish_reason", "high_water", "id", "num_cached_tokens", "num_computed_tokens",
        "num_preemptions", "num_prompt_tokens", "spec", "status", "token_ids",
    )  # fmt: skip

    def __init__(self, spec: RequestSpec, arrival: int) -> None:
        self.spec = spec
        self.id = spec.id
        self.arrival = arrival  # order of arrival over the whole run; breaks ties between equal priorities
        self.status = RequestStatus.WAITING
        self.token_ids: list[int] = list(spec.prompt)
        self.num_prompt_tokens = len(spec.prompt)
        self.num_computed_tokens = 0  # positions whose KV is (or, within a step, is about to be) in the pool
        self.num_cached_tokens = 0  # of these, found in the prefix cache at the last admission
        self.num_preemptions = 0
        self.high_water = 0  # positions computed at least once; work below it is recompute
        self.finish_reason: str | None = None
        self.block_keys: list[BlockKey] = []

    @property
    def num_tokens(self) -> int:
        """Known tokens: prompt plus everything sampled so far."""
        return len(self.token_ids)

    @property
    def num_output_tokens(self) -> int:
        return len(self.token_ids) - self.num_prompt_tokens

    @property
    def output_token_ids(self) -> list[int]:
        return self.token_ids[self.num_prompt_tokens :]

"""An immutable picture of the engine; what figures draw and what laws are checked on."""

from __future__ import annotations

from dataclasses import dataclass

from engine.events import WaitReason, WorkKind
from engine.request import RequestStatus


@dataclass(frozen=True, slots=True)
class RequestView:
    """One request at one moment. `scheduled` and `work` are this step's share; positions are 0-based."""

    id: str
    status: RequestStatus
    prompt_tokens: int
    known_tokens: int
    computed_tokens: int
    output_tokens: int
    max_tokens: int
    priority: int
    preemptions: int
    cached_tokens: int
    block_table: tuple[int, ...]
    scheduled: int = 0
    work: WorkKind | None = None
    wait_reason: WaitReason | None = None
    finish_reason: str | None = None


@dataclass(frozen=True, slots=True)
class PoolView:
    """The block pool, indexed by physical block id; block 0 is the null block.

    `fill[b]`: slots with valid KV (a cached block keeps its content, so it stays full at ref count 0).
    `hashes[b]`: short hash under which the block is published, or None. `free_queue`: ids, head first.
    """

    block_size: int
    ref_count: tuple[int, ...]
    fill: tuple[int, ...]
    hashes: tuple[str | None, ...]
    free_queue: tuple[int, ...]

    @property
    def num_blocks(self) -> int:
        """All blocks, the null block included."""
        return len(self.ref_count)

    @property
    def owned(self) -> int:
        """Blocks with at least one owner."""
        return self.num_blocks - 1 - len(self.free_queue)

    @property
    def free_cached(self) -> int:
        """Free blocks whose content can still be hit."""
        return sum(1 for block in self.free_queue if self.hashes[block] is not None)

    @property
    def free_empty(self) -> int:
        return len(self.free_queue) - self.free_cached


@dataclass(frozen=True, slots=True)
class Budget:
    """One of the three limits of a step: `used` of `limit`."""

    used: int
    limit: int


@dataclass(frozen=True, slots=True)
class Budgets:
    """Token budget (scheduled tokens), block budget (owned blocks while the step runs), sequence limit (running).

    `binding` names the limit that kept a request from running in this step, or None.
    """

    tokens: Budget
    blocks: Budget
    sequences: Budget
    binding: str | None = None


@dataclass(frozen=True, slots=True)
class Snapshot:
    """The engine after scheduling (`Step.scheduled`) or after the commit (`Step.snapshot`) of step `step`.

    `requests` holds every request ever admitted to intake, in order of arrival, also those that are over.
    """

    step: int
    requests: tuple[RequestView, ...]
    running: tuple[str, ...]
    waiting: tuple[str, ...]
    pool: PoolView
    budgets: Budgets

    def request(self, request_id: str) -> RequestView:
        return next(view for view in self.requests if view.id == request_id)

    def owners(self) -> dict[int, tuple[str, ...]]:
        """Physical block → ids of the requests whose block tables list it."""
        owners: dict[int, list[str]] = {}
        for view in self.requests:
            for block in view.block_table:
                owners.setdefault(block, []).append(view.id)
        return {block: tuple(ids) for block, ids in owners.items()}

"""Typed events: every change of state, in order, each with its cause. Pages turn them into sentences."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any, ClassVar, Literal, TypeVar, dataclass_transform

T = TypeVar("T")

WorkKind = Literal["prefill", "recompute", "decode"]
Limit = Literal[
    "tokens", "blocks", "sequences", "preemption", "head_of_line", "hole", "reserved", "delayed", "batch", "estimate"
]  # fmt: skip


@dataclass(frozen=True, slots=True)
class WaitReason:
    """Why a waiting request did not run in this step.

    tokens: `need` scheduled tokens, `have` left in the token budget (chunking off, or nothing left).
    blocks: `need` free blocks (incl. hits lying in the free queue and the watermark), `have` in the free queue.
    sequences: `have` running of `need` allowed. preemption: this step preempted, so nobody is admitted.
    head_of_line: the request `behind` in front of it could not be admitted.
    hole: contiguous; `need` neighbouring blocks, `have` in the largest hole (there are enough free ones in all).
    reserved: `need` blocks to its very end, `have` free and not promised to running requests.
    delayed: running, but `need` blocks are missing and `have` are free; it keeps what it has.
    batch: static batching; `have` of the `need` requests of the present batch have not ended.
    estimate: SGLang's; `need` tokens, which must be fewer than the `have` free and not expected to be written.
    """

    limit: Limit
    need: int = 0
    have: int = 0
    behind: str | None = None


@dataclass_transform(frozen_default=True)
def event(cls: type[T]) -> type[T]:
    """A frozen dataclass with slots that takes a third less time to make: a step may log hundreds.

    Its `__init__` calls the slots' own setters, where a frozen dataclass has each looked up by name. No field may have
    a default: an event says all it knows.
    """
    made = dataclass(frozen=True, slots=True)(cls)
    names = [each.name for each in fields(made)]  # type: ignore[arg-type]
    assert not made.__init__.__defaults__, f"{cls.__name__} has a field with a default"
    scope: dict[str, Any] = {f"set_{name}": getattr(made, name).__set__ for name in names}
    lines = [f"def __init__(self, {', '.join(names)}):", *(f"    set_{name}(self, {name})" for name in names)]
    exec("\n".join(lines), scope)
    made.__init__ = scope["__init__"]  # type: ignore[method-assign]
    return made


@dataclass(frozen=True, slots=True)
class Event:
    """Base of all events; `kind` names it in the message catalogue."""

    kind: ClassVar[str] = "event"


@event
class RequestArrived(Event):
    kind: ClassVar[str] = "arrived"
    request: str
    prompt_tokens: int
    max_tokens: int


@event
class RequestAborted(Event):
    kind: ClassVar[str] = "aborted"
    request: str


@event
class PrefixLookup(Event):
    """The cache was asked for the longest prefix; `limit` caps a hit so that one token is left to compute."""

    kind: ClassVar[str] = "lookup"
    request: str
    tokens: int
    hit_tokens: int
    limit: int
    blocks: tuple[int, ...]
    resumed: bool


@event
class BlockTouched(Event):
    """A cached block got one more owner; `revived` if it lay in the free queue with ref count 0."""

    kind: ClassVar[str] = "touched"
    block: int
    request: str
    ref_count: int
    revived: bool


@event
class HashEvicted(Event):
    """A free but cached block was handed out again, so its cached content is forgotten."""

    kind: ClassVar[str] = "hash_evicted"
    block: int
    hash: str
    request: str


@event
class BlockAllocated(Event):
    """Taken from the head of the free queue and appended to the request's block table at `position`."""

    kind: ClassVar[str] = "allocated"
    block: int
    request: str
    position: int


@event
class BlockPublished(Event):
    """A block became findable under its hash (when the step that fills it is scheduled)."""

    kind: ClassVar[str] = "published"
    block: int
    hash: str
    request: str
    duplicate: bool


@event
class BlockFreed(Event):
    """One owner less. At ref count 0 it joins the free queue: unpublished at the head, published at the tail."""

    kind: ClassVar[str] = "freed"
    block: int
    request: str
    ref_count: int
    to: Literal["head", "tail"] | None
    cause: Literal["finished", "aborted", "preempted", "swapped"]


@event
class Forked(Event):
    """`request` came to be as a copy of `parent`: `blocks` got one owner more each, `tokens` positions are shared."""

    kind: ClassVar[str] = "forked"
    parent: str
    request: str
    blocks: tuple[int, ...]
    tokens: int


@event
class BlockCopied(Event):
    """Copy-on-write: `request` is about to write into the part-filled `source`, which `owners` requests share.

    It gave up its share of `source` for `target`, which holds the same `filled` positions before the kernels write.
    """

    kind: ClassVar[str] = "copied"
    source: int
    target: int
    request: str
    cause: Literal["shared_tail"]
    filled: int
    owners: int


@event
class Admitted(Event):
    kind: ClassVar[str] = "admitted"
    request: str
    hit_tokens: int
    resumed: bool


@event
class Scheduled(Event):
    """`tokens` positions start..start+tokens-1 will be computed for the request in this step."""

    kind: ClassVar[str] = "scheduled"
    request: str
    tokens: int
    start: int
    work: WorkKind


@event
class Waited(Event):
    kind: ClassVar[str] = "waited"
    request: str
    reason: WaitReason


@event
class Preempted(Event):
    """`request` lost its blocks because `beneficiary` needed `need` free blocks and only `have` were left."""

    kind: ClassVar[str] = "preempted"
    request: str
    beneficiary: str
    need: int
    have: int
    lost_tokens: int


@event
class PublicationWithdrawn(Event):
    """A block published in this step will not be filled: the step's work on it was dropped with its request."""

    kind: ClassVar[str] = "withdrawn"
    block: int
    hash: str
    request: str


@event
class SwappedOut(Event):
    """A victim's KV was copied to host blocks. `bytes` 0 and `ms` None without a model: there is no KV to copy."""

    kind: ClassVar[str] = "swapped_out"
    request: str
    pairs: tuple[tuple[int, int], ...]  # (device block, host block)
    tokens: int
    bytes: int
    ms: float | None


@event
class SwappedIn(Event):
    """KV came back from host blocks; `hit_blocks` were still in the prefix cache and needed no copy."""

    kind: ClassVar[str] = "swapped_in"
    request: str
    pairs: tuple[tuple[int, int], ...]  # (device block, host block)
    tokens: int
    hit_blocks: int
    bytes: int
    ms: float | None


@event
class SwapRefused(Event):
    """The host pool could not take `need` blocks (`have` were free), so the victim recomputes instead."""

    kind: ClassVar[str] = "swap_refused"
    request: str
    need: int
    have: int


@event
class RunReserved(Event):
    """Contiguous layout: blocks first..first+length-1, reserved at admission in a hole of `hole` blocks."""

    kind: ClassVar[str] = "run_reserved"
    request: str
    first: int
    length: int
    hole: int
    fit: Literal["first", "best"]


@event
class RowsIdle(Event):
    """Static batching: `idle` of the batch's `rows` have ended and wait for the slowest."""

    kind: ClassVar[str] = "rows_idle"
    idle: int
    rows: int


@event
class TokenSampled(Event):
    kind: ClassVar[str] = "sampled"
    request: str
    token: int
    position: int
    scripted: bool


@event
class QueueSorted(Event):
    """The waiting queue was put into another order by `policy`: `requests`, the next to be admitted first."""

    kind: ClassVar[str] = "queue_sorted"
    policy: str
    requests: tuple[str, ...]


@event
class TwinDeferred(Event):
    """`request` has few `cached` tokens but shares `shared` with one before it in the queue, who is to compute them."""

    kind: ClassVar[str] = "twin_deferred"
    request: str
    shared: int
    cached: int


@event
class RatioRaised(Event):
    """Requests were retracted: those that stay are now expected to use `ratio` of their max_tokens."""

    kind: ClassVar[str] = "ratio_raised"
    ratio: float
    stay: tuple[str, ...]


@event
class RequestFinished(Event):
    kind: ClassVar[str] = "finished"
    request: str
    reason: Literal["length", "stop"]
    output_tokens: int

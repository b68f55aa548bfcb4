"""What an engine decided in a step, request by request: the part of its events in which two runs can differ."""

from __future__ import annotations

from dataclasses import dataclass, field

from engine.events import (
    Admitted,
    BlockAllocated,
    BlockTouched,
    Preempted,
    PrefixLookup,
    RequestFinished,
    RunReserved,
    Scheduled,
    SwappedOut,
    Waited,
    WaitReason,
)
from engine.timeline import Step

_RELEVANT = (
    Preempted, SwappedOut, Admitted, PrefixLookup, Scheduled, Waited, RunReserved, RequestFinished, BlockAllocated,
    BlockTouched,
)  # fmt: skip


@dataclass(slots=True)
class Account:
    """What one run did with one request in one step; None and 0 where it did nothing of the kind."""

    preempted: Preempted | None = None
    swapped: bool = False
    admitted: Admitted | None = None
    lookup: PrefixLookup | None = None
    scheduled: Scheduled | None = None
    waited: WaitReason | None = None
    run: RunReserved | None = None
    finished: RequestFinished | None = None
    blocks: tuple[int, ...] = ()


@dataclass(slots=True)
class Decisions:
    """What a step decided, by request and in order. A run that is over decides nothing (`step` None)."""

    step: Step | None
    accounts: dict[str, Account] = field(default_factory=dict)
    preempted: list[str] = field(default_factory=list)
    admitted: list[str] = field(default_factory=list)

    def of(self, request: str) -> Account:
        return self.accounts.get(request) or Account()


def decisions(step: Step | None) -> Decisions:
    """The decision-relevant events of a step. Blocks are those appended to a table, hits first."""
    result = Decisions(step)
    for event in step.events if step is not None else ():
        if not isinstance(event, _RELEVANT):
            continue
        account = result.accounts.setdefault(event.request, Account())
        match event:
            case Preempted():
                account.preempted = event
                result.preempted.append(event.request)
            case SwappedOut():
                account.swapped = True
            case Admitted():
                account.admitted = event
                result.admitted.append(event.request)
            case PrefixLookup():
                account.lookup = event
            case Scheduled():
                account.scheduled = event
            case Waited():
                account.waited = event.reason
            case RunReserved():
                account.run = event
            case RequestFinished():
                account.finished = event
            case BlockAllocated() | BlockTouched():
                account.blocks = (*account.blocks, event.block)
    return result

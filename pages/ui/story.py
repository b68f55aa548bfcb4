"""The life of one request, block or node of the radix tree: every event that touched it, step by step, oldest first."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from engine.events import (
    Admitted,
    BlockAllocated,
    BlockCopied,
    BlockFreed,
    BlockPublished,
    BlockTouched,
    Event,
    Forked,
    HashEvicted,
    Preempted,
    PublicationWithdrawn,
    RequestAborted,
    RequestArrived,
    RequestFinished,
    RunReserved,
    Scheduled,
    SwappedIn,
    SwappedOut,
    SwapRefused,
    Waited,
)
from engine.timeline import Step
from pages.figures.marks import Selection
from pages.ui import story_radix
from pages.ui.text import Lang, plural, t
from pages.ui.why import Tone, wait_text

_TONES: dict[type[Event], Tone] = {
    RequestArrived: "new",
    Admitted: "run",
    BlockAllocated: "new",
    BlockTouched: "hit",
    BlockPublished: "hit",
    BlockCopied: "hit",
    Forked: "new",
    HashEvicted: "evict",
    PublicationWithdrawn: "evict",
    BlockFreed: "done",
    Preempted: "preempt",
    SwappedOut: "preempt",
    SwapRefused: "preempt",
    Waited: "wait",
    RequestFinished: "done",
    RequestAborted: "done",
    **story_radix.TONES,
}


@dataclass(frozen=True, slots=True)
class Line:
    """What happened in the steps `first`..`last`; equal neighbours (decoding, waiting) are told once."""

    first: int
    last: int
    tone: Tone
    text: str


def story(steps: Sequence[Step], selection: Selection, lang: Lang) -> list[Line]:
    """The lines of `selection` over all of `steps`; empty if nothing has touched it."""
    tell = {"request": _request, "block": _block, "node": _node}[selection.kind]
    lines: list[Line] = []
    for step in steps:
        for event in _told(step.events):
            for text in tell(event, selection.id, lang):
                _append(lines, Line(step.index, step.index, _TONES.get(type(event), "run"), text))
    return lines


def _told(events: Sequence[Event]) -> Iterator[Event]:
    """All but the single blocks of a run that was reserved at once: they did not come from the queue's head."""
    runs = {event.request for event in events if isinstance(event, RunReserved)}
    return (event for event in events if not (isinstance(event, BlockAllocated) and event.request in runs))


def _append(lines: list[Line], line: Line) -> None:
    if lines and lines[-1].text == line.text:
        lines[-1] = Line(lines[-1].first, line.last, line.tone, line.text)
    else:
        lines.append(line)


def _request(event: Event, name: str | int, lang: Lang) -> Iterator[str]:
    """What an event means to the request it names; blocks are told in their own story."""
    match event:
        case Forked(parent=parent, request=child, tokens=tokens) if name in (parent, child):
            key = "story.forked_from" if name == child else "story.forked_to"
            yield t(key, lang, parent=parent, child=child, tokens=tokens)
        case Preempted(beneficiary=other, request=victim) if name == other and name != victim:
            yield t("story.preempts", lang, other=victim, need=event.need, have=event.have)
        case _ if getattr(event, "request", None) != name:
            return
        case RequestArrived():
            yield t("story.arrived", lang, prompt=event.prompt_tokens, max=event.max_tokens)
        case Admitted():
            yield t("story.resumed" if event.resumed else "story.admitted", lang, hit=event.hit_tokens)
        case Scheduled(work="decode"):
            yield t("story.decode", lang)
        case Scheduled():
            last = event.start + event.tokens - 1
            yield t(f"story.{event.work}", lang, first=event.start, last=last, tokens=event.tokens)
        case Waited():
            yield t("story.waited", lang, reason=wait_text(event.reason, lang))
        case Preempted():
            yield t("story.preempted", lang, other=event.beneficiary, need=event.need, lost=event.lost_tokens)
        case SwappedOut():
            yield t("story.swapped_out", lang, tokens=event.tokens, blocks=len(event.pairs))
        case SwappedIn():
            yield t("story.swapped_in", lang, tokens=event.tokens, blocks=len(event.pairs))
        case SwapRefused():
            yield t("story.swap_refused", lang, need=event.need, have=event.have)
        case BlockCopied():
            yield t("story.copies", lang, source=event.source, target=event.target)
        case RunReserved():
            yield t("story.reserved", lang, first=event.first, last=event.first + event.length - 1)
        case RequestFinished():
            yield plural("story.finished", event.output_tokens, lang)
        case RequestAborted():
            yield t("story.aborted", lang)
        case _:
            yield from story_radix.request_lines(event, lang)


def _node(event: Event, node: str | int, lang: Lang) -> Iterator[str]:
    return story_radix.node_lines(event, int(node), lang)


def _block(event: Event, block: str | int, lang: Lang) -> Iterator[str]:
    """What an event means to a physical block."""
    match event:
        case Forked() if block in event.blocks:
            yield t("story.block.forked", lang, parent=event.parent, child=event.request)
        case BlockCopied() if block == event.source:
            yield t("story.block.copied_from", lang, id=event.request, target=event.target)
        case BlockCopied() if block == event.target:
            yield t("story.block.copied_to", lang, id=event.request, source=event.source, filled=event.filled)
        case SwappedOut() | SwappedIn():
            hosts = [host for device, host in event.pairs if device == block]
            if hosts:
                key = "story.block.swapped_out" if isinstance(event, SwappedOut) else "story.block.swapped_in"
                yield t(key, lang, id=event.request, host=hosts[0])
        case RunReserved() if event.first <= int(block) < event.first + event.length:
            yield t("story.block.reserved", lang, id=event.request)
        case _ if getattr(event, "block", None) != block:
            yield from story_radix.block_lines(event, int(block), lang)
        case BlockAllocated():
            yield t("story.block.allocated", lang, id=event.request, position=event.position)
        case BlockTouched():
            key = "story.block.revived" if event.revived else "story.block.shared"
            yield t(key, lang, id=event.request, ref=event.ref_count)
        case BlockPublished():
            yield t("story.block.published", lang, id=event.request, hash=event.hash)
        case PublicationWithdrawn():
            yield t("story.block.withdrawn", lang, id=event.request)
        case HashEvicted():
            yield t("story.block.evicted", lang, id=event.request, hash=event.hash)
        case BlockFreed(to=None):
            yield t("story.block.left", lang, id=event.request, ref=event.ref_count)
        case BlockFreed():
            yield t(f"story.block.freed_{event.to}", lang, id=event.request, cause=t(f"cause.{event.cause}", lang))

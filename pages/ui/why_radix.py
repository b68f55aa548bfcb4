"""What a radix cache did in a step, in sentences, each with the function of SGLang that does the same."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeVar

from engine.events import Event, QueueSorted, RatioRaised, TwinDeferred
from engine.radix_events import (
    DuplicatesFreed,
    EvictionEnded,
    LockTaken,
    NodeEvicted,
    NodeInserted,
    NodeSplit,
    PrefixMatched,
    RowReleased,
)
from pages.ui.sentence import Sentence
from pages.ui.text import Lang, listing, numbered, t

E = TypeVar("E", bound=Event)


def _of(events: Iterable[Event], kind: type[E]) -> list[E]:
    return [event for event in events if isinstance(event, kind)]


def queue_sentences(events: tuple[Event, ...], lang: Lang) -> list[Sentence]:
    """The order of the waiting queue, and who was put last for a twin's sake."""
    found = []
    for sorted_ in _of(events, QueueSorted):
        names = listing(list(sorted_.requests), lang, 6)
        text = t("why.sorted", lang, policy=t(f"choice.{sorted_.policy}", lang), ids=names)
        found.append(Sentence("wait", text, "SchedulePolicy.calc_priority", sorted_.requests[0], weight=7))
    for twin in _of(events, TwinDeferred):
        text = t("why.twin", lang, id=twin.request, shared=twin.shared, cached=twin.cached)
        found.append(Sentence("wait", text, "SchedulePolicy._compute_prefix_matches", twin.request, weight=8))
    for raised in _of(events, RatioRaised):
        text = t("why.ratio", lang, ratio=f"{raised.ratio:.2f}", ids=listing(list(raised.stay), lang, 6))
        found.append(Sentence("preempt", text, "ScheduleBatch.retract_decode", weight=8))
    return found


def match_sentences(events: tuple[Event, ...], lang: Lang) -> list[Sentence]:
    """Matches of those who were then locked in, splits, evictions."""
    locked = {event.request for event in _of(events, LockTaken)}
    found = []
    for match in {event.request: event for event in _of(events, PrefixMatched)}.values():
        if match.request in locked and match.matched > match.usable:
            text = t("why.matched", lang, id=match.request, matched=match.matched, usable=match.usable)
            found.append(Sentence("hit", text, "RadixCache.match_prefix", match.request, weight=8))
    for split in _of(events, NodeSplit):
        text = t("why.split", lang, lower=split.lower, upper=split.upper, tokens=split.tokens, locks=split.lock_ref)
        found.append(Sentence("hit", text, "RadixCache._split_node", split.request, weight=8))
    for evicted in _of(events, NodeEvicted):
        values = {"node": evicted.node, "tokens": evicted.tokens, "pages": numbered(evicted.pages, lang)}
        text = t("why.node_evicted", lang, id=evicted.request or "?", **values)
        found.append(Sentence("evict", text, "RadixCache.evict", evicted.request, evicted.pages[0], weight=8))
    for ended in _of(events, EvictionEnded):
        values = {"asked": ended.asked, "evicted": ended.evicted, "comparisons": ended.comparisons}
        text = t("why.eviction_ended", lang, bound=f"{ended.bound:.0f}", leaves=ended.leaves, **values)
        found.append(Sentence("evict", text, "RadixCache.evict", ended.request, weight=4))
    return found


def store_sentences(events: tuple[Event, ...], lang: Lang) -> list[Sentence]:
    """What was stored when the step was computed, and who let go of what."""
    found = []
    for stored in _of(events, NodeInserted):
        values = {"node": stored.node, "tokens": stored.tokens, "pages": numbered(stored.pages, lang)}
        text = t("why.node_inserted", lang, id=stored.request or "?", **values)
        found.append(Sentence("hit", text, "RadixCache.insert", stored.request, stored.pages[0], weight=6))
    for twice in _of(events, DuplicatesFreed):
        text = t("why.duplicates_freed", lang, id=twice.request or "?", pages=numbered(twice.pages, lang))
        found.append(Sentence("hit", text, "RadixCache.checkpoint", twice.request, twice.pages[0], weight=9))
    for row in _of(events, RowReleased):
        values = {"stored": len(row.stored), "freed": len(row.freed)}
        text = t("why.row_released", lang, id=row.request, cause=t(f"cause.{row.cause}", lang), **values)
        found.append(Sentence("done", text, "release_kv_cache", row.request, weight=6))
    return found

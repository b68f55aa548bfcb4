"""The life of a request, block or node in a radix cache: what each of the tree's events meant to it."""

from __future__ import annotations

from collections.abc import Iterator

from engine.events import Event
from engine.radix_events import (
    DuplicatesFreed,
    LockReleased,
    LockTaken,
    NodeEvicted,
    NodeInserted,
    NodeSplit,
    PrefixMatched,
    RowReleased,
)
from pages.ui.sentence import Tone
from pages.ui.text import Lang, numbered, t

TONES: dict[type[Event], Tone] = {
    PrefixMatched: "hit",
    NodeInserted: "new",
    NodeSplit: "hit",
    NodeEvicted: "evict",
    DuplicatesFreed: "hit",
    RowReleased: "done",
    LockReleased: "done",
}


def request_lines(event: Event, lang: Lang) -> Iterator[str]:
    """Of an event that names the request."""
    match event:
        case PrefixMatched():
            yield t("story.matched", lang, matched=event.matched, usable=event.usable, tokens=event.tokens)
        case NodeInserted():
            yield t("story.stored", lang, node=event.node, tokens=event.tokens)
        case NodeEvicted():
            yield t("story.evicts", lang, node=event.node, tokens=event.tokens)
        case DuplicatesFreed():
            yield t("story.duplicates", lang, pages=numbered(event.pages, lang))
        case RowReleased():
            yield t("story.released", lang, stored=len(event.stored), freed=len(event.freed))


def block_lines(event: Event, block: int, lang: Lang) -> Iterator[str]:
    match event:
        case NodeInserted() if block in event.pages:
            yield t("story.block.stored", lang, node=event.node)
        case NodeEvicted() if block in event.pages:
            yield t("story.block.node_evicted", lang, node=event.node, id=_who(event.request, lang))
        case DuplicatesFreed() if block in event.pages:
            yield t("story.block.duplicate", lang, id=_who(event.request, lang))
        case RowReleased() if block in event.stored:
            yield t("story.block.stays", lang, id=event.request)
        case RowReleased() if block in event.freed:
            yield t("story.block.released", lang, id=event.request)


def node_lines(event: Event, node: int, lang: Lang) -> Iterator[str]:
    match event:
        case PrefixMatched() if node == event.node:
            yield t("story.node.matched", lang, id=_who(event.request, lang), usable=event.usable)
        case NodeInserted() if node == event.node:
            pages = numbered(event.pages, lang)
            yield t("story.node.inserted", lang, id=_who(event.request, lang), tokens=event.tokens, pages=pages)
        case NodeInserted() if node == event.parent:
            yield t("story.node.child", lang, node=event.node)
        case NodeSplit() if node == event.upper:
            yield t("story.node.upper", lang, lower=event.lower, tokens=event.tokens, locks=event.lock_ref)
        case NodeSplit() if node == event.lower:
            yield t("story.node.lower", lang, upper=event.upper, tokens=event.tokens)
        case LockTaken() if node in event.path:
            yield t("story.node.locked", lang, id=_who(event.request, lang))
        case LockReleased() if node in event.path:
            yield t("story.node.unlocked", lang, id=_who(event.request, lang))
        case NodeEvicted() if node == event.node:
            yield t("story.node.evicted", lang, id=_who(event.request, lang), pages=numbered(event.pages, lang))
        case NodeEvicted() if node == event.parent:
            yield t("story.node.child_gone", lang, node=event.node)


def _who(request: str | None, lang: Lang) -> str:
    return request or t("hover.nobody", lang)

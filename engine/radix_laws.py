"""Law 8 of DESIGN.md, on a picture of a radix tree: each check yields the node or page that breaks it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator

from engine.events import Event
from engine.radix_events import NodeEvicted
from engine.radix_view import RadixView


def faults(view: RadixView, events: Iterable[Event] = (), held: Iterable[int] = ()) -> Iterator[str]:
    """Everything that is wrong with `view`. `held`: pages of running requests that the tree does not own.

    `events`: what happened since the picture before.
    """
    yield from locks_cover_children(view)
    yield from sizes_add_up(view)
    yield from every_page_once(view, held)
    yield from leaves_are_evictable(view)
    yield from edges_are_whole_pages(view)
    yield from siblings_differ(view)
    yield from only_unlocked_leaves_left(events)


def locks_cover_children(view: RadixView) -> Iterator[str]:
    """A child has no more locks than its parent: whoever holds a prefix holds all that comes before it."""
    for node in view:
        if node.lock_ref < 0:
            yield f"node {node.id}"
        for child in node.children:
            if node is not view.root and child.lock_ref > node.lock_ref:
                yield f"node {child.id}"


def sizes_add_up(view: RadixView) -> Iterator[str]:
    """Evictable and protected tokens are those of the unlocked and of the locked nodes, together the whole tree."""
    unlocked = sum(node.units for node in view if not node.lock_ref)
    locked = sum(node.units for node in view if node.lock_ref)
    if view.evictable != unlocked:
        yield f"{view.evictable} evictable tokens of {unlocked}"
    if view.protected != locked:
        yield f"{view.protected} protected tokens of {locked}"


def every_page_once(view: RadixView, held: Iterable[int]) -> Iterator[str]:
    """free + evictable + protected + held = pool: each page is in exactly one place; page 0 in none."""
    places = Counter(view.free_pages.tolist())
    places.update(page for node in view for page in node.pages.tolist())
    places.update(held)
    for page in range(1, view.num_pages + 1):
        if places.pop(page, 0) != 1:
            yield f"page {page}"
    yield from (f"page {page}" for page in places)


def leaves_are_evictable(view: RadixView) -> Iterator[str]:
    """Evictable is exactly what has no child and no lock; the root never."""
    for node in view:
        if node.evictable != (node is not view.root and not node.children and not node.lock_ref):
            yield f"node {node.id}"


def edges_are_whole_pages(view: RadixView) -> Iterator[str]:
    """An edge begins where its parent's ends and is one or more whole pages, each with its page of KV."""
    for node in view:
        for child in node.children:
            whole = child.units > 0 and child.units % view.page_size == 0
            if not whole or child.start != node.end or len(child.pages) * view.page_size != child.units:
                yield f"node {child.id}"


def siblings_differ(view: RadixView) -> Iterator[str]:
    """No two children of a node begin with the same page of one namespace, else one of them could never be found."""
    for node in view:
        seen = set()
        for child in node.children:
            page = child.tokens[: view.page_size + len(child.tokens) - child.units]  # a bigram needs one token more
            first = (child.extra_key, child.cache_salt, page)
            if first in seen:
                yield f"node {child.id}"
            seen.add(first)
            if node is not view.root and (node.extra_key, node.cache_salt) != first[:2]:
                yield f"node {child.id}"


def only_unlocked_leaves_left(events: Iterable[Event]) -> Iterator[str]:
    """What was evicted had neither a lock nor a child."""
    for event in events:
        if isinstance(event, NodeEvicted) and (event.lock_ref or event.children):
            yield f"node {event.node}"

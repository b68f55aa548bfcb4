"""What just happened and why: a step's events as a few sentences, each with the function of vLLM that does the same."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeVar

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
    PrefixLookup,
    PublicationWithdrawn,
    RequestAborted,
    RequestArrived,
    RequestFinished,
    RowsIdle,
    RunReserved,
    Scheduled,
    SwappedIn,
    SwappedOut,
    SwapRefused,
    Waited,
    WaitReason,
)
from engine.timeline import Step
from pages.ui.sentence import Sentence as Sentence
from pages.ui.sentence import Tone as Tone
from pages.ui.text import Lang, listing, number, numbered, plural, t
from pages.ui.why_radix import match_sentences, queue_sentences, store_sentences

E = TypeVar("E", bound=Event)

MAX_SENTENCES = 8


def sentences(step: Step, lang: Lang) -> list[Sentence]:
    """Two to eight sentences in the order of cause and effect; the least telling are left out past eight."""
    events = step.events
    known = {view.id: view.known_tokens for view in step.scheduled.requests}
    said = [
        *_arrivals(_from_outside(events), lang),
        *_forks(_of(events, Forked), lang),
        *_aborts(_of(events, RequestAborted), lang),
        *_preemptions(events, lang),
        *_swaps_out(events, lang),
        *queue_sentences(events, lang),
        *_admissions(events, known, lang),
        *match_sentences(events, lang),
        *_hits(_of(events, BlockTouched), lang),
        *_chunks(events, known, lang),
        *_copies(_of(events, BlockCopied), lang),
        *_allocations(events, lang),
        *_decodes(_of(events, Scheduled), lang),
        *store_sentences(events, lang),
        *_idle_rows(_of(events, RowsIdle), lang),
        *_publications(_of(events, BlockPublished), lang),
        *_waits(_of(events, Waited), lang),
        *_finishes(events, lang),
    ]
    if step.is_idle and not any(item.tone in ("wait", "done") for item in said):
        said.append(Sentence("wait", t("why.idle", lang)))
    if len(said) > MAX_SENTENCES:
        kept = sorted(range(len(said)), key=lambda place: (-said[place].weight, place))[: MAX_SENTENCES - 1]
        dropped = len(said) - len(kept)
        said = [said[place] for place in sorted(kept)]
        said.append(Sentence("run", plural("why.more", dropped, lang)))
    return said


def _of(events: Iterable[Event], kind: type[E]) -> list[E]:
    return [event for event in events if isinstance(event, kind)]


def _arrivals(arrived: list[RequestArrived], lang: Lang) -> list[Sentence]:
    if len(arrived) == 1:
        event = arrived[0]
        text = t("why.arrived", lang, id=event.request, prompt=event.prompt_tokens, max=event.max_tokens)
        return [Sentence("new", text, "Scheduler.add_request", event.request, weight=3)]
    if not arrived:
        return []
    names = listing([event.request for event in arrived], lang)
    prompts = listing([str(event.prompt_tokens) for event in arrived], lang)
    return [Sentence("new", t("why.arrived_many", lang, ids=names, prompts=prompts), "Scheduler.add_request", weight=3)]


def _from_outside(events: Iterable[Event]) -> list[RequestArrived]:
    """Arrivals but for a fork's children, which have a sentence of their own."""
    born = {event.request for event in _of(events, Forked)}
    return [event for event in _of(events, RequestArrived) if event.request not in born]


def _forks(forked: list[Forked], lang: Lang) -> list[Sentence]:
    by_parent: dict[str, list[Forked]] = {}
    for event in forked:
        by_parent.setdefault(event.parent, []).append(event)
    found = []
    for parent, group in by_parent.items():
        ids = listing([event.request for event in group], lang)
        blocks, tokens = numbered(list(group[0].blocks), lang), group[0].tokens
        text = plural("why.forked", len(group), lang, parent=parent, ids=ids, blocks=blocks, tokens=tokens)
        found.append(Sentence("new", text, request=parent, block=next(iter(group[0].blocks), None), weight=9))
    return found


def _copies(copied: list[BlockCopied], lang: Lang) -> list[Sentence]:
    found = []
    for event in copied:
        text = t(
            "why.copied",
            lang,
            id=event.request,
            source=event.source,
            target=event.target,
            owners=event.owners,
            filled=event.filled,
        )
        found.append(Sentence("hit", text, request=event.request, block=event.target, weight=9))
    return found


def _aborts(aborted: list[RequestAborted], lang: Lang) -> list[Sentence]:
    return [
        Sentence("done", t("why.aborted", lang, id=event.request), "Scheduler.finish_requests", event.request, weight=8)
        for event in aborted
    ]


def _preemptions(events: Iterable[Event], lang: Lang) -> list[Sentence]:
    swapped = {event.request for event in _of(events, SwappedOut)}
    found = []
    for event in _of(events, Preempted):
        key = "why.preempted_swap" if event.request in swapped else "why.preempted"
        if event.request == event.beneficiary:
            key = "why.preempted_self"
        text = plural(
            key,
            event.need,
            lang,
            id=event.request,
            other=event.beneficiary,
            have=event.have,
            lost=event.lost_tokens,
        )
        found.append(Sentence("preempt", text, "Scheduler._preempt_request", event.request, weight=10))
    return found


def _swaps_out(events: Iterable[Event], lang: Lang) -> list[Sentence]:
    """Copies to host memory, and publications and swaps that did not come about."""
    found = []
    for event in _of(events, SwappedOut):
        blocks = [block for block, _ in event.pairs]
        named, cost = numbered(blocks, lang), _swap_cost(event, lang)
        text = plural(
            "why.swapped_out", len(blocks), lang, id=event.request, blocks=named, tokens=event.tokens, cost=cost
        )
        found.append(Sentence("preempt", text, "", event.request, blocks[0], weight=9))
    for refused in _of(events, SwapRefused):
        text = t("why.swap_refused", lang, id=refused.request, need=refused.need, have=refused.have)
        found.append(Sentence("preempt", text, "", refused.request, weight=8))
    withdrawn = _of(events, PublicationWithdrawn)
    if withdrawn:
        blocks = [event.block for event in withdrawn]
        users = listing(list(dict.fromkeys(event.request for event in withdrawn)), lang)
        text = plural("why.withdrawn", len(blocks), lang, blocks=numbered(blocks, lang), ids=users)
        found.append(Sentence("evict", text, "", block=blocks[0], weight=6))
    return found


def _swap_cost(event: SwappedOut | SwappedIn, lang: Lang) -> str:
    """Empty without a model: nothing was measured."""
    if event.ms is None:
        return ""
    return t("why.swap_cost", lang, bytes=number(event.bytes), ms=number(event.ms))


def _swap_in(event: SwappedIn, lang: Lang) -> Sentence:
    cost, count = _swap_cost(event, lang), len(event.pairs)
    text = plural("why.swapped_in", count, lang, id=event.request, tokens=event.tokens, hit=event.hit_blocks, cost=cost)
    return Sentence("run", text, "", event.request, weight=9)


def _idle_rows(events: list[RowsIdle], lang: Lang) -> list[Sentence]:
    return [Sentence("wait", plural("why.rows_idle", event.idle, lang, rows=event.rows), weight=7) for event in events]


def _admissions(events: Iterable[Event], known: dict[str, int], lang: Lang) -> list[Sentence]:
    planned = {event.request: event.tokens for event in _of(events, Scheduled)}
    looked = {event.request: event for event in _of(events, PrefixLookup)}
    back = {event.request: event for event in _of(events, SwappedIn)}
    found = []
    for event in _of(events, Admitted):
        if event.request in back:
            found.append(_swap_in(back[event.request], lang))
            continue
        lookup = looked.get(event.request)
        total = lookup.tokens if lookup is not None else known.get(event.request, 0)
        left = total - event.hit_tokens
        now = planned.get(event.request, left)
        key = "why.resumed" if event.resumed else "why.admitted"
        text = t(key, lang, id=event.request, tokens=total, hit=event.hit_tokens, left=left)
        if now < left:
            text += t("why.chunk_now", lang, now=now)
        elif lookup is not None and 0 < lookup.limit == event.hit_tokens and lookup.tokens - lookup.limit <= 1:
            text += t("why.hit_capped", lang)
        text += t("why.stop", lang)
        found.append(Sentence("run", text, "Scheduler.schedule", event.request, weight=9))
    return found


def _hits(touched: list[BlockTouched], lang: Lang) -> list[Sentence]:
    by_request: dict[str, list[BlockTouched]] = {}
    for event in touched:
        by_request.setdefault(event.request, []).append(event)
    found = []
    for request, group in by_request.items():
        revived = [event.block for event in group if event.revived]
        shared = [event for event in group if not event.revived]
        if shared:
            counts = sorted({event.ref_count for event in shared})
            reference = str(counts[-1]) if len(counts) == 1 else f"{counts[0]}–{counts[-1]}"
            blocks = numbered([event.block for event in shared], lang)
            text = plural("why.shared", len(shared), lang, id=request, blocks=blocks, ref=reference)
            found.append(Sentence("hit", text, "BlockPool.touch", request, shared[0].block, weight=8))
        if revived:
            text = plural("why.revived", len(revived), lang, id=request, blocks=numbered(revived, lang))
            found.append(Sentence("hit", text, "BlockPool.touch", request, revived[0], weight=8))
    return found


def _chunks(events: Iterable[Event], known: dict[str, int], lang: Lang) -> list[Sentence]:
    """Requests that were running already and go on with a prompt longer than one step's share."""
    fresh = {event.request for event in _of(events, Admitted)}
    return [
        Sentence(
            "run",
            t(
                "why.chunk",
                lang,
                id=event.request,
                first=event.start,
                last=event.start + event.tokens - 1,
                total=known.get(event.request, event.start + event.tokens),
            ),
            "Scheduler.schedule",
            event.request,
            weight=6,
        )
        for event in _of(events, Scheduled)
        if event.work != "decode" and event.request not in fresh
    ]


def _allocations(events: Iterable[Event], lang: Lang) -> list[Sentence]:
    by_request: dict[str, list[int]] = {}
    found = [_run(event, lang) for event in _of(events, RunReserved)]
    runs = {event.request for event in _of(events, RunReserved)}
    for event in _of(events, BlockAllocated):
        if event.request in runs:
            continue
        by_request.setdefault(event.request, []).append(event.block)
    if by_request:
        parts = [
            t("why.gets", lang, id=request, blocks=numbered(blocks, lang)) for request, blocks in by_request.items()
        ]
        text = t("why.allocated", lang, gets=t("list.semicolon", lang).join(parts))
        first = next(iter(by_request))
        found.append(Sentence("new", text, "KVCacheManager.allocate_slots", first, by_request[first][0], weight=7))
    evicted = _of(events, HashEvicted)
    if evicted:
        blocks = [event.block for event in evicted]
        users = listing(list(dict.fromkeys(event.request for event in evicted)), lang)
        text = plural("why.evicted", len(blocks), lang, blocks=numbered(blocks, lang), ids=users)
        found.append(
            Sentence("evict", text, "BlockPool._maybe_evict_cached_block", block=blocks[0], weight=8),
        )
    return found


def _run(event: RunReserved, lang: Lang) -> Sentence:
    last = event.first + event.length - 1
    text = t(
        f"why.run.{event.fit}",
        lang,
        id=event.request,
        first=event.first,
        last=last,
        n=event.length,
        hole=event.hole,
    )
    return Sentence("new", text, "", event.request, event.first, weight=8)


def _decodes(scheduled: list[Scheduled], lang: Lang) -> list[Sentence]:
    decoding = [event for event in scheduled if event.work == "decode"]
    if not decoding:
        return []
    names = listing([event.request for event in decoding], lang, 6)
    text = plural("why.decode", len(decoding), lang, ids=names)
    return [Sentence("run", text, "Scheduler.schedule", decoding[0].request, weight=5)]


def _publications(published: list[BlockPublished], lang: Lang) -> list[Sentence]:
    if not published:
        return []
    blocks = [event.block for event in published]
    text = plural("why.published", len(blocks), lang, blocks=numbered(blocks, lang))
    twins = [event.block for event in published if event.duplicate]
    if twins:
        text += " " + plural("why.duplicate", len(twins), lang, blocks=numbered(twins, lang))
    return [Sentence("hit", text, "BlockPool.cache_full_blocks", block=blocks[0], weight=6 if twins else 4)]


def wait_text(reason: WaitReason, lang: Lang) -> str:
    """The reason alone, as a clause: for the sentence and for the request table."""
    return t(f"wait.{reason.limit}", lang, need=reason.need, have=reason.have, behind=reason.behind or "?")


def _waits(waited: list[Waited], lang: Lang) -> list[Sentence]:
    """Those stuck behind the same request share a sentence."""
    behind: dict[str, list[str]] = {}
    found = []
    for event in waited:
        if event.reason.limit == "head_of_line" and event.reason.behind is not None:
            behind.setdefault(event.reason.behind, []).append(event.request)
            continue
        text = t("why.waits", lang, id=event.request, reason=wait_text(event.reason, lang))
        found.append(Sentence("wait", text, "Scheduler.schedule", event.request, weight=9))
    for blocker, names in behind.items():
        text = plural("why.behind", len(names), lang, ids=listing(names, lang), other=blocker)
        found.append(Sentence("wait", text, "Scheduler.schedule", names[0], weight=7))
    return found


def _finishes(events: Iterable[Event], lang: Lang) -> list[Sentence]:
    freed = _of(events, BlockFreed)
    found = []
    for event in _of(events, RequestFinished):
        mine = [item for item in freed if item.request == event.request]
        text = plural(
            "why.finished",
            event.output_tokens,
            lang,
            id=event.request,
            reason=t(f"finish.{event.reason}", lang),
        )
        text += _returned(mine, lang) + t("why.stop", lang)
        found.append(Sentence("done", text, "Scheduler.update_from_output", event.request, weight=9))
    return found


def _returned(freed: list[BlockFreed], lang: Lang) -> str:
    """Where a finished request's blocks went: the tail keeps what can be hit again, the head is used next."""
    parts = []
    for key, target in (("why.to_tail", "tail"), ("why.to_head", "head")):
        blocks = [item.block for item in freed if item.to == target]
        if blocks:
            parts.append(t(key, lang, blocks=numbered(blocks, lang, 4)))
    kept = [item.block for item in freed if item.to is None]
    if kept:
        parts.append(t("why.still_shared", lang, blocks=numbered(kept, lang, 4)))
    return "".join(parts)

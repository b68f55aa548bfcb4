"""The first step at which two runs of one workload decide differently, and why: what each did, which limit bound it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from typing import Literal

from engine.config import EngineConfig
from engine.events import WaitReason
from engine.timeline import Step
from scenarios.decisions import Account, Decisions, decisions
from scenarios.errors import Notice, notice

Kind = Literal["preemption", "admission", "hit", "tokens", "blocks", "finish"]


@dataclass(frozen=True, slots=True)
class Side:
    """One run's part in a difference. `limit`: the one that bound it, with its numbers, if any did."""

    account: Account
    did: Notice
    because: Notice | None
    limit: WaitReason | None

    @property
    def said(self) -> Notice:
        if self.because is None:
            return self.did
        return notice("compare.side", did=self.did, because=self.because)


@dataclass(frozen=True, slots=True)
class Difference:
    """The step, the kind of decision and the request that it is about."""

    step: int
    kind: Kind
    request: str
    a: Side
    b: Side

    @property
    def why(self) -> Notice:
        return notice("compare.why", request=self.request, step=self.step, a=self.a.said, b=self.b.said)


def first_difference(
    a: Sequence[Step], b: Sequence[Step], config_a: EngineConfig, config_b: EngineConfig
) -> Difference | None:
    """Compares two runs of the same requests; None if they decide the same to the end.

    Of the differences of a step the one is named that the scheduler came to first: for each request whether it was
    preempted (and how), admitted (and in which place), what the cache gave, how many tokens ran, which blocks were
    taken, whether it finished. Those behind it may only follow from it.
    """
    for index, steps in enumerate(zip_longest(a, b)):
        left, right = (decisions(step) for step in steps)
        parting = _parting(left, right)
        if parting is not None:
            kind, request = parting
            limits = _limit(kind, request, left, config_a), _limit(kind, request, right, config_b)
            return Difference(
                index,
                kind,
                request,
                _side(kind, request, (left, right), limits, config_a),
                _side(kind, request, (right, left), limits[::-1], config_b),
            )
    return None


def _parting(a: Decisions, b: Decisions) -> tuple[Kind, str] | None:
    """The first request, in the order in which the scheduler comes to them, that the two treat differently, and how.

    Block ids come last: whose blocks are taken is a matter of who gave some back.
    """
    requests = dict.fromkeys((*a.order, *b.order))
    for kinds in (_CHOICES, _CONSEQUENCES):
        for name in requests:
            for kind, decided in kinds:
                if decided(a, name) != decided(b, name):
                    return kind, name
    return None


def _hit(account: Account) -> int | None:
    return None if account.admitted is None else account.admitted.hit_tokens


def _span(account: Account) -> tuple[int, int] | None:
    return None if account.scheduled is None else (account.scheduled.start, account.scheduled.tokens)


_Decided = tuple[tuple[Kind, Callable[[Decisions, str], object]], ...]
_CHOICES: _Decided = (
    ("preemption", lambda side, name: (side.of(name).preempted is not None, side.of(name).swapped)),
    ("admission", lambda side, name: side.admitted.index(name) if name in side.admitted else None),
    ("hit", lambda side, name: _hit(side.of(name))),
    ("tokens", lambda side, name: _span(side.of(name))),
)
_CONSEQUENCES: _Decided = (
    ("blocks", lambda side, name: side.of(name).blocks),
    ("finish", lambda side, name: side.of(name).finished),
)


def _side(
    kind: Kind,
    request: str,
    both: tuple[Decisions, Decisions],
    limits: tuple[WaitReason | None, WaitReason | None],
    config: EngineConfig,
) -> Side:
    """`both` and `limits`: this side's, then the other's."""
    mine, other = both
    account, limit = mine.of(request), limits[0]
    because = None if mine.step is None else _because(kind, request, mine, other, limits, config)
    return Side(account, _did(kind, account, mine.step), because, limit)


def _did(kind: Kind, account: Account, step: Step | None) -> Notice:
    if step is None:
        return notice("compare.did.over")
    if account.preempted is not None:
        if account.swapped:
            return notice("compare.did.swapped_out")
        return notice("compare.did.preempted", lost=account.preempted.lost_tokens)
    if kind == "admission" and account.admitted is not None:
        hit = account.admitted.hit_tokens
        return notice("compare.did.admitted_hit", tokens=hit) if hit else notice("compare.did.admitted")
    if kind == "hit" and account.admitted is not None:
        return notice("compare.did.hit", tokens=account.admitted.hit_tokens)
    if kind == "blocks":
        blocks = ", ".join(map(str, account.blocks))
        return notice("compare.did.blocks", blocks=blocks) if blocks else notice("compare.did.no_block")
    if kind == "finish" and account.finished is not None:
        return notice("compare.did.finished", tokens=account.finished.output_tokens)
    if account.scheduled is not None:
        return notice("compare.did.scheduled", tokens=account.scheduled.tokens, start=account.scheduled.start)
    return notice("compare.did.waits" if account.waited is not None else "compare.did.nothing")


def _limit(kind: Kind, request: str, mine: Decisions, config: EngineConfig) -> WaitReason | None:
    """The limit behind what this side did not do, or did only in part; of a queue, the one that binds its head."""
    account = mine.of(request)
    if account.preempted is not None:
        return WaitReason("blocks", account.preempted.need, account.preempted.have)
    if kind == "preemption" and mine.preempted:  # another victim, for the same want of blocks
        other = mine.of(mine.preempted[0]).preempted
        return None if other is None else WaitReason("blocks", other.need, other.have)
    if account.waited is not None:
        behind = account.waited.behind
        return account.waited if behind is None else mine.of(behind).waited
    if kind != "tokens" or account.scheduled is None or mine.step is None:
        return None
    tokens, left = account.scheduled.tokens, _left(request, mine.step, account.scheduled.start)
    if tokens == left:
        return None
    if tokens == config.long_prefill_token_threshold:
        return WaitReason("tokens", need=left, have=tokens)
    others = sum(mine.step.scheduled_tokens.values()) - tokens
    return WaitReason("tokens", need=left, have=config.max_num_batched_tokens - others)


def _left(request: str, step: Step, start: int) -> int:
    """Known tokens of a request that had no KV before the step."""
    return step.scheduled.request(request).known_tokens - start


def _because(
    kind: Kind,
    request: str,
    mine: Decisions,
    other: Decisions,
    limits: tuple[WaitReason | None, WaitReason | None],
    config: EngineConfig,
) -> Notice | None:
    account, limit = mine.of(request), limits[0]
    if kind == "preemption" and mine.preempted:
        return _shortage(mine, account, config)
    if kind == "admission" and account.admitted is not None and other.of(request).admitted is not None:
        place = mine.admitted.index(request) + 1
        return notice("compare.because.order", policy=config.policy, place=place)
    if account.waited is not None and limit is not None:
        reason = notice(f"wait.{limit.limit}", need=limit.need, have=limit.have, behind=limit.behind)
        behind, rival = account.waited.behind, _rival(request, mine, other)
        if rival is not None:
            return notice("compare.because.rival", rival=rival, policy=config.policy, reason=reason)
        return reason if behind is None else notice("compare.because.behind", behind=behind, reason=reason)
    if kind == "hit":
        return _lookup(account, config)
    if kind == "blocks":
        return _taken(account, mine, config)
    if kind == "tokens" and account.scheduled is not None and mine.step is not None:
        left = _left(request, mine.step, account.scheduled.start)
        return _share(account.scheduled.tokens, left, limit, config)
    return _room(mine, limits[1], config)


def _rival(request: str, mine: Decisions, other: Decisions) -> str | None:
    """Whom this side admitted in the place that the other gave to `request`."""
    place = other.admitted.index(request) if request in other.admitted else len(mine.admitted)
    return mine.admitted[place] if place < len(mine.admitted) else None


def _shortage(mine: Decisions, account: Account, config: EngineConfig) -> Notice | None:
    """Who lacked blocks, and who was chosen to give way: this request, or another in its place."""
    chosen = account.preempted or mine.of(mine.preempted[0]).preempted
    if chosen is None:
        return None
    victim = config.victim
    if victim == "auto":
        victim = "lowest_priority" if config.policy == "priority" else "last_admitted"
    return notice(
        "compare.because.preempted",
        asker=chosen.beneficiary,
        need=chosen.need,
        have=chosen.have,
        victim=chosen.request,
        rule=victim,
    )


def _lookup(account: Account, config: EngineConfig) -> Notice:
    if account.lookup is None:
        return notice("compare.because.no_cache")
    known, most = account.lookup.tokens, account.lookup.limit
    return notice("compare.because.lookup", known=known, most=most, size=config.block_size)


def _taken(account: Account, mine: Decisions, config: EngineConfig) -> Notice | None:
    run = account.run
    if run is not None:
        return notice("compare.because.run", length=run.length, hole=run.hole, fit=run.fit)
    if mine.step is None:
        return None
    free = config.usable_blocks - mine.step.scheduled.pool.owned
    return notice("compare.because.queue", size=config.block_size, free=free, usable=config.usable_blocks)


def _share(tokens: int, left: int, limit: WaitReason | None, config: EngineConfig) -> Notice:
    """Why a request ran `tokens` of the `left` that it had."""
    if limit is None:
        return notice("compare.because.all", left=left)
    if tokens == config.long_prefill_token_threshold:
        return notice("compare.because.long", left=left, threshold=tokens)
    budget = config.max_num_batched_tokens
    return notice("compare.because.budget", left=left, budget=budget, others=budget - limit.have)


def _room(mine: Decisions, bound: WaitReason | None, config: EngineConfig) -> Notice | None:
    """What this side had of the limit that `bound` the other."""
    if bound is None or mine.step is None:
        return None
    snapshot = mine.step.scheduled
    if bound.limit in ("sequences", "batch"):
        return notice("compare.because.seats", running=len(snapshot.running), limit=config.max_num_seqs)
    if bound.limit == "tokens":
        used, budget = snapshot.budgets.tokens.used, config.max_num_batched_tokens
        return notice("compare.because.budget_left", used=used, budget=budget)
    free = config.usable_blocks - snapshot.pool.owned
    return notice("compare.because.blocks_left", free=free, usable=config.usable_blocks)

"""One iteration's decisions: running requests first, then waiting ones, under token, block and sequence limits.

Source: vLLM 0.33 `Scheduler.schedule` and `update_from_output` (V1, synchronous).
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Literal

from engine.config import EngineConfig
from engine.events import (
    Admitted,
    Event,
    Preempted,
    RequestFinished,
    Scheduled,
    SwapRefused,
    TokenSampled,
    Waited,
    WaitReason,
    WorkKind,
)
from engine.kv_manager import NO_HIT, Hit, KVManager, Shortage, reservation
from engine.policies import WaitingQueue, choose_victim
from engine.request import Request, RequestStatus
from engine.swap import SwapJob, SwapSpace
from engine.waiting_order import WaitingOrder


@dataclass(slots=True)
class Plan:
    """What one step will compute. `tokens` is in batch order: running first, then newly admitted."""

    tokens: dict[str, int] = field(default_factory=dict)
    starts: dict[str, int] = field(default_factory=dict)
    work: dict[str, WorkKind] = field(default_factory=dict)
    preempted: list[str] = field(default_factory=list)
    wait_reasons: dict[str, WaitReason] = field(default_factory=dict)
    delayed: dict[str, WaitReason] = field(default_factory=dict)
    swaps: list[SwapJob] = field(default_factory=list)
    copies: list[tuple[int, int]] = field(default_factory=list)  # (source, target) blocks, before anything is written

    @property
    def total_tokens(self) -> int:
        return sum(self.tokens.values())


class Scheduler:
    """Holds the running list and the waiting queue; the only place where a request changes its place in life."""

    def __init__(self, config: EngineConfig, kv: KVManager, log: list[Event] | None) -> None:
        self.config = config
        self.kv = kv
        self.log = log
        self.running: list[Request] = []
        self.waiting = WaitingQueue(config.policy)
        self._order = None if config.policy in ("fcfs", "priority") else WaitingOrder(config, kv, log)
        self.swap = SwapSpace(config.swap_blocks, config.block_size, kv) if config.preemption == "swap" else None
        self._reserves = config.preemption == "delay" or (config.batching, config.kv_layout) == ("static", "paged")
        # vLLM leaves a dropped victim's fresh publications in place; its recorded runs pin that down.
        self._withdraws = config.victim != "auto" or config.preemption == "swap"
        self.expected: dict[str, int] = {}  # request id → sequences it will fork into at its next token
        self._longest = config.model_len  # a request's last position is never computed: its token ends it

    @property
    def seats(self) -> int:
        """Running sequences and those they will fork into (vLLM 0.2's `get_max_num_running_seqs`)."""
        expected = sum(self.expected.get(request.id, 0) for request in self.running) if self.expected else 0
        return len(self.running) + expected

    def adopt(self, child: Request) -> None:
        """A fork's child runs from its birth: its blocks are its parent's."""
        child.status = RequestStatus.RUNNING
        self.running.append(child)

    def add(self, request: Request) -> None:
        self.kv.note_tokens(request)
        self.waiting.add(request)
        if self._order is not None:
            self._order.enter(request)

    def abort(self, request: Request) -> None:
        """Ends a request anywhere in its life and takes its blocks back."""
        if request.status is RequestStatus.RUNNING:
            self.running.remove(request)
        else:
            self.waiting.remove(request)
            if self._order is not None:
                self._order.leave(request)
        request.status = RequestStatus.ABORTED
        request.finish_reason = "abort"
        if self.swap is not None:
            self.swap.drop(request)
        self.kv.free(request, "aborted")

    def schedule(self) -> Plan:
        """Decides the step. Afterwards `num_computed_tokens` already counts this step's tokens, as in vLLM."""
        plan = Plan()
        budget = self._schedule_running(plan, self.config.max_num_batched_tokens)
        self._schedule_waiting(plan, budget)
        for request in self.running:
            if request.id in plan.tokens:
                self._note_work(request, plan)
            else:
                self._note_wait(request, plan.delayed.get(request.id, WaitReason("tokens", need=1, have=0)), plan)
        plan.copies = self.kv.take_copies()
        if self._order is not None:
            self._order.step += 1
            self._order.prefilled += sum(plan.tokens[name] for name, work in plan.work.items() if work != "decode")
        return plan

    def update(self, plan: Plan, sampled: Mapping[str, int], scripted: frozenset[str] = frozenset()) -> list[Request]:
        """Appends the sampled tokens and ends what is done, in batch order. Returns the finished requests.

        A finished request's blocks are free from here on, that is for the next step's schedule.
        """
        finished = []
        log, kv, tokens, work = self.log, self.kv, plan.tokens, plan.work
        for request in self.running:
            name = request.id
            token = sampled.get(name)
            if token is None and name not in tokens:
                continue
            if request.num_computed_tokens > request.high_water:
                request.high_water = request.num_computed_tokens
            if token is None:
                kv.store(request)
                continue
            known = request.token_ids
            if log is not None:
                log.append(TokenSampled(name, token, len(known), name in scripted))
            known.append(token)
            kv.note_tokens(request)
            reason = self._end(request, token)
            if reason is not None:
                self._finish(request, reason)
                finished.append(request)
            elif work.get(name) != "decode":
                kv.store(request)
        if finished:
            done = {request.id for request in finished}
            self.running = [request for request in self.running if request.id not in done]
        return finished

    def _end(self, request: Request, token: int) -> Literal["length", "stop"] | None:
        """vLLM `check_stop`: stop tokens first, then lengths; None if the request goes on."""
        spec = request.spec
        if token in spec.sampling.stop_token_ids:
            return "stop"
        known = len(request.token_ids)
        full = known >= self._longest or known - request.num_prompt_tokens >= spec.max_tokens
        return "length" if full else None

    def _finish(self, request: Request, reason: Literal["length", "stop"]) -> None:
        """Frees at once, in batch order."""
        request.status = RequestStatus.FINISHED
        request.finish_reason = reason
        if self.log is not None:
            self.log.append(RequestFinished(request.id, reason, request.num_output_tokens))
        self.kv.free(request, "finished")

    def _schedule_running(self, plan: Plan, budget: int) -> int:
        index = 0
        cap = self._cap()
        while index < len(self.running) and budget > 0:
            request = self.running[index]
            computed = request.num_computed_tokens
            tokens = min(len(request.token_ids) - computed, cap, budget, self._longest - 1 - computed)
            if tokens == 0:
                index += 1
                continue
            shortage = self.kv.allocate(request, tokens)
            if shortage is not None and self.config.preemption == "delay":
                plan.delayed[request.id] = WaitReason("delayed", shortage.need, shortage.have)
                index += 1
                continue
            while shortage is not None:
                victim = self._choose_victim()
                budget, index = self._preempt(victim, request, shortage, plan, budget, index)
                if victim is request:
                    break
                shortage = self.kv.allocate(request, tokens)
            if shortage is not None:
                continue  # the victim may stand anywhere: those after it still get their turn
            plan.tokens[request.id] = tokens
            budget -= tokens
            index += 1
        return budget

    def _choose_victim(self) -> Request:
        return choose_victim(self.running, self.config.policy, self.config.victim, self._blocks_held)

    def _requeue(self, victim: Request) -> None:
        self.waiting.put_back(victim)

    def _preempt(
        self, victim: Request, asker: Request, shortage: Shortage, plan: Plan, budget: int, index: int
    ) -> tuple[int, int]:
        """Takes all blocks of `victim` and sends it back to wait (vLLM `_preempt_request`), its KV lost or swapped."""
        position = self.running.index(victim)
        del self.running[position]
        if position < index:
            index -= 1
        if victim.id in plan.tokens:  # already scheduled in this step: its tokens return to the budget
            budget += plan.tokens.pop(victim.id)
            if self._withdraws:
                self.kv.withdraw(victim)
        swapped = self._swap_out(victim, plan)
        if self.log is not None:
            lost = 0 if swapped else victim.num_computed_tokens
            self.log.append(Preempted(victim.id, asker.id, shortage.need, shortage.have, lost))
        if not swapped:
            self.kv.free(victim, "preempted")
            victim.num_computed_tokens = 0
        victim.status = RequestStatus.PREEMPTED
        victim.num_cached_tokens = 0
        victim.num_preemptions += 1
        self._requeue(victim)
        if self._order is not None:
            self._order.enter(victim)
        plan.preempted.append(victim.id)
        return budget, index

    def _swap_out(self, victim: Request, plan: Plan) -> bool:
        """True if the victim's KV goes to the host; without room there it is lost, and computed again later."""
        if self.swap is None or victim.num_computed_tokens == 0:
            return False
        job = self.swap.out(victim)
        if isinstance(job, Shortage):
            if self.log is not None:
                self.log.append(SwapRefused(victim.id, job.need, job.have))
            return False
        plan.swaps.append(job)
        return True

    def _blocks_held(self, request: Request) -> int:
        return len(self.kv.block_table(request.id))

    def _schedule_waiting(self, plan: Plan, budget: int) -> None:
        if plan.preempted:
            self._note_all_wait(plan, WaitReason("preemption"))
            return
        config = self.config
        if self._order is not None and self._may_admit(budget) and self.seats < config.max_num_seqs:
            self.waiting.reorder(self._order.sort(list(self.waiting)))
        while self.waiting:
            request = self.waiting.head
            if not self._may_admit(budget):
                reason = WaitReason("tokens", need=1, have=0)
            elif self.seats + self.expected.get(request.id, 0) >= config.max_num_seqs:
                reason = WaitReason("sequences", need=config.max_num_seqs, have=self.seats)
            else:
                refusal, used = self._admit(request, plan, budget)
                if refusal is None:
                    budget -= used
                    continue
                reason = refusal
            self._note_all_wait(plan, reason)
            return

    def _admit(self, request: Request, plan: Plan, budget: int) -> tuple[WaitReason | None, int]:
        """Tries to move the head of the waiting queue to running; a refusal changes nothing."""
        config = self.config
        hit = self._lookup(request)
        computed = request.num_computed_tokens + hit.tokens
        tokens = min(request.num_tokens - computed, self._cap())
        if not config.enable_chunked_prefill and tokens > budget:
            return WaitReason("tokens", need=tokens, have=budget), 0
        tokens = min(tokens, budget)
        if (unmet := self._unmet(request, hit)) is not None:
            return unmet, 0
        reserve = config.watermark_blocks if self.running else 0
        shortage = self.kv.allocate(request, tokens, hit, whole=config.scheduler_reserve_full_isl, reserve=reserve)
        if shortage is not None:
            return WaitReason(shortage.limit, need=shortage.need, have=shortage.have), 0
        if self.swap is not None and self.swap.holds(request):
            plan.swaps.append(self.swap.back(request, len(hit.blocks)))
        self._start(request, hit)
        if tokens:
            plan.tokens[request.id] = tokens
        return None, tokens

    def _unmet(self, request: Request, hit: Hit) -> WaitReason | None:
        """A promise to the running requests that admitting `request` would break."""
        unmet = reservation(self.kv, self.running, request, hit) if self._reserves else None
        return None if unmet is None else WaitReason("reserved", need=unmet.need, have=unmet.have)

    def _may_admit(self, budget: int) -> bool:
        return budget > 0

    def _lookup(self, request: Request) -> Hit:
        if self.swap is not None and self.swap.holds(request):
            return self.swap.lookup(request)
        return self.kv.lookup(request) if request.num_computed_tokens == 0 else NO_HIT

    def _start(self, request: Request, hit: Hit) -> None:
        resumed = request.status is RequestStatus.PREEMPTED
        self.waiting.pop()
        if self._order is not None:
            self._order.leave(request)
        self.running.append(request)
        request.status = RequestStatus.RUNNING
        request.num_computed_tokens += hit.tokens
        request.num_cached_tokens = len(hit.blocks) * self.config.block_size
        if self.log is not None:
            self.log.append(Admitted(request.id, request.num_cached_tokens, resumed))

    def _cap(self) -> int:
        """The long-prefill threshold, which does not apply to a request that is alone."""
        alone = len(self.running) + len(self.waiting) == 1
        return sys.maxsize if alone else self.config.long_prefill_token_threshold or sys.maxsize

    def _note_work(self, request: Request, plan: Plan) -> None:
        start, tokens = request.num_computed_tokens, plan.tokens[request.id]
        plan.starts[request.id] = start
        plan.work[request.id] = work = work_kind(request, start)
        request.num_computed_tokens += tokens
        if self.log is not None:
            self.log.append(Scheduled(request.id, tokens, start, work))

    def _note_all_wait(self, plan: Plan, head_reason: WaitReason) -> None:
        if self.log is None:
            return  # linear in the queue's length, so only for someone who looks
        for request, reason in _reasons(self.waiting, head_reason):
            plan.wait_reasons[request.id] = reason
            self.log.append(Waited(request.id, reason))

    def _note_wait(self, request: Request, reason: WaitReason, plan: Plan) -> None:
        if self.log is not None:
            plan.wait_reasons[request.id] = reason
            self.log.append(Waited(request.id, reason))


def _reasons(waiting: Iterable[Request], head_reason: WaitReason) -> Iterable[tuple[Request, WaitReason]]:
    """The head waits for `head_reason`; where the limit binds for all alike, so does everyone behind it."""
    for_all = ("preemption", "sequences", "batch")
    binds_all = head_reason.limit in for_all or head_reason.have == 0 == head_reason.need - 1
    reason = head_reason
    for place, request in enumerate(waiting):
        yield request, reason
        if place == 0 and not binds_all:
            reason = WaitReason("head_of_line", behind=request.id)


def work_kind(request: Request, start: int) -> WorkKind:
    """Names the work on positions from `start`: computed before (recompute), prompt (prefill) or new (decode).

    The last known token alone is a decode if it was sampled; known tokens of a preempted request are recompute.
    """
    known = len(request.token_ids)
    if start >= known - 1 and known > request.num_prompt_tokens:
        return "decode"
    return "recompute" if request.num_preemptions and start < request.high_water else "prefill"

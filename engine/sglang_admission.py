"""Admission by estimate and retraction, as SGLang decides them, in place of vLLM's preemption.

Source: SGLang 0.5.23 `PrefillAdder.add_one_req`, `NewTokenRatioTracker`, `ScheduleBatch.retract_decode`. The rest of
the step is vLLM's: running requests and new ones share a batch, where SGLang would run prefill first.
"""

from __future__ import annotations

from collections.abc import Sequence

from engine.config import EngineConfig
from engine.events import Event, RatioRaised, WaitReason
from engine.kv_manager import Hit, KVManager, Shortage, blocks_for
from engine.radix_pages import RadixPages
from engine.request import Request
from engine.scheduler import Plan, Scheduler

CLIP_MAX_NEW_TOKENS = 4096
RETRACT_DECODE_STEPS = 20  # steps that those who stay should have room for after a retraction
INIT_RATIO, MIN_FACTOR, DECAY_STEPS = 0.7, 0.14, 600


class NewTokenRatio:
    """The share of their `max_tokens` that running requests are expected to use; falls while all goes well."""

    def __init__(self, conservativeness: float) -> None:
        self.init = min(INIT_RATIO * conservativeness, 1.0)
        self.least = self.init * MIN_FACTOR
        self.now = self.init

    def decay(self) -> None:
        self.now = max(self.now - (self.init - self.least) / DECAY_STEPS, self.least)

    def reset(self) -> None:
        self.now = self.init

    def learn(self, stay: Sequence[Request]) -> None:
        """After a retraction: what those who stay have used, and a few steps more, of what they may."""
        used = sum(request.num_output_tokens for request in stay) + RETRACT_DECODE_STEPS * len(stay)
        self.now = min(1.0, used / (sum(request.spec.max_tokens for request in stay) + 1))


class EstimatingScheduler(Scheduler):
    """Admits while the estimate fits; where it was wrong, takes back who has the fewest output tokens."""

    def __init__(self, config: EngineConfig, kv: KVManager, log: list[Event] | None) -> None:
        super().__init__(config, kv, log)
        self.ratio = NewTokenRatio(config.schedule_conservativeness)
        self._settled = 0  # running requests that were not admitted in this step

    def _schedule_running(self, plan: Plan, budget: int) -> int:
        if not self.running:
            self.ratio.reset()
        elif not self._retract(plan):
            self.ratio.decay()
        left = super()._schedule_running(plan, budget)
        self._settled = len(self.running)
        return left

    def _retract(self, plan: Plan) -> bool:
        """Takes requests back until what the others need next fits; one is always kept."""
        while len(self.running) > 1 and (short := self._shortage()) is not None:
            victim = self._choose_victim()
            asker = next(request for request in self.running if request is not victim)
            self._preempt(victim, asker, short, plan, 0, 0)
        if not plan.preempted:
            return False
        if isinstance(self.kv, RadixPages):
            room = RETRACT_DECODE_STEPS * len(self.running)
            self.kv.tree.evict(room - self.kv.tree.pool.available)
        self.ratio.learn(self.running)
        if self.log is not None:
            self.log.append(RatioRaised(self.ratio.now, tuple(request.id for request in self.running)))
        return True

    def _shortage(self) -> Shortage | None:
        """Blocks that the running requests' next tokens need, if they are not to be had."""
        need = sum(self._next_blocks(request) for request in self.running)
        return None if need <= self.kv.pool.num_free else Shortage(need, self.kv.pool.num_free)

    def _next_blocks(self, request: Request) -> int:
        tokens = min(request.num_tokens - request.num_computed_tokens, self.config.max_num_batched_tokens, self._cap())
        end = request.num_computed_tokens + tokens + self.config.num_lookahead_tokens
        return max(0, blocks_for(self.config, end) - self._blocks_held(request))

    def _choose_victim(self) -> Request:
        """Fewest output tokens first, the longer prompt among equals, the later one among those."""
        return min(reversed(self.running), key=lambda each: (each.num_output_tokens, -each.num_prompt_tokens))

    def _requeue(self, victim: Request) -> None:
        """To the back, as if it had just arrived."""
        self.waiting.add(victim)

    def _unmet(self, request: Request, hit: Hit) -> WaitReason | None:
        """The estimate refuses `request`; a request that would run alone is let in, since intake has seen that it fits.

        In tokens: its uncached part, all it may write and one page must be less than what is free or evictable once its
        prefix is locked, minus what the running requests are expected to write.
        """
        if not self.running:
            return None
        size = self.config.block_size
        need = request.num_tokens - hit.tokens + _to_come(request) + size
        locked = sum(1 for block in hit.blocks if block.ref_count == 0)
        have = (self.kv.pool.num_free - locked) * size - self._promised()
        return None if need < have else WaitReason("estimate", need=need, have=max(0, int(have)))

    def _promised(self) -> float:
        """Tokens the running requests are expected to write: all they may, if admitted just now or of fixed length."""
        total = 0.0
        for place, request in enumerate(self.running):
            if request.num_computed_tokens + 1 < request.num_tokens and place < self._settled:
                continue  # a prompt in chunks reserves nothing until its last one
            if place >= self._settled:
                total += _to_come(request) + self.config.block_size
            else:
                total += _to_come(request) * (self.ratio.now if request.spec.sampling.stop_token_ids else 1.0)
        return total


def _to_come(request: Request) -> int:
    return min(request.spec.max_tokens - request.num_output_tokens, CLIP_MAX_NEW_TOKENS)

"""`Engine.step()`: schedule → execute → commit → a `Step`."""

from __future__ import annotations

import time
from collections.abc import Mapping

from engine import laws
from engine.config import EngineConfig
from engine.contiguous import Contiguous
from engine.errors import UserError
from engine.events import Event, RequestAborted, RequestArrived, SwappedIn, SwappedOut
from engine.kv_manager import HashBlocks, KVManager
from engine.request import Request, RequestSpec
from engine.runner import Runner, RunnerOutput
from engine.scheduler import Plan, Scheduler
from engine.snapshot import Snapshot, SnapshotTaker
from engine.static_batching import StaticBatching
from engine.timeline import Step, Timings

_NOTHING = RunnerOutput({})


def make_kv(config: EngineConfig, log: list[Event] | None, namespace: str = "") -> KVManager:
    """The KV cache of `config.kv_layout`."""
    return Contiguous(config, log) if config.kv_layout == "contiguous" else HashBlocks(config, log, namespace)


def make_scheduler(config: EngineConfig, kv: KVManager, log: list[Event] | None) -> Scheduler:
    """The scheduler of `config.batching`."""
    return (StaticBatching if config.batching == "static" else Scheduler)(config, kv, log)


class Engine:
    """One engine: requests in, a `Step` out for each iteration. Deterministic for a given configuration and input."""

    def __init__(self, config: EngineConfig, runner: Runner, namespace: str = "") -> None:
        self.config = config
        self.runner = runner
        self.events: list[Event] = []
        self.kv = make_kv(config, self.events, namespace)
        self.scheduler = make_scheduler(config, self.kv, self.events)
        self.requests: dict[str, Request] = {}
        self.next_step = 0
        self._pending: list[RequestSpec] = []  # not arrived yet, by (arrival_step, order given)
        self._aborts: dict[int, list[str]] = {}
        self._text: dict[str, str] = {}
        self._camera = SnapshotTaker(config, self.scheduler, self.kv)
        self.initial = self._camera.take(-1, (), None, in_flight=False)

    @property
    def is_done(self) -> bool:
        """True once every request given is over."""
        return not self._pending and not self.scheduler.running and not self.scheduler.waiting

    def add(self, spec: RequestSpec) -> None:
        """Takes a request that arrives at `spec.arrival_step` (or now, if that is past); refuses what can never run."""
        self._check(spec)
        self._pending.append(spec)
        self._pending.sort(key=lambda pending: pending.arrival_step)
        if spec.abort_step is not None:
            self.abort_at(spec.id, spec.abort_step)

    def abort_at(self, request_id: str, step: int) -> None:
        """Aborts a request at the beginning of `step`, wherever it is in its life by then."""
        self._aborts.setdefault(max(step, self.next_step), []).append(request_id)

    def step(self) -> Step:
        """One iteration: aborts, arrivals, schedule, execute, commit."""
        index = self.next_step
        self.events.clear()
        began = time.perf_counter()
        self._abort(self._aborts.pop(index, []))
        self._arrive(index)
        plan = self.scheduler.schedule()
        scheduled_at = time.perf_counter()
        in_flight = self._camera.take(index, self.requests.values(), plan, in_flight=True)
        batch = [request for request in self.scheduler.running if request.id in plan.tokens]
        execute_from = time.perf_counter()
        self._swap(plan)
        output = self.runner.execute(batch, plan, self.kv) if batch else _NOTHING
        executed_at = time.perf_counter()
        self.scheduler.update(plan, output.tokens, output.scripted)
        timings = Timings(
            schedule_ms=(scheduled_at - began) * 1e3,
            execute_ms=(executed_at - execute_from) * 1e3,
            commit_ms=(time.perf_counter() - executed_at) * 1e3,
        )
        self.next_step = index + 1
        return self._record(index, plan, output, in_flight, timings)

    def _record(self, index: int, plan: Plan, output: RunnerOutput, in_flight: Snapshot, timings: Timings) -> Step:
        self._text = {**self._text, **output.text}
        events = tuple(self.events)
        snapshot = self._camera.take(index, self.requests.values(), plan, in_flight=False)
        return Step(
            index=index,
            scheduled_tokens=dict(plan.tokens),
            events=events,
            sampled=dict(output.tokens),
            scheduled=in_flight,
            snapshot=snapshot,
            kernel=output.kernel,
            laws=laws.check(in_flight, snapshot, events, self.kv, self.requests, output.kernel),
            timings=timings,
            text=self._text,
        )

    def _swap(self, plan: Plan) -> None:
        """KV moves before the kernels run: the blocks that a victim left may be written in this very step."""
        for job in plan.swaps:
            cost = self.runner.swap(job)
            if job.direction == "out":
                self.events.append(SwappedOut(job.request, job.pairs, job.tokens, cost.bytes, cost.ms))
            else:
                self.events.append(SwappedIn(job.request, job.pairs, job.tokens, job.hit_blocks, cost.bytes, cost.ms))

    def _check(self, spec: RequestSpec) -> None:
        """Intake: everything that would make a request wait for ever is said now, with the numbers."""
        if spec.id in self.requests or any(pending.id == spec.id for pending in self._pending):
            raise UserError("request.duplicate", id=spec.id)
        vocab = self.runner.vocab_size
        if vocab is not None and (bad := max((*spec.prompt, *(spec.output or ())))) >= vocab:
            raise UserError("request.unknown_token", id=spec.id, token=bad, vocab=vocab)
        need = self.kv.peak_blocks(spec)
        if need > self.config.usable_blocks:
            have = self.config.usable_blocks
            tokens = spec.positions + self.config.num_lookahead_tokens
            raise UserError("request.never_fits", id=spec.id, need=need, tokens=tokens, have=have)
        if len(spec.prompt) + spec.max_tokens > self.config.model_len:
            total = len(spec.prompt) + spec.max_tokens
            raise UserError("request.too_long", id=spec.id, tokens=total, limit=self.config.model_len)

    def _abort(self, request_ids: list[str]) -> None:
        for request_id in request_ids:
            self._pending = [spec for spec in self._pending if spec.id != request_id]
            request = self.requests.get(request_id)
            if request is not None and not request.status.is_over:
                self.events.append(RequestAborted(request_id))
                self.scheduler.abort(request)

    def _arrive(self, index: int) -> None:
        while self._pending and self._pending[0].arrival_step <= index:
            spec = self._pending.pop(0)
            request = Request(spec, arrival=len(self.requests))
            self.requests[spec.id] = request
            self.events.append(RequestArrived(spec.id, len(spec.prompt), spec.max_tokens))
            self.scheduler.add(request)

    @property
    def texts(self) -> Mapping[str, str]:
        """Text generated so far, by request."""
        return self._text

"""`Engine.step()`: schedule → execute → commit → a `Step`."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

from engine import branching
from engine.arrivals import Arrivals
from engine.camera import SnapshotTaker
from engine.config import EngineConfig
from engine.contiguous import Contiguous
from engine.errors import UserError
from engine.events import Event, Forked, RequestAborted, RequestArrived, SwappedIn, SwappedOut
from engine.kv_manager import HashBlocks, KVManager
from engine.laws import Audit, Auditor
from engine.radix_pages import RadixPages
from engine.request import Request, RequestSpec, SamplingParams
from engine.runner import Runner, RunnerOutput
from engine.scheduler import Plan, Scheduler
from engine.sglang_admission import EstimatingScheduler
from engine.snapshot import Snapshot
from engine.static_batching import StaticBatching
from engine.timeline import Step, Timings

_NOTHING = RunnerOutput({})


def make_kv(config: EngineConfig, log: list[Event] | None, namespace: str = "") -> KVManager:
    """The KV cache of `config.kv_layout` and `config.cache`. `namespace` comes on top of the configuration's own."""
    if config.kv_layout == "contiguous":
        return Contiguous(config, log)
    if config.cache == "radix":
        return RadixPages(config, log)
    names = [name for name in (namespace, config.kv_namespace) if name]
    return HashBlocks(config, log, "/".join(names))


def make_scheduler(config: EngineConfig, kv: KVManager, log: list[Event] | None) -> Scheduler:
    """The scheduler of `config.batching` and `config.admission`."""
    if config.batching == "static":
        return StaticBatching(config, kv, log)
    return (EstimatingScheduler if config.admission == "sglang" else Scheduler)(config, kv, log)


class _Iteration(NamedTuple):
    number: int
    plan: Plan
    output: RunnerOutput
    in_flight: Snapshot | None
    timings: Timings


class Engine:
    """One engine: requests in, a `Step` out for each iteration. Deterministic for a given configuration and input.

    With `record` off nothing is logged, pictured or checked: `advance` then costs what the decisions cost, whatever the
    size of the pool and however many requests are over. `audit`: what the laws look at in each step; by default
    everything in a small pool, and what has changed in a large one.
    """

    def __init__(
        self,
        config: EngineConfig,
        runner: Runner,
        namespace: str = "",
        *,
        record: bool = True,
        audit: Audit | None = None,
    ) -> None:
        self.config = config
        self.runner = runner
        self.events: list[Event] = []
        self.log = self.events if record else None
        self.kv = make_kv(config, self.log, namespace)
        self.scheduler = make_scheduler(config, self.kv, self.log)
        self.requests: dict[str, Request] = {}
        self.next_step = 0
        self._pending = Arrivals()
        self._aborts: dict[int, list[str]] = {}
        self._branches: dict[str, list[RequestSpec]] = {}  # children that part from a request at its next token
        self._text: dict[str, str] = {}
        self._camera = SnapshotTaker(config, self.scheduler, self.kv)
        self._auditor = Auditor(self.kv, self.scheduler, self.requests, audit)
        self.initial = self._camera.take(-1, self.requests, Plan(), in_flight=False)

    @property
    def is_done(self) -> bool:
        """True once every request given is over."""
        return not self._pending and not self.scheduler.running and not self.scheduler.waiting

    def add(self, spec: RequestSpec) -> None:
        """Takes a request that arrives at `spec.arrival_step` (or now, if that is past); refuses what can never run."""
        self._check(spec)
        self._pending.add(spec)
        if spec.n > 1:
            try:
                self.fork_at_next_token(spec.id, spec.n - 1, samplings=branching.seeded(spec, self.config.seed))
            except UserError:
                self._pending.cancel(spec.id)
                raise
        if spec.abort_step is not None:
            self.abort_at(spec.id, spec.abort_step)

    def abort_at(self, request_id: str, step: int) -> None:
        """Aborts a request at the beginning of `step`, wherever it is in its life by then."""
        self._aborts.setdefault(max(step, self.next_step), []).append(request_id)

    def fork(
        self,
        request_id: str,
        n: int,
        *,
        samplings: Sequence[SamplingParams] | None = None,
        outputs: Sequence[tuple[int, ...]] | None = None,
    ) -> list[str]:
        """Makes `n` copies of a running request and returns their ids: `A.1`, `A.2` …

        They share all of its blocks, the part-filled tail too, until one of them writes there (PagedAttention paper,
        §4.4). They know the tokens it knows; `samplings` or `outputs` make them part from the next one on. All or none.
        """
        branching.check_engine(self.config, request_id)
        parent = self._request(request_id)
        branching.check_forkable(parent)
        children = self._children(parent.spec, n, samplings, outputs)
        branching.check_seats(request_id, n, self.scheduler.seats, self.config.max_num_seqs)
        born = self._bear(parent, children)
        self._text = {**self._text, **self.runner.fork(parent, born, draw=False).text}
        return [child.id for child in born]

    def fork_at_next_token(
        self,
        request_id: str,
        n: int,
        *,
        samplings: Sequence[SamplingParams] | None = None,
        outputs: Sequence[tuple[int, ...]] | None = None,
    ) -> list[str]:
        """As `fork`, once the request samples its next token: each child draws its own from the same logits.

        This is how parallel sampling parts ways after one prefill. The children's seats are kept for them.
        """
        branching.check_engine(self.config, request_id)
        parent = self.requests.get(request_id)
        waiting = self._pending.get(request_id)
        spec = waiting if waiting is not None else self._request(request_id).spec
        used = 1 + len(self._branches.get(request_id, ()))
        if parent is not None:
            if parent.status.is_over:
                branching.check_forkable(parent)
            used = self.scheduler.seats if parent in self.scheduler.running else used
        children = self._children(spec, n, samplings, outputs)
        branching.check_seats(request_id, n, used, self.config.max_num_seqs)
        self._expect(request_id, [*self._branches.get(request_id, ()), *children])
        return [child.id for child in children]

    def step(self) -> Step:
        """One iteration, recorded: aborts, arrivals, schedule, execute, commit. Needs `record` (the default)."""
        return self._record(self._iterate())

    def advance(self) -> Plan:
        """One iteration without a record of it; for replays that ask only what was decided."""
        return self._iterate().plan

    def _iterate(self) -> _Iteration:
        index = self.next_step
        began = time.perf_counter()
        self._abort(self._aborts.pop(index, []))
        self._arrive(index)
        plan = self.scheduler.schedule()
        scheduled_at = time.perf_counter()
        in_flight = self._picture_in_flight(index, plan) if self.log is not None else None
        batch = [request for request in self.scheduler.running if request.id in plan.tokens]
        execute_from = time.perf_counter()
        self._swap(plan)
        output = self.runner.execute(batch, plan, self.kv) if batch else _NOTHING
        executed_at = time.perf_counter()
        output = self._branch_off(output) if self._branches else output
        self.scheduler.update(plan, output.tokens, output.scripted)
        timings = Timings(
            schedule_ms=(scheduled_at - began) * 1e3,
            execute_ms=(executed_at - execute_from) * 1e3,
            commit_ms=(time.perf_counter() - executed_at) * 1e3,
        )
        self.next_step = index + 1
        return _Iteration(index, plan, output, in_flight, timings)

    def _picture_in_flight(self, index: int, plan: Plan) -> Snapshot:
        snapshot = self._camera.take(index, self.requests, plan, in_flight=True)
        self._auditor.in_flight(snapshot, self._camera.changes, plan, self.events)
        return snapshot

    def _record(self, done: _Iteration) -> Step:
        if done.in_flight is None:
            raise RuntimeError("this engine does not record; call advance()")
        output = done.output
        self._text = {**self._text, **output.text}
        events = tuple(self.events)
        self.events.clear()  # here, not at the step's beginning: a fork between two steps belongs to the next
        snapshot = self._camera.take(done.number, self.requests, done.plan, in_flight=False)
        return Step(
            index=done.number,
            scheduled_tokens=done.plan.tokens,
            events=events,
            sampled=dict(output.tokens),
            scheduled=done.in_flight,
            snapshot=snapshot,
            kernel=output.kernel,
            laws=self._auditor.after(snapshot, self._camera.changes, output.kernel),
            timings=done.timings,
            text=self._text,
        )

    def _note(self, event: Event) -> None:
        if self.log is not None:
            self.log.append(event)

    def _swap(self, plan: Plan) -> None:
        """KV moves before the kernels run: the blocks that a victim left may be written in this very step."""
        for job in plan.swaps:
            cost = self.runner.swap(job)
            if job.direction == "out":
                self._note(SwappedOut(job.request, job.pairs, job.tokens, cost.bytes, cost.ms))
            else:
                self._note(SwappedIn(job.request, job.pairs, job.tokens, job.hit_blocks, cost.bytes, cost.ms))

    def _check(self, spec: RequestSpec) -> None:
        """Intake: everything that would make a request wait for ever is said now, with the numbers."""
        unborn = (child.id for specs in self._branches.values() for child in specs)
        if spec.id in self.requests or spec.id in self._pending or spec.id in unborn:
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

    def _taken(self) -> set[str]:
        unborn = (child.id for specs in self._branches.values() for child in specs)
        return {*self.requests, *self._pending, *unborn}

    def _request(self, request_id: str) -> Request:
        if request_id in self.requests:
            return self.requests[request_id]
        raise UserError("fork.waiting" if request_id in self._pending else "request.unknown", id=request_id)

    def _children(
        self,
        parent: RequestSpec,
        n: int,
        samplings: Sequence[SamplingParams] | None,
        outputs: Sequence[tuple[int, ...]] | None,
    ) -> list[RequestSpec]:
        children = branching.child_specs(parent, n, self._taken(), self.next_step, samplings, outputs)
        for child in children:
            self._check(child)
        return children

    def _expect(self, request_id: str, children: list[RequestSpec]) -> None:
        """Notes the children that will part from a request at its next token; none: it will not fork."""
        if children:
            self._branches[request_id] = children
            self.scheduler.expected[request_id] = len(children)
        else:
            self._branches.pop(request_id, None)
            self.scheduler.expected.pop(request_id, None)

    def _bear(self, parent: Request, specs: Sequence[RequestSpec]) -> list[Request]:
        born = []
        for spec in specs:
            child = branching.offspring(parent, spec, arrival=len(self.requests))
            blocks = self.kv.fork(parent, child)
            self.requests[child.id] = child
            self.scheduler.adopt(child)
            self._note(RequestArrived(child.id, child.num_prompt_tokens, spec.max_tokens))
            ids = tuple(block.id for block in blocks)
            self._note(Forked(parent.id, child.id, ids, child.num_computed_tokens))
            born.append(child)
        return born

    def _branch_off(self, output: RunnerOutput) -> RunnerOutput:
        """Forks those who sampled a token and were to part there; the children's tokens join the step's."""
        for request_id in [name for name in output.tokens if name in self._branches]:
            parent, specs = self.requests[request_id], self._branches[request_id]
            self._expect(request_id, [])
            drawn = self.runner.fork(parent, self._bear(parent, specs), draw=True)
            output = replace(
                output,
                tokens={**output.tokens, **drawn.tokens},
                scripted=output.scripted | drawn.scripted,
                text={**output.text, **drawn.text},
            )
        return output

    def _abort(self, request_ids: list[str]) -> None:
        for request_id in request_ids:
            self._expect(request_id, [])
            for parent, specs in list(self._branches.items()):
                self._expect(parent, [spec for spec in specs if spec.id != request_id])
            self._pending.cancel(request_id)
            request = self.requests.get(request_id)
            if request is not None and not request.status.is_over:
                self._note(RequestAborted(request_id))
                self.scheduler.abort(request)

    def _arrive(self, index: int) -> None:
        for spec in self._pending.due(index):
            request = Request(spec, arrival=len(self.requests))
            self.requests[spec.id] = request
            self._note(RequestArrived(spec.id, len(spec.prompt), spec.max_tokens))
            self.scheduler.add(request)

    @property
    def texts(self) -> Mapping[str, str]:
        """Text generated so far, by request."""
        return self._text

"""Who was served how much, and who had to wait for whom: per request, and per client as virtual token counters."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import inf

from engine.events import Admitted, Forked, RequestAborted, RequestArrived, RequestFinished, Scheduled, TokenSampled
from engine.spread import Spread, spread
from engine.timeline import Step
from engine.virtual_counters import VirtualCounters


@dataclass(frozen=True, slots=True)
class ServiceWeights:
    """What an input and an output token count as service; 1 and 2 as in the VTC paper's evaluation (§5.1)."""

    w_in: float = 1.0
    w_out: float = 2.0


@dataclass(frozen=True, slots=True)
class RequestService:
    """One request. `service` = w_in · input tokens + w_out · output tokens; work done again is not service.

    `wait_steps`: from arrival to first compute. `largest_gap_steps`: from one computing step to the next at most (1 is
    no pause), a pause that has not ended included. `overtaken`: later arrivals that computed first.
    """

    request: str
    client: str
    service: float
    wait_steps: int | None
    largest_gap_steps: int | None
    largest_gap_ms: float | None
    overtaken: int


@dataclass(frozen=True, slots=True)
class ClientService:
    """Service a client received, and its virtual token counter: the same, lifted whenever it came back from idling."""

    client: str
    service: float
    counter: float


@dataclass(frozen=True, slots=True)
class Fairness:
    """Jain's index is 1 when all get the same and 1/n when one has all.

    `jain_service`: over the service of requests. `jain_rate`: over their service per ms of stay, which does not favour
    those that ask for more. The VTC view (arXiv 2401.00588) compares clients while both are backlogged, that is have a
    request waiting: `max_service_difference` over any such stretch of steps, which their scheduler keeps within
    `service_bound` = 2 · max(w_in · L_input, w_out · M) (Theorem 4.4), and `max_counter_difference` at any step, within
    half of that (Lemma 4.3). L_input: longest prompt; M: slots of the pool. Differences are None where no two clients
    were ever backlogged together.
    """

    weights: ServiceWeights
    requests: tuple[RequestService, ...]
    clients: tuple[ClientService, ...]
    wait_steps: Spread | None
    largest_gap_steps: int | None
    overtaken: int
    jain_service: float | None
    jain_rate: float | None
    max_service_difference: float | None
    service_bound: float | None
    max_counter_difference: float | None
    counter_bound: float | None


def jain(values: Sequence[float]) -> float | None:
    """(Σx)² / (n Σx²): Jain, Chiu, Hawe, DEC-TR-301 (1984). None if there is nobody, or nobody got anything."""
    squares = sum(value * value for value in values)
    return sum(values) ** 2 / (len(values) * squares) if squares else None


def overtaken(first_steps: Sequence[int | None]) -> list[int]:
    """For each in order of arrival: how many of those behind it had their first step before it (None = not yet)."""
    counts: list[int] = []
    behind: list[float] = []
    for step in reversed(first_steps):
        first = inf if step is None else step
        counts.append(bisect_left(behind, first))
        insort(behind, first)
    return counts[::-1]


@dataclass(slots=True)
class _Customer:
    client: str
    prompt_tokens: int
    arrived_step: int
    arrived_ms: float
    served_positions: int = 0  # of the prompt: found or computed for the first time
    service: float = 0.0
    first_step: int | None = None
    last_step: int = 0
    last_ms: float = 0.0
    gap_steps: int | None = None
    gap_ms: float | None = None
    ended_ms: float | None = None

    def compute(self, step: int, now: float) -> None:
        if self.first_step is None:
            self.first_step = step
        else:
            self.pause(step, now)
        self.last_step, self.last_ms = step, now

    def pause(self, step: int, now: float) -> None:
        """Notes the time from the last computing step to `step`."""
        if self.first_step is not None and step > self.last_step:
            self.gap_steps = max(self.gap_steps or 0, step - self.last_step)
            self.gap_ms = max(self.gap_ms or 0.0, now - self.last_ms)

    def prompt_service(self, end: int) -> int:
        """Prompt positions up to `end` that are valid for the first time."""
        reached = min(end, self.prompt_tokens)
        new = max(0, reached - self.served_positions)
        self.served_positions += new
        return new


@dataclass(slots=True)
class FairnessMeter:
    """Sees the steps of a run in order, then says how fair they were. `clients`: request id → client, if known."""

    weights: ServiceWeights = ServiceWeights()
    clients: Mapping[str, str] = field(default_factory=dict)
    _customers: dict[str, _Customer] = field(default_factory=dict)
    _counters: VirtualCounters = field(default_factory=VirtualCounters)
    _waiting: dict[str, None] = field(default_factory=dict)
    _slots: int = 0
    _step: int = 0
    _now: float = 0.0

    def see(self, step: Step, began: float, ended: float) -> None:
        """`began` and `ended` in ms on the run's clock."""
        pool = step.scheduled.pool
        self._slots, self._step, self._now = (pool.num_blocks - 1) * pool.block_size, step.index, ended
        parents = {event.request: event.parent for event in step.events if isinstance(event, Forked)}
        gained: dict[str, float] = {}
        for event in step.events:
            match event:
                case RequestArrived():
                    self._arrive(event, parents.get(event.request), began)
                case Forked():
                    self._customers[event.request].served_positions = event.tokens
                case Admitted():
                    self._counters.admit(self._customers[event.request].client)
                case Scheduled():
                    customer = self._customers[event.request]
                    customer.compute(step.index, ended)
                    new = customer.prompt_service(event.start + event.tokens)
                    self._serve(customer, self.weights.w_in * new, gained)
                case TokenSampled():
                    self._serve(self._customers[event.request], self.weights.w_out, gained)
                case RequestFinished():
                    self._customers[event.request].ended_ms = ended
                case RequestAborted() if event.request in self._customers:
                    self._customers[event.request].pause(step.index, began)
                    self._customers[event.request].ended_ms = began
                    self._waiting.pop(event.request, None)
        self._counters.serve(gained, self._clients_of(step.scheduled.waiting))
        self._waiting = dict.fromkeys(step.snapshot.waiting)

    def _arrive(self, event: RequestArrived, parent: str | None, began: float) -> None:
        client = self.clients.get(event.request, event.request)
        if parent is not None:
            client = self._customers[parent].client
        else:
            self._counters.arrive(client, self._clients_of(self._waiting))
            self._waiting[event.request] = None
        self._customers[event.request] = _Customer(client, event.prompt_tokens, self._step, began)

    def _serve(self, customer: _Customer, service: float, gained: dict[str, float]) -> None:
        customer.service += service
        gained[customer.client] = gained.get(customer.client, 0.0) + service

    def _clients_of(self, requests: Sequence[str] | Mapping[str, None]) -> dict[str, None]:
        return dict.fromkeys(self._customers[request].client for request in requests)

    def result(self) -> Fairness:
        customers = self._customers
        for customer in customers.values():
            if customer.ended_ms is None:
                customer.pause(self._step, self._now)
        counts = overtaken([customer.first_step for customer in customers.values()])
        requests = tuple(
            RequestService(
                request=name,
                client=each.client,
                service=each.service,
                wait_steps=None if each.first_step is None else each.first_step - each.arrived_step,
                largest_gap_steps=each.gap_steps,
                largest_gap_ms=each.gap_ms,
                overtaken=count,
            )
            for (name, each), count in zip(customers.items(), counts, strict=True)
        )
        longest = max((each.prompt_tokens for each in customers.values()), default=0)
        bound = max(self.weights.w_in * longest, self.weights.w_out * self._slots) if customers else None
        counters = self._counters
        return Fairness(
            weights=self.weights,
            requests=requests,
            clients=tuple(
                ClientService(client, counters.service[client], counters.counter[client])
                for client in dict.fromkeys(each.client for each in customers.values())
            ),
            wait_steps=spread([each.wait_steps for each in requests if each.wait_steps is not None]),
            largest_gap_steps=max((each.gap_steps for each in customers.values() if each.gap_steps), default=None),
            overtaken=sum(counts),
            jain_service=jain([each.service for each in requests]),
            jain_rate=jain(self._rates()),
            max_service_difference=counters.max_service_difference,
            service_bound=None if bound is None else 2 * bound,
            max_counter_difference=counters.max_counter_difference,
            counter_bound=bound,
        )

    def _rates(self) -> list[float]:
        rates = []
        for each in self._customers.values():
            stay = (self._now if each.ended_ms is None else each.ended_ms) - each.arrived_ms
            if stay > 0:
                rates.append(each.service / stay)
        return rates

"""How long each request waits, stretch by stretch, and who computed before it though it came later."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from engine.events import Forked, Preempted, RequestAborted, RequestArrived, Scheduled
from engine.timeline import Step


@dataclass(frozen=True, slots=True)
class Wait:
    """One stretch of waiting: from its arrival, or from its preemption (`resumed`), to the step it computes in.

    `end` None: it waits still. `steps`: its length so far. `overtaken`: later arrivals that computed first so far, as
    `engine.fairness.RequestService` counts them; 0 after a preemption, when nobody is new.
    """

    request: str
    begin: int
    end: int | None
    steps: int
    overtaken: int = 0
    resumed: bool = False


def waits(steps: Sequence[Step]) -> tuple[Wait, ...]:
    """Every stretch of a run from its first step on, by its beginning. A fork's children never wait."""
    begun: dict[str, int] = {}
    place: dict[str, int] = {}  # in order of arrival
    computed: set[str] = set()
    ahead: dict[str, int] = {}  # times overtaken, of those that have not computed yet
    found: list[Wait] = []
    for step in steps:
        born = {event.request for event in step.events if isinstance(event, Forked)}
        first: list[str] = []
        for event in step.events:
            match event:
                case RequestArrived() if event.request not in born:
                    begun[event.request], ahead[event.request] = step.index, 0
                    place[event.request] = len(place)
                case Preempted():
                    begun[event.request] = step.index
                case RequestAborted() if event.request in begun:
                    found.append(_wait(event.request, begun, step.index, True, ahead, computed))
                case Scheduled() if event.request in begun:
                    found.append(_wait(event.request, begun, step.index, True, ahead, computed))
                    if event.request not in computed:
                        first.append(event.request)
        computed.update(first)
        for other in ahead:
            if other not in computed:
                ahead[other] += sum(1 for request in first if place[request] > place[other])
    now = steps[-1].index if steps else 0
    found += [_wait(request, begun, now, False, ahead, computed) for request in list(begun)]
    return tuple(sorted(found, key=lambda wait: (wait.begin, place[wait.request])))


def _wait(
    request: str, begun: dict[str, int], step: int, over: bool, ahead: dict[str, int], computed: set[str]
) -> Wait:
    begin = begun.pop(request)
    resumed = request in computed
    overtaken = 0 if resumed else ahead[request]
    return Wait(request, begin, step if over else None, step - begin, overtaken, resumed)

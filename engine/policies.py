"""Who waits in which order, and who gives way: FCFS and priority as in vLLM 0.33 (`request_queue.py`)."""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Callable, Iterator, Sequence

from engine.config import Policy, Victim
from engine.request import Request, RequestStatus


def _rank(request: Request) -> tuple[int, int]:
    """Smaller is served first: lower priority number, then earlier arrival."""
    return request.spec.priority, request.arrival


class WaitingQueue:
    """Priority: a heap, which has no front. Else a deque to whose front a preempted request returns."""

    def __init__(self, policy: Policy) -> None:
        self._by_priority = policy == "priority"
        self._deque: deque[Request] = deque()
        self._heap: list[tuple[tuple[int, int], str, Request]] = []

    def __len__(self) -> int:
        return len(self._heap) if self._by_priority else len(self._deque)

    def __iter__(self) -> Iterator[Request]:
        """In the order in which they will be served."""
        if self._by_priority:
            return (entry[2] for entry in sorted(self._heap, key=lambda entry: entry[:2]))
        return iter(self._deque)

    @property
    def head(self) -> Request:
        return self._heap[0][2] if self._by_priority else self._deque[0]

    def add(self, request: Request) -> None:
        if self._by_priority:
            heapq.heappush(self._heap, (_rank(request), request.id, request))
        else:
            self._deque.append(request)

    def put_back(self, request: Request) -> None:
        """Returns a preempted request: to the front under FCFS, to its rank under priority."""
        assert request.status is RequestStatus.PREEMPTED
        if self._by_priority:
            self.add(request)
        else:
            self._deque.appendleft(request)

    def reorder(self, requests: Sequence[Request]) -> None:
        """Takes a new order; under priority the queue has its own."""
        assert not self._by_priority
        self._deque = deque(requests)

    def pop(self) -> Request:
        return heapq.heappop(self._heap)[2] if self._by_priority else self._deque.popleft()

    def remove(self, request: Request) -> None:
        if self._by_priority:
            self._heap = [entry for entry in self._heap if entry[2] is not request]
            heapq.heapify(self._heap)
        else:
            self._deque.remove(request)


def choose_victim(
    running: Sequence[Request],
    policy: Policy,
    victim: Victim = "auto",
    held: Callable[[Request], int] = lambda request: 0,
) -> Request:
    """Who gives way when a running request lacks a block; it may be the one that asks.

    auto: as vLLM (`Scheduler.schedule`), lowest_priority under priority and last_admitted otherwise.
    last_admitted: the end of the running list. lowest_priority: the least important, latest arrival first.
    least_progress: fewest positions computed, latest arrival first, so that the least work is lost.
    most_blocks: most blocks by `held`, latest arrival first; the oldest running request is spared, since a request
    that grows the longest would otherwise lose its blocks again and again.
    """
    if victim == "auto":
        victim = "lowest_priority" if policy == "priority" else "last_admitted"
    if victim == "last_admitted":
        return running[-1]
    if victim == "lowest_priority":
        return max(running, key=_rank)
    if victim == "least_progress":
        return min(running, key=lambda request: (request.num_computed_tokens, -request.arrival))
    oldest = min(running, key=lambda request: request.arrival)
    others = [request for request in running if request is not oldest] or [oldest]
    return max(others, key=lambda request: (held(request), request.arrival))

"""Requests that have been given but have not arrived yet."""

from __future__ import annotations

import heapq
from collections.abc import Iterator

from engine.request import RequestSpec


class Arrivals:
    """In order of (arrival step, order given). Adding and taking cost O(log n), so long traces stay linear."""

    def __init__(self) -> None:
        self._heap: list[tuple[int, int, str]] = []
        self._specs: dict[str, RequestSpec] = {}
        self._given = 0

    def __len__(self) -> int:
        return len(self._specs)

    def __contains__(self, request_id: str) -> bool:
        return request_id in self._specs

    def __iter__(self) -> Iterator[str]:
        return iter(self._specs)

    def get(self, request_id: str) -> RequestSpec | None:
        return self._specs.get(request_id)

    def add(self, spec: RequestSpec) -> None:
        heapq.heappush(self._heap, (spec.arrival_step, self._given, spec.id))
        self._specs[spec.id] = spec
        self._given += 1

    def cancel(self, request_id: str) -> None:
        """Forgets a request; its place in the heap is skipped when its turn comes."""
        self._specs.pop(request_id, None)

    def due(self, step: int) -> Iterator[RequestSpec]:
        """Takes out, in order, whoever arrives at `step` or before."""
        while self._heap and self._heap[0][0] <= step:
            spec = self._specs.pop(heapq.heappop(self._heap)[2], None)
            if spec is not None:
                yield spec

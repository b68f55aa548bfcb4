"""Virtual token counters: which client is owed service, kept beside whatever scheduler runs.

Source: Sheng et al., "Fairness in Serving Large Language Models", arXiv 2401.00588, Algorithm 2.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Mapping

Pair = tuple[str, str]


class VirtualCounters:
    """Service and counter by client, and how far apart backlogged clients came: those with a request waiting."""

    def __init__(self) -> None:
        self.service: defaultdict[str, float] = defaultdict(float)
        self.counter: defaultdict[str, float] = defaultdict(float)
        self.max_counter_difference: float | None = None
        self.max_service_difference: float | None = None
        self._last_out: str | None = None  # the client whose request left the waiting queue last
        self._together: dict[Pair, tuple[float, float]] = {}  # least and most difference while both are backlogged

    def arrive(self, client: str, queued: Collection[str]) -> None:
        """Lifts the counter of a client with nothing waiting: it gets no credit for the time it asked for nothing.

        `queued`: clients with a request in the waiting queue.
        """
        if client in queued:
            return
        if queued:
            floor = min(self.counter[each] for each in queued)
        else:
            floor = 0.0 if self._last_out is None else self.counter[self._last_out]
        self.counter[client] = max(self.counter[client], floor)

    def admit(self, client: str) -> None:
        self._last_out = client

    def serve(self, gained: Mapping[str, float], backlogged: Collection[str]) -> None:
        """Adds the service of a step, then compares the clients that were backlogged all through it."""
        self._together = {
            pair: seen for pair, seen in self._together.items() if pair[0] in backlogged and pair[1] in backlogged
        }
        served = [client for client in gained if client in backlogged]
        moved = {(min(one, other), max(one, other)) for one in served for other in backlogged if one != other}
        before = {pair: self._difference(pair) for pair in moved}
        for client, service in gained.items():
            self.service[client] += service
            self.counter[client] += service
        if len(backlogged) < 2:
            return
        widest = self.max_service_difference or 0.0
        for pair, difference in before.items():  # a pair not moved before had this difference since it is backlogged
            low, high = self._together.get(pair, (difference, difference))
            now = self._difference(pair)
            self._together[pair] = low, high = min(low, now), max(high, now)
            widest = max(widest, high - low)
        self.max_service_difference = widest
        counters = [self.counter[client] for client in backlogged]
        self.max_counter_difference = max(self.max_counter_difference or 0.0, max(counters) - min(counters))

    def _difference(self, pair: Pair) -> float:
        return self.service[pair[0]] - self.service[pair[1]]

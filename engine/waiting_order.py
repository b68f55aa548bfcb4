"""Who is admitted next: SGLang's orders of the waiting queue, worked out anew before a step admits.

Source: SGLang 0.5.23 `schedule_policy.SchedulePolicy.calc_priority`. Sorting is stable and starts from the order that
the last sorting left. Looking prefixes up for it counts as an access of the cache.
"""

from __future__ import annotations

import random
from collections.abc import Collection, Sequence
from math import inf
from typing import NamedTuple

import numpy as np

from engine.config import EngineConfig
from engine.events import Event, QueueSorted, TwinDeferred
from engine.kv_manager import KVManager
from engine.prefix_radix import RadixTree
from engine.radix_key import radix_key
from engine.radix_node import RadixNode
from engine.radix_pages import RadixPages
from engine.request import Request
from engine.slots import SlotPool

LONGEST_MATCHED_QUEUE = 128  # waiting requests; lpm and hrrn leave a longer queue as it is
CACHE_AWARE = ("lpm", "dfs-weight", "hrrn", "shortest-prefill-first")


class Stay(NamedTuple):
    """When a request began to wait: the how-manieth to do so, in which step, after how many prefilled tokens."""

    turn: int
    step: int
    prefilled: int


class WaitingOrder:
    """Sorts the queue by `config.policy`; those that ask the cache fall back to fcfs where there is none."""

    def __init__(self, config: EngineConfig, kv: KVManager, log: list[Event] | None) -> None:
        self._config = config
        self._kv = kv
        self._log = log
        cached = config.enable_prefix_caching and config.kv_layout == "paged"
        self.policy = "fcfs" if config.policy in CACHE_AWARE and not cached else config.policy
        self.step = 0
        self.prefilled = 0  # tokens of prompts, and of what is computed again, over all steps
        self._stays: dict[str, Stay] = {}
        self._turns = 0
        self._random = random.Random(config.seed)

    def enter(self, request: Request) -> None:
        """Notes that `request` waits from now on."""
        self._stays[request.id] = Stay(self._turns, self.step, self.prefilled)
        self._turns += 1

    def leave(self, request: Request) -> None:
        self._stays.pop(request.id, None)

    def sort(self, waiting: Sequence[Request]) -> list[Request]:
        """`waiting` in the order of admission."""
        result = self._sorted(waiting)
        if self._log is not None and list(waiting) != result:
            self._log.append(QueueSorted(self.policy, tuple(request.id for request in result)))
        return result

    def _sorted(self, waiting: Sequence[Request]) -> list[Request]:
        if self.policy == "lof":
            return sorted(waiting, key=lambda request: -request.spec.max_tokens)
        if self.policy == "random":
            return self._random.sample(list(waiting), len(waiting))
        crowded = len(waiting) > LONGEST_MATCHED_QUEUE and self.policy in ("lpm", "hrrn")
        if self.policy == "fcfs" or crowded:
            return list(waiting)
        if self.policy == "dfs-weight":
            assert isinstance(self._kv, RadixPages)  # `EngineConfig` sees to it
            return by_dfs_weight(self._kv.tree.root, [(request, self._kv.match(request)) for request in waiting])
        cached = {request.id: self._kv.matched_tokens(request) for request in waiting}
        late = self._twins(waiting, cached)
        key = {"lpm": self._lpm, "hrrn": self._hrrn, "shortest-prefill-first": self._shortest}[self.policy]
        return sorted(waiting, key=lambda request: (request.id in late, *key(request, cached[request.id])))

    def _lpm(self, request: Request, cached: int) -> tuple[float]:
        """Longest prefix match. `lpm_ageing`, which SGLang has not: each step of waiting counts as so many tokens."""
        waited = self.step - self._stays[request.id].step
        return (-(cached + self._config.lpm_ageing * waited),)

    def _hrrn(self, request: Request, cached: int) -> tuple[float, str]:
        """Highest response ratio next: tokens prefilled since it came, by tokens it would have to prefill."""
        uncached = request.num_prompt_tokens - cached
        if uncached <= 0:
            return -inf, request.id
        return -(self.prefilled - self._stays[request.id].prefilled) / uncached, request.id

    def _shortest(self, request: Request, cached: int) -> tuple[int, int]:
        return max(1, request.num_tokens - cached), self._stays[request.id].turn

    def _twins(self, waiting: Sequence[Request], cached: dict[str, int]) -> Collection[str]:
        """Requests that should wait for one before them in the queue to compute what they share.

        Source: `_compute_prefix_matches`: who finds little in the cache is looked up in a tree of the queue itself.
        """
        late: set[str] = set()
        queue = RadixTree(SlotPool(1, 1))
        for request in waiting:
            if cached[request.id] > self._config.in_batch_check:
                continue
            key = radix_key(request.token_ids, request.spec.adapter, request.spec.salt)
            shared = queue.match(key).usable
            if shared >= self._config.in_batch_deprioritize:
                late.add(request.id)
                if self._log is not None:
                    self._log.append(TwinDeferred(request.id, shared, cached[request.id]))
            else:
                queue.insert(key, np.zeros(key.units, np.int64))  # the tree of the queue has no pages
        return late


def by_dfs_weight(root: RadixNode, matches: Sequence[tuple[Request, RadixNode]]) -> list[Request]:
    """Depth first, the child with the most waiting requests below it first; a node's own requests come last.

    Source: `base_prefix_cache._dfs_weight_order`.
    """
    ending: dict[RadixNode, list[Request]] = {}
    weight: dict[RadixNode, int] = {}
    for request, node in matches:
        ending.setdefault(node, []).append(request)
        step: RadixNode | None = node
        while step is not None:
            weight[step] = weight.get(step, 0) + 1
            step = step.parent
    order: list[Request] = []
    stack = [(root, False)]
    while stack:
        node, visited = stack.pop()
        if visited:
            order += ending.get(node, ())
            continue
        stack.append((node, True))
        heavy = sorted(
            (child for child in node.children.values() if child in weight), key=weight.__getitem__, reverse=True
        )
        stack.extend((child, False) for child in reversed(heavy))
    return order

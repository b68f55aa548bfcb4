"""The same requests through both prefix caches in lock-step, the radix tree by several page sizes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from engine.config import EngineConfig
from engine.engine import Engine
from engine.events import Admitted, HashEvicted
from engine.metrics import measure
from engine.radix_events import NodeEvicted, PrefixMatched
from engine.request import RequestSpec
from engine.runner import ScriptedRunner
from engine.timeline import Step

PAGE_SIZES = (1, 4, 16)


@dataclass(frozen=True, slots=True)
class CacheUse:
    """What a request had of a cache. `hit_tokens`: reused at its first admission, None if it never came to one.

    `matched_tokens` were cached, also those that fill no whole page (radix; hashed blocks know whole blocks only);
    `held_blocks` is the largest block table it had; `evicted_tokens` left the cache to make room for it.
    """

    hit_tokens: int | None
    matched_tokens: int | None
    held_blocks: int
    evicted_tokens: int
    computed_tokens: int
    recomputed_tokens: int


Uses = Mapping[str, CacheUse]  # by request


def contenders(config: EngineConfig, page_sizes: Sequence[int] = PAGE_SIZES) -> dict[str, EngineConfig]:
    """`hash 4`, `radix 4` …: both caches at each page size, in pools of as many slots as `config` has or a few more."""
    slots = config.usable_blocks * config.block_size
    sized = {size: replace(config, block_size=size, num_blocks=1 + -(-slots // size)) for size in page_sizes}
    return {
        f"{cache} {size}": replace(each, cache=cache) for size, each in sized.items() for cache in ("hash", "radix")
    }


def lock_step(configs: Mapping[str, EngineConfig], specs: Sequence[RequestSpec]) -> Iterator[Mapping[str, Step]]:
    """A step of each engine at a time, until all are done; one that is done before makes no more steps.

    Without a model: each request must script its output.
    """
    engines = {name: Engine(each, ScriptedRunner()) for name, each in configs.items()}
    for engine in engines.values():
        for spec in specs:
            engine.add(spec)
    while going := {name: engine for name, engine in engines.items() if not engine.is_done}:
        yield {name: engine.step() for name, engine in going.items()}


def compare_caches(
    config: EngineConfig, specs: Sequence[RequestSpec], page_sizes: Sequence[int] = PAGE_SIZES
) -> dict[str, Uses]:
    """Contender → request → its use of the cache."""
    ran: dict[str, list[Step]] = {}
    for steps in lock_step(contenders(config, page_sizes), specs):
        for name, step in steps.items():
            ran.setdefault(name, []).append(step)
    return {name: uses(steps) for name, steps in ran.items()}


def uses(steps: Sequence[Step]) -> Uses:
    """What each request of a whole run had of the cache."""
    matched, evicted, held = _matched(steps), _evicted(steps), _held(steps)
    return {
        each.request: CacheUse(
            hit_tokens=each.first_hit_tokens,
            matched_tokens=matched.get(each.request, each.first_hit_tokens),
            held_blocks=held.get(each.request, 0),
            evicted_tokens=evicted.get(each.request, 0),
            computed_tokens=each.computed_tokens,
            recomputed_tokens=each.recomputed_tokens,
        )
        for each in measure(steps).requests
    }


def _matched(steps: Sequence[Step]) -> dict[str, int]:
    """Of the lookup that the first admission followed."""
    last: dict[str, int] = {}
    found: dict[str, int] = {}
    for step in steps:
        for event in step.events:
            if isinstance(event, PrefixMatched) and event.request is not None and event.request not in found:
                last[event.request] = event.matched
            elif isinstance(event, Admitted) and event.request in last:
                found.setdefault(event.request, last[event.request])
    return found


def _evicted(steps: Sequence[Step]) -> dict[str, int]:
    counts: dict[str, int] = {}
    for step in steps:
        for event in step.events:
            match event:
                case HashEvicted():
                    counts[event.request] = counts.get(event.request, 0) + step.scheduled.pool.block_size
                case NodeEvicted(request=str(request)):
                    counts[request] = counts.get(request, 0) + event.tokens
    return counts


def _held(steps: Sequence[Step]) -> dict[str, int]:
    most: dict[str, int] = {}
    for step in steps:
        for view in step.scheduled.requests:
            most[view.id] = max(most.get(view.id, 0), len(view.block_table))
    return most

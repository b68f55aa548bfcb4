"""The same requests through both prefix caches in lock-step, the radix tree by several page sizes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from functools import lru_cache

from engine.config import EngineConfig
from engine.engine import Engine
from engine.events import Admitted, HashEvicted
from engine.metrics import measure
from engine.radix_events import NodeEvicted, PrefixMatched
from engine.request import RequestSpec
from engine.runner import ScriptedRunner
from engine.timeline import Step
from scenarios import load
from scenarios.recording import recordings, replay

PAGE_SIZES = (1, 4, 16)


@dataclass(frozen=True, slots=True)
class CacheUse:
    """What a request had of a cache. `hit_tokens`: reused at its first admission, None if it never came to one.

    `prompt_tokens` is what it brought; the last of them is computed in any case, so that nothing matches it.
    `matched_tokens` were cached, also those that fill no whole page (radix; hashed blocks know whole blocks only);
    `held_blocks` is the largest block table it had; `evicted_tokens` left the cache to make room for it.
    """

    prompt_tokens: int
    hit_tokens: int | None
    matched_tokens: int | None
    held_blocks: int
    evicted_tokens: int
    computed_tokens: int
    recomputed_tokens: int


Uses = Mapping[str, CacheUse]  # by request


@dataclass(frozen=True, slots=True)
class CacheRun:
    """A whole run over one cache; `uses` by request in order of arrival."""

    config: EngineConfig
    steps: tuple[Step, ...]
    uses: Uses

    @property
    def total(self) -> CacheUse:
        """All requests together; `held_blocks` is the most that were owned at once, each counted once."""
        each = self.uses.values()
        return CacheUse(
            prompt_tokens=sum(use.prompt_tokens for use in each),
            hit_tokens=sum(use.hit_tokens or 0 for use in each),
            matched_tokens=sum(use.matched_tokens or 0 for use in each),
            held_blocks=max((step.scheduled.pool.owned for step in self.steps), default=0),
            evicted_tokens=sum(use.evicted_tokens for use in each),
            computed_tokens=sum(use.computed_tokens for use in each),
            recomputed_tokens=sum(use.recomputed_tokens for use in each),
        )


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


def replayable() -> list[str]:
    """Recorded scenarios that both caches can run: the radix tree knows no forks."""
    names = (name for name in load.library() if name in recordings())
    return [name for name in names if all(entry.n == 1 for entry in load.load(name).requests)]


@lru_cache(maxsize=16)
def replay_caches(name: str, hash_size: int, page_sizes: tuple[int, ...] = PAGE_SIZES) -> Mapping[str, CacheRun]:
    """A library scenario's recorded tokens over hashed blocks of `hash_size`, then over the tree at each page size.

    Step n of one is step n of all. Paged KV, preemption by recompute and a prefix cache, whatever the scenario has.
    """
    written = load.load(name).config
    base = replace(written, kv_layout="paged", preemption="recompute", enable_prefix_caching=True)
    chosen = contenders(base, [hash_size]), contenders(base, page_sizes)
    named = {f"hash {hash_size}": chosen[0][f"hash {hash_size}"]} | {
        name: config for name, config in chosen[1].items() if config.cache == "radix"
    }
    found = {}
    for contender, config in named.items():
        steps = replay(name, _changes(written, config))
        found[contender] = CacheRun(config, steps, uses(steps))
    return found


def _changes(written: EngineConfig, config: EngineConfig) -> tuple[tuple[str, object], ...]:
    pairs = ((each.name, getattr(config, each.name)) for each in fields(EngineConfig))
    return tuple(pair for pair in pairs if pair[1] != getattr(written, pair[0]))


def uses(steps: Sequence[Step]) -> Uses:
    """What each request of a whole run had of the cache."""
    matched, evicted, held = _matched(steps), _evicted(steps), _held(steps)
    prompts = {view.id: view.prompt_tokens for step in steps for view in step.scheduled.requests}
    return {
        each.request: CacheUse(
            prompt_tokens=prompts[each.request],
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

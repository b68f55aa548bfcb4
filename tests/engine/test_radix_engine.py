"""The engine over a radix tree: who finds what, when it can be found, whose pages hold it, and that the text stays."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from engine import radix_rows
from engine.config import EngineConfig
from engine.engine import Engine
from engine.errors import UserError
from engine.events import Preempted
from engine.model.weights import find_smollm2
from engine.prefix_radix import RadixTree
from engine.radix_events import DuplicatesFreed, LockTaken, NodeEvicted, NodeSplit, RowReleased
from engine.radix_pages import RadixPages
from engine.request import RequestSpec
from engine.slots import SlotPool
from engine.timeline import Step
from tests.engine.replay import assert_laws, engine_of, hits, run, spec
from tests.engine.test_numerics import generate, output, prompts

smollm2 = pytest.param(
    "smollm2",
    marks=[
        pytest.mark.model,
        pytest.mark.skipif(find_smollm2() is None, reason="the SmolLM2 weights are not installed (make model)"),
    ],
)


def radix(page: int = 1, slots: int = 40, **config: object) -> Engine:
    return engine_of(cache="radix", block_size=page, num_blocks=1 + slots // page, **config)


def events(steps: list[Step], kind: type) -> list:  # type: ignore[type-arg]
    return [event for step in steps for event in step.events if isinstance(event, kind)]


@pytest.mark.parametrize(("cache", "page", "hit"), [("radix", 1, 14), ("radix", 4, 12), ("hash", 4, 12)])
def test_o10_the_next_turn_of_a_chat_finds_the_answer_but_for_the_token_without_kv(
    cache: str, page: int, hit: int
) -> None:
    engine = engine_of(cache=cache, block_size=page, num_blocks=1 + 40 // page)
    first = spec("chat", 10, 5)
    following = spec("next", (*first.prompt, *first.output, 1, 2, 3, 4, 5), 2, arrival_step=8)  # type: ignore[misc]
    assert hits(run(engine, first, following), "next") == [hit]


def test_o09_the_second_of_two_twins_lets_go_of_its_pages_once_its_table_names_the_trees(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    engine = radix(slots=16)
    free = SlotPool.free

    def free_and_look(pool: SlotPool, pages: np.ndarray) -> None:
        tables = [engine.kv.block_table(name) for name in engine.requests]
        named = {block.id for table in tables for block in table}
        assert not named & set(np.asarray(pages).tolist()), "freed while a table names it"
        free(pool, pages)

    monkeypatch.setattr(SlotPool, "free", free_and_look)
    a, b = spec("A", (5, 6, 7, 8), 3), spec("B", (5, 6, 7, 8), 3)
    steps = run(engine, a, b)
    views = steps[0].snapshot.requests
    assert [view.block_table for view in views] == [(1, 2, 3, 4), (1, 2, 3, 4)]
    assert [view.block_table for view in steps[0].scheduled.requests] == [(1, 2, 3, 4), (5, 6, 7, 8)]
    assert events(steps[:1], DuplicatesFreed) == [DuplicatesFreed("B", (5, 6, 7, 8))]
    assert steps[0].snapshot.pool.ref_count[1:9] == (2, 2, 2, 2, 0, 0, 0, 0)


def test_a_chunk_can_be_hit_before_its_request_ends_but_not_before_it_is_computed() -> None:
    engine = radix(max_num_batched_tokens=8, max_num_seqs=3)
    a = spec("A", 20, 4)
    steps = run(engine, a, spec("B", a.prompt, 2, arrival_step=2))
    assert hits(steps, "B") == [16], "two chunks of 8 are in the tree when the third leaves room for B"
    assert steps[0].scheduled.radix is not None
    assert steps[0].scheduled.radix.protected == 0, "scheduled only"
    assert steps[0].snapshot.radix is not None
    assert steps[0].snapshot.radix.protected == 8


def test_a_fork_inherits_its_lock_in_the_engine_too() -> None:
    engine = radix()
    steps = run(engine, spec("A", (1, 2, 3, 4), 6), spec("B", (1, 2, 9), 6, arrival_step=2))
    (split,) = [event for event in events(steps, NodeSplit) if event.cause == "match"]
    assert split.lock_ref == 1, "A holds what B forks from"
    view = steps[2].snapshot.radix
    assert view is not None
    nodes = {node.id: node for node in view}
    assert nodes[split.upper].lock_ref == 2
    assert sorted(child.lock_ref for child in nodes[split.upper].children) == [1, 1]
    assert next(event.path for event in events(steps, LockTaken) if event.request == "B") == (split.upper,)


def test_the_prompt_outlives_its_answer() -> None:
    """`_insert_cache` splits at the prompt's end; the answer alone is evicted for a request that needs room."""
    engine = radix(slots=12)
    a = spec("A", 6, 4)
    steps = run(engine, a, spec("B", 4, 2, arrival_step=6), spec("C", a.prompt, 2, arrival_step=12))
    assert next(event.tokens for event in events(steps, NodeEvicted)) == 3
    assert hits(steps, "C") == [5]


def test_what_a_preempted_request_computed_is_not_stored() -> None:
    engine = radix(slots=16, max_num_seqs=3)
    steps = run(engine, spec("A", 6, 8), spec("B", 5, 8))
    assert [event.request for event in events(steps, Preempted)] == ["B"]
    released = next(event for event in events(steps, RowReleased) if event.cause == "preempted")
    assert len(released.stored) == 5, "its prompt was, after the prefill"
    assert released.freed, "its answer was not"


def test_the_picture_knows_owned_cached_and_free() -> None:
    engine = radix(page=4, slots=32)
    steps = run(engine, spec("A", 9, 4))
    during, after = steps[1].snapshot.pool, steps[-1].snapshot.pool
    assert (during.owned, during.num_evictable, during.num_free) == (3, 0, 5)
    assert (after.owned, after.num_evictable, after.num_free) == (0, 3, 5)
    assert after.free_queue == (4, 5, 6, 7, 8)
    assert [name is not None for name in after.hashes] == [False, True, True, True, *[False] * 5]
    assert after.fill[1:4] == (4, 4, 4)


def test_pictures_share_the_subtrees_that_nothing_touched() -> None:
    engine = radix()
    steps = run(engine, spec("A", (1, 2, 3), 2), spec("B", (7, 8, 9), 8, arrival_step=3))
    views = [step.snapshot.radix for step in steps[-3:-1]]
    assert views[0] is not None
    assert views[1] is not None
    assert views[0].root is views[1].root, "decodes do not touch the tree"


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        ({"cache": "tree"}, "cache is tree; choose one of: hash, radix."),
        ({"eviction_policy": "best"}, "eviction_policy is best; choose one of: lru, lfu"),
        ({"cache": "radix", "preemption": "swap"}, "which needs preemption to be recompute / delay, but it is swap."),
        ({"cache": "radix", "kv_layout": "contiguous"}, "cache is radix, which needs kv_layout to be paged"),
        ({"policy": "dfs-weight"}, "policy is dfs-weight, which needs cache to be radix, but it is hash."),
        ({"admission": "sglang", "batching": "static"}, "which needs batching to be continuous"),
        ({"schedule_conservativeness": 0.0}, "schedule_conservativeness is 0.0"),
        ({"lpm_ageing": -1}, "lpm_ageing is -1"),
    ],
)
def test_settings_that_cannot_be_are_one_sentence(settings: dict[str, object], says: str) -> None:
    with pytest.raises(UserError) as raised:
        EngineConfig(**settings)  # type: ignore[arg-type]
    assert says in str(raised.value)


def test_a_part_filled_page_has_one_owner_so_nobody_forks() -> None:
    engine = radix()
    with pytest.raises(UserError, match="cannot be forked while cache is radix; set it to hash"):
        engine.add(spec("A", 4, 4, n=2))
    assert engine.is_done


@pytest.mark.parametrize("name", ["toy", smollm2])
def test_the_text_does_not_depend_on_the_cache(name: str) -> None:
    """Hash and radix, roomy and tight, by the token and by the page, against each request alone without a cache."""
    first = prompts(name)[0]
    common = first[: len(first) * 2 // 3]
    specs = [RequestSpec(f"r{n}", (*common, *first[n : n + 9]), 12, arrival_step=3 * n) for n in range(5)]
    alone = {
        each.id: output(generate(name, [each], enable_prefix_caching=False, num_blocks=128)[0], each.id)
        for each in specs
    }
    need = len(first) + 24
    variants: list[dict[str, object]] = [
        {"cache": "hash", "block_size": 4, "num_blocks": 128},
        {"cache": "radix", "block_size": 4, "num_blocks": 128},
        {"cache": "radix", "block_size": 4, "num_blocks": need // 4 + 8, "max_num_batched_tokens": 24},
        {"cache": "radix", "block_size": 1, "num_blocks": need + 24, "policy": "lpm", "eviction_policy": "lfu"},
        {"cache": "radix", "block_size": 16, "num_blocks": 16, "admission": "sglang"},
    ]
    for settings in variants:
        engine, steps = generate(name, specs, **settings)
        assert {each.id: output(engine, each.id) for each in specs} == alone, settings
        assert all(step.laws[9].checked for step in steps if step.scheduled_tokens)
        assert sum(sum(hits(steps, each.id)) for each in specs) > len(common), "the cache was of use"


def _store_one_token_more(kv: RadixPages, request: object) -> None:
    request.num_computed_tokens += 1  # type: ignore[attr-defined]
    _store(kv, request)  # type: ignore[arg-type]
    request.num_computed_tokens -= 1  # type: ignore[attr-defined]


def _free_duplicates_never(tree: RadixTree, row: radix_rows.RadixRow, key: object, prompt_tokens: object) -> None:
    free, tree.pool.free = tree.pool.free, lambda pages: None  # type: ignore[method-assign]
    _checkpoint(tree, row, key, prompt_tokens)  # type: ignore[arg-type]
    tree.pool.free = free  # type: ignore[method-assign]


def _lock_nothing(tree: RadixTree, node: object, request: str | None = None) -> int:
    return 0


def _release_keeps_the_lock(tree: RadixTree, row: radix_rows.RadixRow) -> None:
    tree.pool.free(row.pages[row.owned // tree.pool.page_size :])


def _release_frees_all(tree: RadixTree, row: radix_rows.RadixRow) -> None:
    tree.pool.free(row.pages)
    tree.unlock(row.node, row.request)


def _recount_nothing(kv: RadixPages, request_id: str, pages: object) -> None:
    return


def _keep_own_pages(tree: RadixTree, row: radix_rows.RadixRow, key: object, prompt_tokens: object) -> None:
    pages = row.pages
    _checkpoint(tree, row, key, prompt_tokens)  # type: ignore[arg-type]
    row.pages = pages


def _evict_anything(tree: RadixTree, units: int, request: str | None = None) -> list:  # type: ignore[type-arg]
    for node in list(tree.root.children.values()):
        if not node.children:
            tree._remove(node, request)
    return []


_store, _checkpoint, _lock = RadixPages.store, radix_rows.checkpoint, RadixTree.lock
MUTATIONS: list[tuple[object, str, Callable[..., object]]] = [
    (RadixPages, "store", _store_one_token_more),
    (radix_rows, "checkpoint", _free_duplicates_never),
    (RadixTree, "lock", _lock_nothing),
    (radix_rows, "release", _release_keeps_the_lock),
    (radix_rows, "release", _release_frees_all),
    (RadixPages, "_recount", _recount_nothing),
    (radix_rows, "checkpoint", _keep_own_pages),
    (RadixTree, "evict", _evict_anything),
]


def pressure(page: int) -> list[str]:
    """Hits, twins, forks, preemption and eviction over a small tree; the laws broken on the way."""
    engine = radix(page, slots=40, max_num_batched_tokens=16, max_num_seqs=4)
    shared = tuple(range(8))
    for number in range(6):
        tail = tuple(range(100 * number, 100 * number + 5))
        engine.add(spec(f"r{number}", shared + tail, 9, arrival_step=number // 2))
    engine.add(spec("twin", shared, 3, arrival_step=9))
    engine.add(spec("other", shared, 3, arrival_step=9))
    broken: list[str] = []
    for _ in range(120):
        if engine.is_done:
            return broken
        broken += [f"law {law.law}: {law.broken_by}" for law in engine.step().laws if not law.holds]
    return [*broken, "no end"]


@pytest.mark.parametrize("page", [1, 4])
@pytest.mark.parametrize(("owner", "name", "mutant"), MUTATIONS, ids=[mutant.__name__ for _, _, mutant in MUTATIONS])
def test_every_mutation_is_caught(
    monkeypatch: pytest.MonkeyPatch, owner: object, name: str, mutant: Callable[..., object], page: int
) -> None:
    assert pressure(page) == []
    monkeypatch.setattr(owner, name, mutant)
    try:
        broken = pressure(page)
    except (AssertionError, KeyError, UserError, IndexError, ValueError):
        return  # the engine's own checks stopped it, which is a catch too
    assert broken


def test_a_large_pool_is_audited_by_what_changed() -> None:
    engine = radix(page=2, slots=1200, max_num_batched_tokens=64)
    shared = tuple(range(40))
    for number in range(12):
        engine.add(spec(f"r{number}", (*shared[: 30 + number], 900 + number), 9, arrival_step=number))
    while not engine.is_done:
        assert_laws(engine.step())
    assert engine.kv.pool.num_free == 600

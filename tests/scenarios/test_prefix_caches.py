"""Both caches beside each other: what a page size costs in hits, with the numbers of case O10's chat."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from engine.config import EngineConfig
from scenarios import load
from scenarios.prefix_caches import CacheRun, compare_caches, contenders, lock_step, replay_caches, replayable, uses
from tests.engine.replay import spec

CONFIG = EngineConfig(block_size=4, num_blocks=17, max_num_batched_tokens=64)


def chat() -> list:  # type: ignore[type-arg]
    first = spec("first", 10, 5)
    return [first, spec("next", (*first.prompt, *first.output, 1, 2, 3, 4, 5), 2, arrival_step=8)]  # type: ignore[misc]


def test_the_page_size_decides_what_is_usable_of_what_is_matched() -> None:
    found = compare_caches(CONFIG, chat())
    assert list(found) == ["hash 1", "radix 1", "hash 4", "radix 4", "hash 16", "radix 16"]
    hits = {name: (uses["next"].matched_tokens, uses["next"].hit_tokens) for name, uses in found.items()}
    assert hits["radix 1"] == (14, 14)
    assert hits["radix 4"] == (12, 12)
    assert hits["hash 4"] == (12, 12)
    assert hits["hash 1"][1] == 14
    assert hits["radix 16"][1] == hits["hash 16"][1] == 0
    assert {name: uses["next"].held_blocks for name, uses in found.items() if "radix" in name} == {
        "radix 1": 21, "radix 4": 6, "radix 16": 2,
    }  # fmt: skip


def test_matched_is_more_than_usable_where_texts_part_inside_a_page() -> None:
    specs = [spec("A", range(12), 2), spec("B", [*range(6), 90, 91, 92], 2, arrival_step=4)]
    use = compare_caches(CONFIG, specs, [4])["radix 4"]["B"]
    assert (use.matched_tokens, use.hit_tokens, use.computed_tokens) == (6, 4, 9 - 4 + 1)


def test_pools_hold_as_many_tokens_and_steps_go_side_by_side() -> None:
    configs = contenders(CONFIG)
    assert {each.usable_blocks * each.block_size for each in configs.values()} == {64}
    for number, steps in enumerate(lock_step(configs, chat())):
        assert {step.index for step in steps.values()} == {number}


def test_evictions_count_tokens_of_whom_they_made_room_for() -> None:
    small = EngineConfig(block_size=4, num_blocks=5, max_num_batched_tokens=64)
    found = compare_caches(small, [spec("A", 12, 2), spec("B", 14, 2, arrival_step=4)], [4])
    assert found["radix 4"]["B"].evicted_tokens == 12
    assert found["hash 4"]["B"].evicted_tokens > 0
    assert found["radix 4"]["A"].evicted_tokens == 0


def test_the_command_line_compares_the_caches() -> None:
    command = [
        sys.executable, "-m", "scenarios", "compare", "twins", "--model", "toy", "--a", "cache=hash", "--b",
        "cache=radix", "--json",
    ]  # fmt: skip
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found["settings"] == {"cache": ["hash", "radix"]}
    assert found["outputs_differ"] == []
    assert found["first_difference"]["kind"] in ("hit", "tokens")


def test_every_scenario_but_those_that_fork_runs_over_both() -> None:
    assert set(load.library()) - set(replayable()) == {"parallel_sampling"}
    for name in replayable():
        runs = replay_caches(name, 4)
        assert list(runs) == ["hash 4", "radix 1", "radix 4", "radix 16"]
        slots = {run.config.usable_blocks * run.config.block_size for run in runs.values()}
        assert max(slots) - min(slots) < 16, "pools of the same size, but for a part page"


def test_the_most_held_is_counted_while_a_step_runs() -> None:
    """A request of one token ends in the step in which it came: afterwards nobody owns a block."""
    ran = [steps["hash 4"] for steps in lock_step({"hash 4": CONFIG}, [spec("A", 9, 1)])]
    assert [step.snapshot.pool.owned for step in ran] == [0]
    assert CacheRun(CONFIG, tuple(ran), uses(ran)).total.held_blocks == 3


@pytest.mark.parametrize("name", replayable())
def test_owned_cached_and_empty_blocks_are_the_pool_whichever_cache(name: str) -> None:
    for run in replay_caches(name, 4).values():
        for step in run.steps:
            pool = step.snapshot.pool
            assert pool.owned + pool.cached + pool.free_empty == run.config.usable_blocks


def test_the_page_size_of_the_shared_prompt_decides_what_b_reuses() -> None:
    """A's and B's prompts share 43 tokens of 57 (`shared_prefix`); one of the first 57 is always computed."""
    runs = replay_caches("shared_prefix", 16)
    found = {name: run.uses["B"] for name, run in runs.items()}
    assert {name: (use.matched_tokens, use.hit_tokens) for name, use in found.items()} == {
        "hash 16": (32, 32), "radix 1": (43, 43), "radix 4": (43, 40), "radix 16": (43, 32),
    }  # fmt: skip
    assert {use.prompt_tokens for use in found.values()} == {57}


def test_sums_count_every_request_and_a_shared_block_once() -> None:
    for run in replay_caches("shared_prefix", 16).values():
        total = run.total
        assert total.hit_tokens == sum(use.hit_tokens or 0 for use in run.uses.values())
        assert total.prompt_tokens == sum(use.prompt_tokens for use in run.uses.values())
        assert total.held_blocks <= run.config.usable_blocks
        assert max(use.held_blocks for use in run.uses.values()) <= total.held_blocks
        assert total.held_blocks < sum(use.held_blocks for use in run.uses.values())

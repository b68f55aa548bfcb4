"""Random arrivals and aborts under every way to hold KV, to batch and to make room; the laws are the oracle."""

from __future__ import annotations

import pytest
from hypothesis import settings
from hypothesis.stateful import invariant, run_state_machine_as_test

from engine.contiguous import Contiguous, holes
from tests.engine.replay import engine_of
from tests.engine.test_laws import EngineMachine

VARIANTS: dict[str, dict[str, object]] = {
    "swap": {"preemption": "swap"},
    "small host": {"preemption": "swap", "swap_blocks": 3, "enable_prefix_caching": False},
    "swap by priority": {"preemption": "swap", "policy": "priority", "victim": "most_blocks"},
    "delay": {"preemption": "delay", "watermark": 0.1},
    "least progress": {"victim": "least_progress"},
    "most blocks": {"victim": "most_blocks", "enable_prefix_caching": False},
    "lowest priority": {"victim": "lowest_priority", "scheduler_reserve_full_isl": False},
    "most blocks, no reserve": {"victim": "most_blocks", "scheduler_reserve_full_isl": False},
    "least progress, no reserve": {"victim": "least_progress", "scheduler_reserve_full_isl": False},
    "contiguous": {"kv_layout": "contiguous", "contiguous_reserve": "known"},
    "best fit": {"kv_layout": "contiguous", "contiguous_reserve": "known", "contiguous_fit": "best"},
    "contiguous at most": {"kv_layout": "contiguous", "policy": "priority"},
    "static": {"batching": "static"},
    "radix": {"cache": "radix"},
    "radix by the token": {"cache": "radix", "block_size": 1, "num_blocks": 17, "eviction_policy": "lfu"},
    "radix by priority": {"cache": "radix", "policy": "priority", "eviction_policy": "priority"},
    "radix, static": {"cache": "radix", "batching": "static"},
    "radix, delay": {"cache": "radix", "preemption": "delay"},
    "radix, no caching": {"cache": "radix", "enable_prefix_caching": False, "policy": "lpm"},
    "radix, lookahead": {"cache": "radix", "num_lookahead_tokens": 1, "victim": "most_blocks"},
    "longest prefix": {"cache": "radix", "policy": "lpm", "in_batch_check": 4, "in_batch_deprioritize": 2},
    "ageing": {"policy": "lpm", "lpm_ageing": 1},
    "depth first": {"cache": "radix", "policy": "dfs-weight"},
    "response ratio": {"cache": "radix", "policy": "hrrn", "eviction_policy": "slru"},
    "shortest prefill": {"policy": "shortest-prefill-first"},
    "longest output": {"policy": "lof"},
    "random": {"policy": "random", "cache": "radix", "eviction_policy": "mru"},
    "estimate": {"admission": "sglang"},
    "sglang": {"admission": "sglang", "cache": "radix", "policy": "lpm", "schedule_conservativeness": 0.1},
    "static contiguous": {"batching": "static", "kv_layout": "contiguous", "contiguous_reserve": "known"},
}


@pytest.mark.parametrize("name", VARIANTS)
def test_machine(name: str) -> None:
    class Machine(EngineMachine):
        def __init__(self) -> None:
            super().__init__()
            base = {"block_size": 2, "num_blocks": 9, "max_num_batched_tokens": 8, "max_num_seqs": 3}
            self.engine = engine_of(**{**base, **VARIANTS[name]})

        def teardown(self) -> None:
            super().teardown()
            swap = self.engine.scheduler.swap
            assert swap is None or swap.num_free == swap.num_blocks

        @invariant()
        def both_ways_to_find_holes_agree(self) -> None:
            kv = self.engine.kv
            if isinstance(kv, Contiguous):
                assert list(kv._holes()) == list(holes([block.ref_count for block in kv.pool.blocks]))

    run_state_machine_as_test(Machine, settings=settings(max_examples=10, stateful_step_count=30, deadline=None))

"""Use and waste of blocks, slots and rows, on runs small enough to count."""

from __future__ import annotations

from engine.metrics import measure
from engine.spread import spread
from engine.usage import Swapped, Usage
from tests.engine.replay import engine_of, run, spec
from tests.engine.ticks import Ticks


def test_paged_slots_fill_one_by_one() -> None:
    """A (5, 4) in blocks of 4: positions 5, 6, 7, 8 in 2 blocks of 8 slots, so that 3, 2, 1, 0 are not written."""
    usage = measure(run(engine_of(block_size=4, num_blocks=9), spec("A", 5, 4)), Ticks(100)).usage
    assert (usage.block_size, usage.usable_blocks) == (4, 8)
    assert usage.owned_blocks == spread([2, 2, 2, 2])
    assert usage.written_slots == spread([5, 6, 7, 8])
    assert usage.internal_waste_slots == spread([3, 2, 1, 0])
    assert usage.reserved_slots is usage.external_waste_slots is None, "there is no such thing in paged KV"
    assert usage.peak_kv_bytes == 2 * 4 * 100


def test_a_shared_block_counts_once() -> None:
    """B finds the first 8 of its 9 tokens in A's blocks: 3 + 1 blocks, 9 + 1 written slots, in B's first step."""
    engine = engine_of(block_size=4, num_blocks=17, max_num_batched_tokens=64)
    steps = run(engine, spec("A", range(9), 3), spec("B", range(9), 1, arrival_step=1))
    usage = measure(steps[:2]).usage
    assert usage.owned_blocks == spread([3, 4])
    assert usage.written_slots == spread([9, 10 + 9 - 8])
    assert usage.internal_waste_slots == spread([3, 16 - 11])


def test_steps_without_work_do_not_dilute() -> None:
    """Nothing runs in steps 0 to 4: usage is over the two steps that ran."""
    usage = measure(run(engine_of(block_size=4, num_blocks=9), spec("A", 3, 2, arrival_step=5))).usage
    assert usage.owned_blocks == spread([1, 1])


def test_contiguous_waste_is_split() -> None:
    """A (5, 4): a run of 9 tokens, 3 blocks = 12 slots, of which 8 are used in the end: internal 4 at every step."""
    config = {"kv_layout": "contiguous", "contiguous_reserve": "known", "block_size": 4, "num_blocks": 9}
    usage = measure(run(engine_of(**config), spec("A", 5, 4))).usage
    assert usage.written_slots == spread([5, 6, 7, 8])
    assert usage.reserved_slots == spread([3, 2, 1, 0])
    assert usage.internal_waste_slots == spread([4, 4, 4, 4])
    assert usage.external_waste_slots == spread([0, 0, 0, 0])


def test_external_waste_is_what_the_head_of_the_queue_cannot_use() -> None:
    """A and C leave holes of 2 + 2 blocks around B; D wants 3: 16 slots are no use while it waits, in steps 2 to 5."""
    config = {"kv_layout": "contiguous", "contiguous_reserve": "known", "block_size": 4, "num_blocks": 7}
    specs = [spec("A", 6, 2), spec("B", 2, 6), spec("C", 6, 2), spec("D", 9, 3, arrival_step=2)]
    steps = run(engine_of(**config), *specs)
    assert measure(steps).usage.external_waste_slots == spread([0, 0, 16, 16, 16, 16, 0, 0, 0])


def test_idle_rows_of_static_batching() -> None:
    """A ends after one step, B after three: A's row is idle for two steps beside 2 + 1 + 1 that computed."""

    def usage(**config: object) -> Usage:
        return measure(run(engine_of(max_num_seqs=2, **config), spec("A", 1, 1), spec("B", 1, 3))).usage

    static, continuous = usage(batching="static"), usage()
    assert (static.row_steps, static.idle_row_steps, static.idle_row_share) == (4, 2, 2 / 6)
    assert (continuous.row_steps, continuous.idle_row_steps, continuous.idle_row_share) == (4, 0, 0.0)


def test_swapped_kv_is_counted_on_the_clock() -> None:
    """B's 8 positions leave in 2 blocks of 4 and come back in 2: 4 · 4 bytes, and 1.5 ms each way on ticks."""
    engine = engine_of(preemption="swap", swap_blocks=2, block_size=4, num_blocks=5, enable_prefix_caching=False)
    steps = run(engine, spec("A", 4, 9), spec("B", 4, 9))
    assert measure(steps, Ticks()).usage.swapped == Swapped(2, 2, 16, 3.0)
    assert measure(steps).usage.swapped == Swapped(2, 2, None, None), "no model, no KV to copy"
    assert measure(run(engine_of(), spec("A", 4, 2)), Ticks()).usage.swapped == Swapped(0, 0, None, None)


def test_peak_memory_needs_a_model() -> None:
    assert measure(run(engine_of(), spec("A", 4, 2))).usage.peak_kv_bytes is None

"""The contiguous baseline: where runs lie, what they waste, and that everything else works on them unchanged."""

from __future__ import annotations

import pytest

from engine.contiguous import Hole, Waste, choose_hole, holes, measure_waste
from engine.errors import UserError
from engine.events import Preempted, RunReserved, Waited, WaitReason
from tests.engine.replay import emitted, engine_of, hits, run, spec


def contiguous(**config: object) -> dict[str, object]:
    return {"kv_layout": "contiguous", "block_size": 4, "max_num_batched_tokens": 64, **config}


def test_holes_leave_out_the_null_block() -> None:
    assert list(holes([0, 0, 1, 0, 0, 2, 0])) == [Hole(1, 1), Hole(3, 2), Hole(6, 1)]
    assert list(holes([0, 1, 1])) == []


def test_first_fit_takes_the_lowest_best_fit_the_tightest() -> None:
    found = [Hole(1, 5), Hole(8, 3), Hole(14, 3), Hole(20, 2)]
    assert choose_hole(found, 3, "first") == Hole(1, 5)
    assert choose_hole(found, 3, "best") == Hole(8, 3)
    assert choose_hole(found, 6, "first") is None
    assert choose_hole(found, 6, "best") is None


def test_waste_at_the_maximum_length() -> None:
    """12 usable blocks of 4 = 48 slots; max_model_len 16 → runs of 4 blocks = 16 slots.

    A (5, 4) computes 5 + 4 - 1 = 8 positions, B (3, 2) computes 4. After the first step A holds 5 and B 3:
    used 5 + 3 = 8; reserved (8 - 5) + (4 - 3) = 4; internal (16 - 8) + (16 - 4) = 20; free 48 - 2·16 = 16.
    """
    engine = engine_of(**contiguous(num_blocks=13, max_model_len=16))
    engine.add(spec("A", 5, 4))
    engine.add(spec("B", 3, 2))
    snapshot = engine.step().scheduled
    assert snapshot.request("A").block_table == (1, 2, 3, 4)
    assert snapshot.request("B").block_table == (5, 6, 7, 8)
    assert measure_waste(snapshot, next_run=4) == Waste(used=8, reserved=4, internal=20, free=16, external=0)


def test_waste_at_the_known_length() -> None:
    """A (5, 4): 9 tokens → 3 blocks = 12 slots, 8 positions used in the end; B (3, 2): 5 tokens → 2 blocks = 8, 4.

    used 8 and reserved 4 as before; internal (12 - 8) + (8 - 4) = 8; free 48 - 20 = 28.
    """
    engine = engine_of(**contiguous(num_blocks=13, max_model_len=16, contiguous_reserve="known"))
    engine.add(spec("A", 5, 4))
    engine.add(spec("B", 3, 2))
    snapshot = engine.step().scheduled
    assert measure_waste(snapshot, next_run=4) == Waste(used=8, reserved=4, internal=8, free=28, external=0)


def fragmented() -> dict[str, object]:
    return contiguous(num_blocks=7, contiguous_reserve="known")


def fragmenting() -> list:
    """A and C end after two steps and leave #1–2 and #5–6 free around B in #3–4; D wants 9 + 3 tokens = 3 blocks."""
    return [spec("A", 6, 2), spec("B", 2, 6), spec("C", 6, 2), spec("D", 9, 3, arrival_step=2)]


def test_external_fragmentation_makes_a_request_wait_that_paging_admits() -> None:
    engine = engine_of(**fragmented())
    steps = run(engine, *fragmenting())
    waits = [event for event in steps[2].events if isinstance(event, Waited)]
    assert waits == [Waited("D", WaitReason("hole", need=3, have=2))]
    # 4 free blocks of 4 slots, none of them in a hole of 3: all 16 free slots are of no use to D
    waste = measure_waste(steps[2].snapshot, next_run=3)
    assert (waste.free, waste.external) == (16, 16)
    assert steps[2].snapshot.budgets.binding == "blocks"
    assert emitted(steps, "B")[-1] == 6
    assert emitted(steps, "D")[0] == 7  # B's run joins the holes at the end of step 6
    paged = run(engine_of(block_size=4, num_blocks=7, max_num_batched_tokens=64), *fragmenting())
    assert emitted(paged, "D")[0] == 3


def test_events_say_which_hole_and_nothing_is_shared_or_preempted() -> None:
    engine = engine_of(**contiguous(num_blocks=13, max_model_len=16, contiguous_fit="best"))
    steps = run(engine, spec("A", range(8), 4), spec("B", range(8), 4), spec("C", range(8), 4), spec("D", range(8), 4))
    reserved = [event for step in steps for event in step.events if isinstance(event, RunReserved)]
    assert reserved[0] == RunReserved("A", first=1, length=4, hole=12, fit="best")
    assert [event.first for event in reserved] == [1, 5, 9, 1]
    assert all(count < 2 for step in steps for count in step.scheduled.pool.ref_count)
    assert hits(steps, "B") == [0]
    assert not any(isinstance(event, Preempted) for step in steps for event in step.events)
    assert engine.kv.pool.num_free == 12


def test_laws_about_published_blocks_are_not_checked() -> None:
    engine = engine_of(**contiguous(num_blocks=13))
    step = run(engine, spec("A", 5, 2))[0]
    assert [law.law for law in step.laws if not law.checked] == [7, 8, 10]


def test_what_cannot_fit_is_refused_with_the_length_of_its_run() -> None:
    engine = engine_of(**contiguous(num_blocks=5, max_model_len=64))
    with pytest.raises(UserError, match="Request A needs 5 blocks"):
        engine.add(spec("A", 16, 2))
    engine.add(spec("B", 12, 2))
    assert engine.step().scheduled.request("B").block_table == (1, 2, 3, 4)


def test_a_watermark_stays_free() -> None:
    engine = engine_of(**contiguous(num_blocks=10, max_model_len=16, watermark=0.2))  # int(0.2 · 10) = 2 of 9 usable
    engine.add(spec("A", 5, 2))
    engine.add(spec("B", 5, 2))
    waits = [event for event in engine.step().events if isinstance(event, Waited)]
    assert waits == [Waited("B", WaitReason("blocks", need=6, have=5))]


def test_never_preempts_so_a_way_to_do_it_is_refused() -> None:
    with pytest.raises(UserError, match="nothing is ever preempted"):
        engine_of(**contiguous(preemption="swap"))

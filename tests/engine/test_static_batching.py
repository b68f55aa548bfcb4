"""Static against continuous batching on lengths 20, 50, 200 and 500."""

from __future__ import annotations

from engine.events import Preempted, RowsIdle, Waited, WaitReason
from engine.static_batching import StaticBatching
from tests.engine.replay import emitted, engine_of, run, spec

LENGTHS = (20, 50, 200, 500)
ROOM = {"block_size": 16, "num_blocks": 256, "max_num_batched_tokens": 64, "max_num_seqs": 4}


def requests() -> list:
    """One prompt token each, so that a request of n output tokens computes in n steps; E comes behind the four."""
    return [*(spec(name, 1, length) for name, length in zip("ABCD", LENGTHS, strict=True)), spec("E", 1, 20)]


def test_everyone_waits_for_the_slowest() -> None:
    """The batch A-D lasts max(20, 50, 200, 500) = 500 steps, then E takes 20: 520 in all.

    Idle rows: (500 - 20) + (500 - 50) + (500 - 200) + 0 = 480 + 450 + 300 = 1230 row-steps of 4 · 500.
    """
    engine = engine_of(batching="static", **ROOM)
    steps = run(engine, *requests())
    assert len(steps) == 520
    assert [emitted(steps, name)[-1] for name in "ABCD"] == list(LENGTHS)
    assert (emitted(steps, "E")[0], emitted(steps, "E")[-1]) == (501, 520)
    assert isinstance(engine.scheduler, StaticBatching)
    assert engine.scheduler.idle_row_steps == 1230
    assert sum(event.idle for step in steps for event in step.events if isinstance(event, RowsIdle)) == 1230
    waits = [event for event in steps[100].events if isinstance(event, Waited)]
    assert waits == [Waited("E", WaitReason("batch", need=4, have=2))]


def test_continuous_batching_fills_the_row_at_once() -> None:
    """A's row is free after step 20, E computes in steps 21-40: 500 steps in all, bound by D alone."""
    steps = run(engine_of(**ROOM), *requests())
    assert len(steps) == 500
    assert (emitted(steps, "E")[0], emitted(steps, "E")[-1]) == (21, 40)


def test_a_batch_is_formed_whole_even_if_its_prompts_exceed_one_step() -> None:
    """Three prompts of 6 under a budget of 8: 6 + 2, then 4 + 4, then 2 and the first tokens; nobody joins later."""
    engine = engine_of(batching="static", block_size=4, num_blocks=33, max_num_batched_tokens=8, max_num_seqs=3)
    steps = run(engine, *(spec(name, 6, 4) for name in "ABCD"))
    assert steps[0].snapshot.running == ("A", "B", "C")
    assert dict(steps[0].scheduled_tokens) == {"A": 6, "B": 2}
    assert dict(steps[1].scheduled_tokens) == {"A": 1, "B": 4, "C": 3}
    assert emitted(steps, "D")[0] > max(emitted(steps, name)[-1] for name in "ABC")


def test_a_batch_gets_room_to_its_end() -> None:
    """6 usable blocks of 4; A, B (4, 9) need 3 each; C would need 3 more, so that the batch is A and B."""
    engine = engine_of(batching="static", block_size=4, num_blocks=7, max_num_batched_tokens=64, max_num_seqs=4)
    steps = run(engine, *(spec(name, 4, 9) for name in "ABC"))
    assert steps[0].snapshot.running == ("A", "B")
    waits = [event for event in steps[0].events if isinstance(event, Waited)]
    assert waits == [Waited("C", WaitReason("reserved", need=3, have=0))]
    assert not any(isinstance(event, Preempted) for step in steps for event in step.events)


def test_static_over_contiguous_runs() -> None:
    engine = engine_of(batching="static", kv_layout="contiguous", contiguous_reserve="known", **ROOM)
    assert len(run(engine, *requests())) == 520

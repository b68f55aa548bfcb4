"""Swap, delay and the choice of the victim, with scripted tokens and on the toy model."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeVar

import pytest

from engine import scheduler
from engine.config import EngineConfig
from engine.engine import Engine
from engine.errors import UserError
from engine.events import (
    Event,
    Preempted,
    PublicationWithdrawn,
    Scheduled,
    SwappedIn,
    SwappedOut,
    SwapRefused,
    Waited,
    WaitReason,
)
from engine.model.load import load_model
from engine.model_runner import ModelRunner
from engine.policies import choose_victim
from engine.request import Request, RequestSpec
from engine.swap import SwapCost, SwapJob
from engine.timeline import Step
from tests.engine.replay import assert_laws, emitted, engine_of, run, spec

E = TypeVar("E", bound=Event)
SMALL = {"block_size": 4, "num_blocks": 5, "max_num_batched_tokens": 64}
# 4 usable blocks; A ends with 3, B with 2: at A's position 8 both hold 2 and A asks for one more
TIGHT = {"block_size": 4, "num_blocks": 5, "max_num_batched_tokens": 64, "enable_prefix_caching": False}


def of(steps: Iterable[Step], kind: type[E]) -> list[E]:
    return [event for step in steps for event in step.events if isinstance(event, kind)]


class TestSwap:
    def test_nothing_is_computed_twice(self) -> None:
        """A, B (4, 9): 12 positions = 3 blocks each, 4 usable. At position 8 B gives way with 8 tokens in 2 blocks."""
        steps = run(engine_of(preemption="swap", swap_blocks=2, **TIGHT), spec("A", 4, 9), spec("B", 4, 9))
        [out], [back] = of(steps, SwappedOut), of(steps, SwappedIn)
        assert (out.request, out.tokens, [host for _, host in out.pairs]) == ("B", 8, [0, 1])
        assert (back.request, back.tokens, back.hit_blocks) == ("B", 8, 0)
        assert [host for _, host in back.pairs] == [0, 1]
        assert (out.bytes, out.ms) == (0, None)  # scripted: there is no KV
        assert sum(event.tokens for event in of(steps, Scheduled)) == 12 + 12
        assert of(steps, Preempted) == [Preempted("B", "A", need=1, have=0, lost_tokens=0)]

    def test_the_picture_while_it_is_out(self) -> None:
        engine = engine_of(preemption="swap", swap_blocks=2, **TIGHT)
        engine.add(spec("A", 4, 9))
        engine.add(spec("B", 4, 9))
        for _ in range(6):
            step = engine.step()
        view = step.snapshot.request("B")
        assert (view.host_blocks, view.block_table, view.computed_tokens) == ((0, 1), (), 8)
        assert_laws(step)

    def test_without_room_on_the_host_it_recomputes(self) -> None:
        steps = run(engine_of(preemption="swap", swap_blocks=1, **TIGHT), spec("A", 4, 9), spec("B", 4, 9))
        assert of(steps, SwapRefused) == [SwapRefused("B", need=2, have=1)]
        assert of(steps, Preempted) == [Preempted("B", "A", need=1, have=0, lost_tokens=8)]
        assert sum(event.tokens for event in of(steps, Scheduled)) == 12 + 12 + 8

    def test_an_abort_gives_the_host_blocks_back(self) -> None:
        engine = engine_of(preemption="swap", swap_blocks=2, **TIGHT)
        run(engine, spec("A", 4, 9), spec("B", 4, 9, abort_step=7))
        assert engine.scheduler.swap is not None
        assert engine.scheduler.swap.num_free == 2

    def test_a_shared_block_stays_and_is_hit_again(self) -> None:
        """A and B share #1; 5 usable. B's copy of it goes out as well, but comes back by sharing, not by copying."""
        shared = (1, 2, 3, 4)
        engine = engine_of(preemption="swap", block_size=4, num_blocks=6, max_num_batched_tokens=64)
        a, b = spec("A", (*shared, 5), 12), spec("B", (*shared, 6), 12, arrival_step=1)
        steps = run(engine, a, b)
        [out], [back] = of(steps, SwappedOut), of(steps, SwappedIn)
        assert out.request == back.request == "B"
        assert len(out.pairs) == 3
        assert back.hit_blocks >= 1
        assert len(back.pairs) == 3 - back.hit_blocks

    def test_needs_a_pool(self) -> None:
        with pytest.raises(UserError, match="swap_blocks is 0"):
            EngineConfig(preemption="swap", swap_blocks=0)


class TestSwapOnTheToyModel:
    PROMPTS = ((5, 6, 7, 8, 9, 10), (50, 51, 52, 53, 54), (90, 91, 92, 93, 94, 95, 96))

    def generate(self, runner: type[ModelRunner] = ModelRunner, **config: object) -> tuple[Engine, list[Step]]:
        settings = EngineConfig(**{"block_size": 4, "max_num_batched_tokens": 64, **config})  # type: ignore[arg-type]
        engine = Engine(settings, runner(load_model("toy"), settings))
        for number, prompt in enumerate(self.PROMPTS):
            engine.add(RequestSpec(f"r{number}", prompt, 20))
        steps = []
        while not engine.is_done:
            steps.append(engine.step())
        return engine, steps

    @pytest.mark.parametrize("caching", [True, False])
    @pytest.mark.parametrize("victim", ["auto", "most_blocks"])
    def test_same_text_as_without_pressure(self, caching: bool, victim: str) -> None:
        free, _ = self.generate(num_blocks=64)
        tight, steps = self.generate(num_blocks=12, preemption="swap", enable_prefix_caching=caching, victim=victim)
        for step in steps:
            assert_laws(step)
        for name, request in free.requests.items():
            assert tight.requests[name].output_token_ids == request.output_token_ids
        moved = [*of(steps, SwappedOut), *of(steps, SwappedIn)]
        assert len(moved) >= 2
        spec = load_model("toy").spec
        per_block = 2 * spec.num_layers * 4 * spec.num_kv_heads * spec.head_dim * 4  # K and V, float32
        for event in moved:
            assert event.bytes == len(event.pairs) * per_block
            assert event.ms is not None
            assert event.ms >= 0
        assert not any(event.work == "recompute" for event in of(steps, Scheduled))

    def test_a_copy_that_does_not_happen_is_seen(self) -> None:
        class Forgetful(ModelRunner):
            def swap(self, job: SwapJob) -> SwapCost:
                if job.direction == "in":
                    self.cache.key[:, [block for block, _ in job.pairs]] = float("nan")
                    return SwapCost(0, 0.0)
                return super().swap(job)

        _, steps = self.generate(Forgetful, num_blocks=12, preemption="swap", enable_prefix_caching=False)
        assert any(not step.laws[9].holds for step in steps)

    def test_contiguous_runs_give_the_same_text(self) -> None:
        free, _ = self.generate(num_blocks=64)
        runs, steps = self.generate(num_blocks=16, kv_layout="contiguous", contiguous_reserve="known")
        for step in steps:
            assert_laws(step)
        assert any(law.checked for step in steps for law in step.laws if law.law == 10)
        for name, request in free.requests.items():
            assert runs.requests[name].output_token_ids == request.output_token_ids


class TestDelay:
    def test_admits_only_what_can_finish(self) -> None:
        """4 usable blocks. A (4, 9) holds 1 of the 3 it needs, so 2 of the 3 free ones are promised; B wants 2."""
        steps = run(engine_of(preemption="delay", **SMALL), spec("A", 4, 9), spec("B", 4, 5))
        waits = [event for event in steps[0].events if isinstance(event, Waited)]
        assert waits == [Waited("B", WaitReason("reserved", need=2, have=1))]
        assert emitted(steps, "B")[0] == 10  # A ends in step 9
        assert not of(steps, Preempted)
        assert of(run(engine_of(**SMALL), spec("A", 4, 9), spec("B", 4, 9)), Preempted)

    def test_a_running_request_without_a_block_waits_a_step(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Without the rule at admission: in step 6 A asks for a third block while B, in its last step, holds two."""
        monkeypatch.setattr(scheduler, "reservation", lambda *_: None)
        steps = run(engine_of(preemption="delay", **SMALL), spec("A", 4, 9), spec("B", 3, 6))
        waits = [event for event in steps[5].events if isinstance(event, Waited)]
        assert waits == [Waited("A", WaitReason("delayed", need=1, have=0))]
        assert steps[5].snapshot.request("A").block_table
        assert 6 not in emitted(steps, "A")
        assert emitted(steps, "A")[-1] == 10
        assert not of(steps, Preempted)


class TestVictims:
    def running(self) -> list[Request]:
        found = []
        for arrival, (name, priority, computed) in enumerate(
            [("a", 0, 9), ("b", 5, 2), ("c", 5, 12), ("d", 1, 2), ("e", 0, 30)]
        ):
            request = Request(RequestSpec(name, (1,), 1, priority=priority), arrival)
            request.num_computed_tokens = computed
            found.append(request)
        return found

    def test_each_policy(self) -> None:
        blocks = {"a": 9, "b": 4, "c": 4, "d": 3, "e": 1}
        names = ("auto", "last_admitted", "least_progress", "most_blocks", "lowest_priority")
        chosen = {
            name: choose_victim(self.running(), "fcfs", name, lambda request: blocks[request.id]).id  # type: ignore[arg-type]
            for name in names
        }
        # d and b have computed 2 each, d came later; b and c hold 4 each (a, the oldest, is spared), c came later
        assert chosen == {
            "auto": "e", "last_admitted": "e", "least_progress": "d", "most_blocks": "c", "lowest_priority": "c",
        }  # fmt: skip
        assert choose_victim(self.running(), "priority").id == "c"
        assert choose_victim(self.running(), "priority", "last_admitted").id == "e"

    def test_the_only_one_is_its_own_victim(self) -> None:
        alone = self.running()[:1]
        assert choose_victim(alone, "fcfs", "most_blocks").id == "a"

    def test_in_an_engine(self) -> None:
        """5 usable blocks of 4: A and C come with 3 tokens, B with 7, so that B holds 2 from the start."""
        sizes = [spec("A", 3, 9, priority=1), spec("B", 7, 5), spec("C", 3, 9)]
        lost = {}
        for victim in ("last_admitted", "most_blocks", "lowest_priority", "least_progress"):
            engine = engine_of(victim=victim, block_size=4, num_blocks=6, max_num_batched_tokens=64)
            lost[victim] = of(run(engine, *sizes), Preempted)[0].request
        assert lost == {"last_admitted": "C", "most_blocks": "B", "lowest_priority": "A", "least_progress": "C"}

    def test_a_block_that_will_not_be_filled_is_taken_back(self) -> None:
        """Step 2: A's position 3 fills, and so publishes, its second block; then B asks for a third and A gives way."""
        engine = engine_of(victim="lowest_priority", block_size=2, num_blocks=5, max_num_batched_tokens=64)
        engine.add(spec("A", 3, 4, priority=5))
        engine.add(spec("B", 4, 2))
        engine.step()
        step = engine.step()
        [withdrawn] = of([step], PublicationWithdrawn)
        assert withdrawn.request == "A"
        assert step.snapshot.pool.hashes[withdrawn.block] is None
        assert list(step.scheduled_tokens) == ["B"]
        run(engine)


def test_o11_lookahead_slots_count_at_intake() -> None:
    """7 + 2 tokens compute 8 positions = 2 blocks; 3 lookahead slots make a third, and the pool has 2."""
    engine = engine_of(num_blocks=3, block_size=4, num_lookahead_tokens=3, max_num_batched_tokens=64)
    with pytest.raises(UserError, match=r"Request A needs 3 blocks .* but the pool has 2"):
        engine.add(spec("A", 7, 2))
    assert engine.is_done
    run(engine, spec("B", 4, 2))  # 5 positions + 3 = 8: just fits


@pytest.mark.parametrize(
    "field", ["kv_layout", "contiguous_fit", "contiguous_reserve", "batching", "preemption", "victim"]
)
def test_unknown_choices_are_refused_by_name(field: str) -> None:
    with pytest.raises(UserError, match=rf"{field} is other; choose one of"):
        EngineConfig(**{field: "other"})

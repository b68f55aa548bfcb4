"""Sessions: a visitor's cursor, the thread that runs ahead of it, edits and failure, without a browser."""

from __future__ import annotations

import threading
import time
from typing import Any

import pytest

from engine.config import EngineConfig
from engine.errors import UserError
from engine.events import Forked, RequestAborted
from engine.model.load import load_model
from engine.request import RequestStatus
from engine.runner import ScriptedRunner
from pages.figures.marks import Selection
from pages.ui.edits import Abort, Add, Configure, Edit, Fork
from pages.ui.session import Session, SessionRegistry
from pages.ui.workload import scenario_workload
from scenarios.schema import RequestEntry
from tests.engine.replay import spec
from tests.pages.fakes import ScriptedWorkload

SECONDS = 20.0
CONFIG = EngineConfig(block_size=4, num_blocks=17)


def session(tokens: int = 6, *, key: str = "w", config: EngineConfig = CONFIG, edits: tuple[Edit, ...] = ()) -> Session:
    return Session(ScriptedWorkload(config, (spec("A", 5, tokens),), key), edits)  # type: ignore[arg-type]


def go(visit: Session, step: int) -> None:
    """As the stage does it: ask, wait, move."""
    visit.want(step)
    visit.wait_for(step, SECONDS)
    visit.seek(step)


def add(step: int, name: str, prompt: int = 6, max_tokens: int = 3) -> Add:
    return Add(step=step, request=RequestEntry(id=name, prompt=tuple(range(1, prompt + 1)), max_tokens=max_tokens))


def decisions(visit: Session) -> list[tuple[Any, ...]]:
    """What each step decided and left behind, in values that compare."""
    return [
        (dict(step.scheduled_tokens), step.events, list(step.snapshot.requests), step.snapshot.pool.free_queue)
        for step in visit.steps
    ]


class TestStepping:
    def test_seek_is_absolute_and_back_does_not_compute(self) -> None:
        visit = session()
        go(visit, 3)
        third = visit.steps[2]
        assert (visit.cursor, visit.last) == (3, 3)
        go(visit, 2)
        assert (visit.cursor, visit.last) == (2, 3)
        assert visit.steps[visit.cursor] is third
        visit.seek(-99)
        assert visit.cursor == -1
        go(visit, 10**9)
        assert (visit.cursor, visit.last) == (5, 5)
        assert visit.is_over

    def test_runs_ahead_of_the_cursor_and_no_further(self) -> None:
        visit = session(tokens=30)
        visit.want(4)
        assert visit.wait_for(4, SECONDS)
        settle(visit)
        assert (visit.cursor, visit.last) == (-1, 4)

    def test_a_nearer_wish_ends_a_long_run(self, monkeypatch: pytest.MonkeyPatch) -> None:
        gate = held_back(monkeypatch)
        visit = session(tokens=30)
        visit.want(10**6)
        visit.want(0)
        gate.set()
        settle(visit)
        assert visit.last <= 1

    def test_closing_ends_the_run(self, monkeypatch: pytest.MonkeyPatch) -> None:
        gate = held_back(monkeypatch)
        visit = session(tokens=30)
        visit.want(10**6)
        visit.close()
        gate.set()
        settle(visit)
        assert visit.last <= 0

    def test_waiting_ends_with_the_run_or_the_time(self) -> None:
        visit = session()
        assert not visit.wait_for(0, 0.0), "nobody wants it"
        visit.want(10**6)
        assert not visit.wait_for(10**6, SECONDS), "the run is over before"
        assert visit.last == 5

    def test_a_failing_step_keeps_the_steps_before_it(self, monkeypatch: pytest.MonkeyPatch) -> None:
        visit = session()
        go(visit, 1)
        monkeypatch.setattr(ScriptedRunner, "execute", lambda *_: (_ for _ in ()).throw(RuntimeError("out of memory")))
        go(visit, 3)
        assert visit.failure == "out of memory"
        assert (visit.cursor, visit.last) == (1, 1)
        assert visit.is_over

    def test_selecting_moves_neither_cursor_nor_engine(self) -> None:
        visit = session()
        go(visit, 2)
        visit.select(Selection("block", 3))
        assert (visit.selection, visit.cursor, visit.last) == (Selection("block", 3), 2, 2)


def settle(visit: Session) -> None:
    """Until the session's thread has nothing left to do."""
    deadline = time.monotonic() + SECONDS
    while visit._worker is not None:
        assert time.monotonic() < deadline
        time.sleep(0.001)


def held_back(monkeypatch: pytest.MonkeyPatch) -> threading.Event:
    """Steps wait for the event, so that a test can act while one is under way."""
    gate = threading.Event()
    execute = ScriptedRunner.execute

    def held(*arguments: Any) -> Any:
        assert gate.wait(SECONDS)
        return execute(*arguments)

    monkeypatch.setattr(ScriptedRunner, "execute", held)
    return gate


class TestEdits:
    def test_going_on_from_an_older_step_drops_the_later_ones(self) -> None:
        visit = session(tokens=10)
        go(visit, 7)
        before, run = decisions(visit), visit.run
        visit.edit(add(4, "B"))
        assert (visit.cursor, visit.reached, visit.last) == (3, 3, 3)
        assert visit.run != run
        assert decisions(visit) == before[:4]
        go(visit, 4)
        assert visit.steps[4].scheduled_tokens == {"A": 1, "B": 6}
        assert visit.prompts["B"] == "prompt of B"

    def test_an_older_edit_drops_later_edits_and_keeps_earlier_ones(self) -> None:
        visit = session(tokens=12)
        visit.edit(add(2, "B"))
        visit.edit(add(6, "C"))
        visit.edit(add(4, "D"))
        assert [edit.request.id for edit in visit.edits if isinstance(edit, Add)] == ["B", "D"]
        go(visit, 10**6)
        assert [view.id for view in visit.steps[-1].snapshot.requests] == ["A", "B", "D"]

    def test_a_branch_that_was_left_comes_back_by_replaying_its_edits(self) -> None:
        visit = session(tokens=10)
        visit.edit(add(3, "B"))
        go(visit, 8)
        left, before = visit.edits, decisions(visit)
        visit.edit(Abort(step=2, request="A"))
        go(visit, 8)
        visit.replay(left, 8)
        assert decisions(visit)[:9] == before[:9]

    def test_abort_and_fork(self) -> None:
        visit = session(tokens=10)
        visit.edit(Fork(step=3, request="A", n=2))
        go(visit, 3)
        assert [event.request for event in visit.steps[3].events if isinstance(event, Forked)] == ["A.1", "A.2"]
        visit.edit(Abort(step=4, request="A.1"))
        go(visit, 4)
        assert RequestAborted("A.1") in visit.steps[4].events
        assert visit.steps[4].snapshot.request("A.1").status is RequestStatus.ABORTED
        assert all(law.holds for step in visit.steps for law in step.laws)

    def test_configuration_starts_the_same_requests_again_at_the_same_step(self) -> None:
        visit = session(tokens=10)
        visit.edit(add(2, "B"))
        go(visit, 5)
        visit.edit(Configure(changes={"num_blocks": 33}))
        visit.edit(Configure(changes={"block_size": 2}))
        assert (visit.engine.config.num_blocks, visit.engine.config.block_size) == (17, 2), "one replaces the other"
        assert visit.cursor == 5
        assert visit.steps[2].scheduled_tokens == {"A": 1, "B": 6}

    @pytest.mark.parametrize(
        ("edit", "key"),
        [
            (Abort(step=1, request="Z"), "request.unknown"),
            (Abort(step=6, request="A"), "edit.over"),
            (Fork(step=0, request="A"), "fork.waiting"),
            (Fork(step=2, request="A", n=64), "fork.seats"),
            (add(2, "A"), "request.duplicate"),
            (add(2, "B", max_tokens=400), "request.never_fits"),
            (Configure(changes={"num_blocks": 1}), "config.range"),
            (Configure(changes={"blocks": 9}), "config.unknown"),
            (Configure(changes={"num_blocks": 2}), "request.never_fits"),
        ],
    )
    def test_an_impossible_edit_changes_nothing(self, edit: Edit, key: str) -> None:
        visit = session()
        visit.edit(add(1, "C"))
        go(visit, 10**6)
        before, steps = (visit.run, visit.edits, visit.cursor, visit.engine, visit.prompts), list(visit.steps)
        with pytest.raises(UserError) as caught:
            visit.edit(edit)
        assert caught.value.key == key
        assert str(caught.value)
        assert (visit.run, visit.edits, visit.cursor, visit.engine, visit.prompts) == before
        assert visit.steps == steps

    def test_an_edit_while_the_thread_runs_waits_for_its_step(self) -> None:
        visit = session(tokens=40, config=EngineConfig(block_size=4, num_blocks=40))
        visit.want(10**6)
        visit.edit(add(3, "B"))
        settle(visit)
        assert visit.last == 2
        go(visit, 5)
        assert [step.index for step in visit.steps] == list(range(6))

    def test_after_the_last_step_a_request_makes_it_go_on(self) -> None:
        visit = session(tokens=2)
        go(visit, 10**6)
        visit.edit(add(visit.last + 1, "B"))
        assert not visit.is_over
        go(visit, 10**6)
        assert visit.steps[-1].snapshot.request("B").status is RequestStatus.FINISHED


class TestRegistry:
    def make(self, key: str = "w") -> Session:
        return session(key=key)

    def test_one_session_per_visitor_and_workload(self) -> None:
        registry = SessionRegistry()
        first = registry.get("ann", "w", self.make)
        assert registry.get("ann", "w", self.make) is first
        assert registry.get("bob", "w", self.make) is not first
        other = registry.get("ann", "v", lambda: self.make("v"))
        assert other is not first
        assert len(registry) == 2

    def test_the_least_recently_seen_leaves_over_the_cap(self) -> None:
        registry = SessionRegistry(limit=2)
        ann = registry.get("ann", "w", self.make)
        registry.get("bob", "w", self.make)
        assert registry.get("ann", "w", self.make) is ann
        registry.get("cy", "w", self.make)
        assert len(registry) == 2
        assert registry.get("ann", "w", self.make) is ann

    def test_stepping_counts_as_being_there(self) -> None:
        registry = SessionRegistry(limit=2)
        ann = registry.get("ann", "w", self.make)
        registry.get("bob", "w", self.make)
        assert registry.find("ann") is ann
        assert registry.find("nobody") is None
        registry.get("cy", "w", self.make)
        assert registry.get("ann", "w", self.make) is ann

    def test_idle_sessions_are_closed(self) -> None:
        registry = SessionRegistry(idle_seconds=-1)
        registry.get("ann", "w", self.make)
        assert len(registry) == 0

    def test_a_failed_creation_leaves_the_session_there_was(self) -> None:
        registry = SessionRegistry()
        first = registry.get("ann", "w", self.make)

        def refuse() -> Session:
            raise UserError("request.no_id")

        with pytest.raises(UserError):
            registry.get("ann", "v", refuse)
        assert registry.get("ann", "w", self.make) is first

    def test_a_failed_session_is_replaced(self) -> None:
        registry = SessionRegistry()
        first = registry.get("ann", "w", self.make)
        first.failure = "out of memory"
        assert registry.get("ann", "w", self.make) is not first

    def test_who_is_replaced_or_dropped_stops_computing(self) -> None:
        registry = SessionRegistry(limit=1)
        first = registry.get("ann", "w", self.make)
        second = registry.get("ann", "v", lambda: self.make("v"))
        registry.get("bob", "w", self.make)
        for visit in (first, second):
            visit.want(10**6)
            assert not visit.wait_for(0, 0.0)


def test_visitors_share_weights_and_nothing_else() -> None:
    loaded = load_model("toy")
    ready = scenario_workload("three_requests", "toy", loaded)
    one, two = ready.engine(ready.config), ready.engine(ready.config)
    one.step()
    assert two.next_step == 0
    assert one.kv.pool.num_free < two.kv.pool.num_free
    assert one.runner.loaded.model is two.runner.loaded.model  # type: ignore[attr-defined]
    assert one.runner.cache.key.data_ptr() != two.runner.cache.key.data_ptr()  # type: ignore[attr-defined]

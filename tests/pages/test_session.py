"""Sessions: a visitor's cursor, goal, play clock and failure, without a browser."""

from __future__ import annotations

import pytest

from engine.config import EngineConfig
from engine.errors import UserError
from engine.model.load import load_model
from engine.runner import ScriptedRunner
from pages.figures.marks import Selection
from pages.ui import session as session_module
from pages.ui.session import Session, SessionRegistry
from pages.ui.workload import Workload, scenario_workload, start
from tests.engine.replay import engine_of, spec


def workload(key: str = "w") -> Workload:
    return Workload(key, EngineConfig(), ())


def session(tokens: int = 6) -> Session:
    engine = engine_of(block_size=4, num_blocks=17)
    engine.add(spec("A", 5, tokens))
    return Session(workload(), engine)


def test_seek_is_absolute_and_back_does_not_compute() -> None:
    visit = session()
    visit.seek(3)
    assert (visit.cursor, len(visit.steps)) == (3, 4)
    visit.seek(0)
    assert (visit.cursor, len(visit.steps)) == (0, 4)
    visit.seek(-99)
    assert visit.cursor == -1
    visit.seek(10**9)
    assert (visit.cursor, len(visit.steps)) == (5, 6)
    assert visit.is_over
    assert not visit.is_running


def test_going_back_shows_the_same_step_again() -> None:
    visit = session()
    visit.seek(4)
    third = visit.steps[2]
    visit.seek(2)
    assert visit.steps[visit.cursor] is third


def test_play_takes_one_step_a_tick_and_ignores_a_stale_tick() -> None:
    visit = session()
    visit.play()
    assert visit.is_running
    visit.tick(-1)
    assert visit.cursor == 0
    visit.tick(-1)
    assert visit.cursor == 0, "that frame is no longer shown"
    visit.tick(0)
    assert visit.cursor == 1
    visit.stop()
    visit.tick(1)
    assert visit.cursor == 1
    assert not visit.is_running


def test_play_goes_through_steps_already_run() -> None:
    visit = session()
    visit.run_to_end()
    visit.seek(1)
    visit.play()
    visit.tick(1)
    assert (visit.cursor, len(visit.steps)) == (2, 6)


def test_a_long_run_answers_after_a_slice_and_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(session_module, "SLICE_SECONDS", 0.0)
    visit = session()
    visit.run_to_end()
    assert visit.cursor == 0
    assert visit.is_running
    for cursor in range(5):
        visit.tick(cursor)
    assert visit.cursor == 5
    assert not visit.is_running


def test_a_failing_step_keeps_the_steps_before_it(monkeypatch: pytest.MonkeyPatch) -> None:
    visit = session()
    visit.seek(1)
    monkeypatch.setattr(ScriptedRunner, "execute", lambda *_: (_ for _ in ()).throw(RuntimeError("out of memory")))
    visit.seek(3)
    assert visit.failure == "out of memory"
    assert (visit.cursor, len(visit.steps)) == (1, 2)
    assert not visit.is_running


def test_selecting_moves_neither_cursor_nor_engine() -> None:
    visit = session()
    visit.seek(2)
    visit.select(Selection("block", 3))
    assert (visit.selection, visit.cursor, len(visit.steps)) == (Selection("block", 3), 2, 3)
    visit.select(None)
    assert visit.selection is None


class TestRegistry:
    def make(self, key: str = "w") -> Session:
        visit = session()
        visit.workload = workload(key)
        return visit

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
        registry.seen("ann")
        registry.seen("nobody")
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


def test_visitors_share_weights_and_nothing_else() -> None:
    loaded = load_model("toy")
    ready = scenario_workload("three_requests", "toy", loaded)
    one, two = start(ready, loaded), start(ready, loaded)
    one.step()
    assert two.next_step == 0
    assert one.kv.pool.num_free < two.kv.pool.num_free
    assert one.runner.loaded.model is two.runner.loaded.model  # type: ignore[attr-defined]
    assert one.runner.cache.key.data_ptr() != two.runner.cache.key.data_ptr()  # type: ignore[attr-defined]

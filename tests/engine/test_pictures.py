"""A picture that was made of changes equals one made anew, and stays so; so does what the laws count by changes."""

from __future__ import annotations

import pytest
from hypothesis import settings
from hypothesis.stateful import run_state_machine_as_test

from engine import history, snapshot
from engine.camera import SnapshotTaker
from engine.engine import Engine
from engine.runner import ScriptedRunner
from engine.scheduler import Plan
from engine.snapshot import Snapshot
from engine.timeline import Step
from tests.engine import workload
from tests.engine.replay import engine_of
from tests.engine.test_branching_laws import ForkMachine
from tests.engine.test_laws import EngineMachine
from tests.engine.test_machines import VARIANTS


def content(picture: Snapshot) -> tuple[object, ...]:
    """Everything that can be read off a picture."""
    pool = picture.pool
    return (
        tuple(picture.requests), picture.running, picture.waiting, picture.budgets, pool.ref_count, pool.fill,
        pool.hashes, pool.free_queue, pool.num_free, pool.duplicates, picture.owners(),
    )  # fmt: skip


def forget_what_was_read() -> None:
    for cache in (history._whole, snapshot._views, snapshot._columns):
        cache.cache_clear()


def made_anew(engine: Engine, step: Step) -> Snapshot:
    """A picture of the engine after `step` by a camera that has never seen it before."""
    batch = step.snapshot.requests.batch
    plan = Plan(dict(batch.tokens), {}, dict(batch.work), [], dict(batch.wait_reasons))
    camera = SnapshotTaker(engine.config, engine.scheduler, engine.kv)
    camera._note_tables(engine.scheduler.running)
    return camera.take(step.index, engine.requests, plan, in_flight=False)


class Pictured(EngineMachine):
    """Compares after every step; at the end the first pictures are read again."""

    def __init__(self) -> None:
        super().__init__()
        self.album: list[tuple[Snapshot, tuple[object, ...]]] = []
        self.watch()

    def watch(self) -> None:
        step = self.engine.step

        def compared() -> Step:
            done = step()
            anew = content(made_anew(self.engine, done))
            old = [view._replace(scheduled=0, work=None) for view in done.snapshot.requests]
            new = [view._replace(scheduled=0, work=None) for view in anew[0]]  # type: ignore[attr-defined]
            assert old == new, "requests that ended long ago show no share of this step"
            assert content(done.snapshot)[1:] == anew[1:]
            self.album += [(picture, content(picture)) for picture in (done.scheduled, done.snapshot)]
            return done

        self.engine.step = compared  # type: ignore[method-assign]

    def teardown(self) -> None:
        super().teardown()
        forget_what_was_read()
        assert all(content(picture) == read for picture, read in self.album)


@pytest.mark.parametrize("name", VARIANTS)
def test_pictures_of_changes_are_true(name: str) -> None:
    class Machine(Pictured):
        def __init__(self) -> None:
            super().__init__()
            base = {"block_size": 2, "num_blocks": 9, "max_num_batched_tokens": 8, "max_num_seqs": 3}
            self.engine = engine_of("changed", **{**base, **VARIANTS[name]})  # type: ignore[arg-type]
            self.watch()

    run_state_machine_as_test(Machine, settings=settings(max_examples=5, stateful_step_count=30, deadline=None))


def test_pictures_of_forks_are_true() -> None:
    class Machine(Pictured, ForkMachine):
        pass

    run_state_machine_as_test(Machine, settings=settings(max_examples=20, stateful_step_count=30, deadline=None))


def test_a_large_pool_is_pictured_by_changes_and_breaks_no_law() -> None:
    """4096 blocks, the workload vLLM was timed on: its first steps, each 40th compared, and what is shared."""
    engine = Engine(workload.CONFIG, ScriptedRunner())
    for spec in workload.make(200):
        engine.add(spec)
    pictures = []
    while not engine.is_done:
        step = engine.step()
        assert all(law.holds for law in step.laws)
        pictures.append(step.snapshot)
        if step.index % 40 == 0:
            assert content(step.snapshot)[1:] == content(made_anew(engine, step))[1:]
    assert len({id(picture.pool.blocks.base) for picture in pictures}) < len(pictures) / 10

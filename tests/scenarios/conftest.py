"""Models and finished runs shared by the tests of this folder."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

import pytest

from engine.model.weights import find_smollm2
from engine.timeline import Step
from scenarios import run

Ran = tuple[run.Job, tuple[Step, ...]]


@pytest.fixture(scope="session")
def ran() -> Callable[[str, str], Ran]:
    """A library scenario run to its end on a model; each is run once."""

    @cache
    def once(name: str, model: str) -> Ran:
        if model == "smollm2" and find_smollm2() is None:
            pytest.skip("the SmolLM2 weights are not on this machine")
        job = run.prepare(name, run.Options(settings={}, model=model))
        return job, tuple(run.steps(job))

    return once

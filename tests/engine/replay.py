"""Runs the real engine without a model: every request emits a script of its own."""

from __future__ import annotations

from collections.abc import Iterable

from engine.config import EngineConfig
from engine.engine import Engine
from engine.laws import Audit
from engine.request import RequestSpec
from engine.runner import ScriptedRunner
from engine.timeline import Step

MAX_STEPS = 5000


AUDITS: tuple[Audit, ...] = ("full", "changed")


def engine_of(audit: Audit | None = None, **config: object) -> Engine:
    return Engine(EngineConfig(**config), ScriptedRunner(), audit=audit)  # type: ignore[arg-type]


def spec(request_id: str, prompt: int | Iterable[int], max_tokens: int, **more: object) -> RequestSpec:
    """A request; a prompt given as a number is that many tokens which no other request id shares."""
    base = 1000 * (1 + sum(map(ord, request_id)) * 31 % 997)
    tokens = tuple(range(base, base + prompt)) if isinstance(prompt, int) else tuple(prompt)
    script = tuple(base + 500 + index for index in range(max_tokens))
    return RequestSpec(request_id, tokens, max_tokens, **{"output": script, **more})  # type: ignore[arg-type]


def run(engine: Engine, *specs: RequestSpec) -> list[Step]:
    """Steps until every request is over; fails on a broken law."""
    for each in specs:
        engine.add(each)
    steps: list[Step] = []
    while not engine.is_done:
        steps.append(engine.step())
        assert_laws(steps[-1])
        assert len(steps) < MAX_STEPS, "the engine makes no progress"
    return steps


def assert_laws(step: Step) -> None:
    broken = [(law.law, law.broken_by) for law in step.laws if not law.holds]
    assert not broken, f"step {step.index} breaks {broken}"


def hits(steps: Iterable[Step], request_id: str) -> list[int]:
    """Hit tokens at each admission of a request."""
    return [
        event.hit_tokens
        for step in steps
        for event in step.events
        if event.kind == "admitted" and event.request == request_id  # type: ignore[attr-defined]
    ]


def tokens_by_step(steps: Iterable[Step], request_id: str) -> dict[int, int]:
    """Step index → tokens scheduled for a request, counting steps from 1 as the public cases do."""
    return {step.index + 1: step.scheduled_tokens[request_id] for step in steps if request_id in step.scheduled_tokens}


def emitted(steps: Iterable[Step], request_id: str) -> list[int]:
    """Steps, counted from 1, in which a request got a token."""
    return [step.index + 1 for step in steps if request_id in step.sampled]

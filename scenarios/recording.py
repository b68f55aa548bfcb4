"""The library's runs without a model: each scenario's prompts and sampled tokens, as its model gave them once.

What the engine decides depends on tokens alone, so that a replay takes the same decisions in milliseconds and on
machines without the weights. `python -m scenarios record` writes the file; a test compares it with the model.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import Any

from engine.engine import Engine
from engine.request import RequestSpec
from engine.runner import ScriptedRunner
from engine.timeline import Step
from scenarios import load
from scenarios.errors import ScenarioError

FILE = load.LIBRARY / "recorded.json"
MAX_STEPS = 10_000

Recording = Mapping[str, Any]  # {"prompts": {id: tokens}, "outputs": {id: tokens}, "stop": token ids}


def recording(specs: Sequence[RequestSpec], steps: Sequence[Step]) -> Recording:
    """What `replay` needs of a finished run of `specs`."""
    outputs: dict[str, list[int]] = {}
    for step in steps:
        for request, token in step.sampled.items():
            outputs.setdefault(request, []).append(token)
    stop = sorted({token for spec in specs for token in spec.sampling.stop_token_ids})
    return {"prompts": {spec.id: list(spec.prompt) for spec in specs}, "outputs": outputs, "stop": stop}


def write(recordings: Mapping[str, Recording], path: Path = FILE) -> None:
    """One scenario a line, so that a change of one is a change of one line."""
    lines = (f"{json.dumps(name)}: {json.dumps(recorded)}" for name, recorded in recordings.items())
    path.write_text("{\n" + ",\n".join(lines) + "\n}\n", encoding="utf-8")


@lru_cache(maxsize=1)
def recordings() -> Mapping[str, Recording]:
    """By name of the scenario."""
    found: dict[str, Recording] = json.loads(FILE.read_text(encoding="utf-8"))
    return found


@lru_cache(maxsize=64)
def replay(name: str, changes: tuple[tuple[str, object], ...] = (), most: int = MAX_STEPS) -> tuple[Step, ...]:
    """The first `most` steps of a library scenario, with `changes` of its configuration; no kernels: no KV, no text.

    Raises ScenarioError if the scenario was never recorded, UserError if the changed engine cannot take its requests.
    """
    scenario = load.load(name)
    if name not in recordings():
        raise ScenarioError("run.not_recorded", name=name)
    recorded = recordings()[name]
    engine = Engine(scenario.config.with_changes(dict(changes)), ScriptedRunner())
    specs = load.requests(scenario, _Recorded(recorded))
    for spec in specs:
        _add(engine, replace(spec, prompt=tuple(recorded["prompts"][spec.id])), recorded["outputs"])
    steps: list[Step] = []
    while not engine.is_done and len(steps) < most:
        steps.append(engine.step())
    return tuple(steps)


class _Recorded:
    """Stands for the tokenizer: it knows where texts end, and the prompts are recorded."""

    def __init__(self, recorded: Recording) -> None:
        self.eos_ids = frozenset(recorded["stop"])

    def encode(self, text: str) -> list[int]:
        return [0]

    def apply_chat(self, messages: Sequence[Mapping[str, str]]) -> list[int]:
        return [0]


def _add(engine: Engine, spec: RequestSpec, outputs: Mapping[str, list[int]]) -> None:
    """Gives the request and its other answers with the tokens each of them drew."""

    def script(request: str) -> tuple[int, ...]:
        drawn = tuple(outputs[request])
        return drawn + drawn[-1:] * (spec.max_tokens - len(drawn))  # what stopped early stops there again

    engine.add(replace(spec, n=1, output=script(spec.id)))
    if spec.n > 1:
        others = [script(f"{spec.id}.{number}") for number in range(1, spec.n)]
        engine.fork_at_next_token(spec.id, spec.n - 1, outputs=others)

"""Scenario files → requests and a configuration for an engine."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any, Protocol

import yaml
from pydantic import ValidationError

from engine.config import EngineConfig
from engine.errors import UserError
from engine.request import RequestSpec, SamplingParams
from scenarios.errors import ScenarioError
from scenarios.schema import RequestEntry, Scenario

LIBRARY = Path(__file__).with_name("library")
MAX_MEGABYTES = 1
_Loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


class Tokenizer(Protocol):
    """What a scenario needs of a model's tokenizer."""

    eos_ids: frozenset[int]

    def encode(self, text: str) -> list[int]: ...

    def apply_chat(self, messages: Sequence[Mapping[str, str]]) -> list[int]: ...


def library() -> list[str]:
    """Names of the scenarios that come with kvscope, in teaching order."""
    names = sorted(path.stem for path in LIBRARY.glob("*.yaml"))
    return sorted(names, key=lambda name: load(name).order)


def load(name_or_path: str | Path) -> Scenario:
    """A scenario of the library by name, or any scenario file by path. Raises ScenarioError in one sentence."""
    path = LIBRARY / f"{name_or_path}.yaml"
    if str(name_or_path) != Path(name_or_path).name or not path.is_file():
        path = Path(name_or_path)
        if not path.is_file():
            known = ", ".join(library())
            raise ScenarioError("scenario.unknown", name=name_or_path, known=known)
    status = path.stat()
    return _load(path, status.st_mtime_ns, status.st_size)


def requests(scenario: Scenario, tokenizer: Tokenizer) -> tuple[RequestSpec, ...]:
    """The scenario's requests in the tokens of a model. Sampled ones end at the model's end of text."""
    return tuple(request(entry, tokenizer) for entry in scenario.requests)


def config(scenario: Scenario) -> EngineConfig:
    return scenario.config


@lru_cache(maxsize=256)
def _load(path: Path, modified: int, size: int) -> Scenario:
    if size > MAX_MEGABYTES * 1_000_000:
        raise ScenarioError("scenario.too_big", file=path.name, limit=MAX_MEGABYTES)
    try:
        text = path.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8"
        raise ScenarioError("scenario.unreadable", file=path.name, reason=reason) from error
    return parse(text, path.name)


def parse(text: str, file: str) -> Scenario:
    """A scenario from YAML (or JSON) text; `file` is for messages."""
    try:
        root = yaml.compose(text, Loader=_Loader)
        data = yaml.load(text, Loader=_Loader)
    except yaml.MarkedYAMLError as error:
        line = error.problem_mark.line + 1 if error.problem_mark else 1
        raise ScenarioError("scenario.bad_yaml", file=file, line=line, reason=error.problem) from error
    except (yaml.YAMLError, ValueError, RecursionError) as error:  # characters YAML refuses, impossible dates
        reason = str(error).splitlines()[0]
        raise ScenarioError("scenario.bad_yaml", file=file, line=1, reason=reason) from error
    if not isinstance(data, dict):
        raise ScenarioError("scenario.not_mapping", file=file)
    _refuse_doubles(root, file)
    try:
        return Scenario.model_validate(data)
    except ValidationError as error:
        raise _sentence(error, root, file) from error


def request(entry: RequestEntry, tokenizer: Tokenizer) -> RequestSpec:
    """One request in the tokens of a model."""
    sampling = SamplingParams(
        temperature=entry.sampling.temperature,
        top_p=entry.sampling.top_p,
        seed=entry.sampling.seed,
        stop_token_ids=frozenset() if entry.output is not None or entry.sampling.ignore_eos else tokenizer.eos_ids,
    )
    return RequestSpec(
        id=entry.id,
        prompt=_prompt(entry, tokenizer),
        max_tokens=entry.max_tokens,
        arrival_step=entry.arrival_step,
        priority=entry.priority,
        sampling=sampling,
        output=entry.output,
        adapter=entry.adapter,
        salt=entry.salt,
        abort_step=entry.abort_step,
        n=entry.n,
    )


def _prompt(entry: RequestEntry, tokenizer: Tokenizer) -> tuple[int, ...]:
    prompt = entry.prompt
    if isinstance(prompt, str):
        return tuple(tokenizer.encode(prompt))
    messages = [{"role": part.role, "content": part.content} for part in prompt if not isinstance(part, int)]
    if messages:
        return tuple(tokenizer.apply_chat(messages))
    return tuple(part for part in prompt if isinstance(part, int))


def _refuse_doubles(root: yaml.Node | None, file: str) -> None:
    """YAML keeps the last of two equal keys without a word."""
    waiting, seen = [root], set()
    while waiting:
        node = waiting.pop()
        if id(node) in seen:  # an alias
            continue
        seen.add(id(node))
        if isinstance(node, yaml.SequenceNode):
            waiting.extend(node.value)
        elif isinstance(node, yaml.MappingNode):
            keys = [key.value for key, _ in node.value if isinstance(key, yaml.ScalarNode)]
            for key, value in node.value:
                if keys.count(key.value) > 1:
                    line = node.value[len(keys) - 1 - keys[::-1].index(key.value)][0].start_mark.line + 1
                    raise ScenarioError("scenario.twice", file=file, line=line, field=key.value)
                waiting.append(value)


def _sentence(error: ValidationError, root: yaml.Node | None, file: str) -> ScenarioError:
    """The first fault as one sentence, with its line in the file."""
    fault = error.errors()[0]
    field, line = _place(root, fault["loc"])
    where: dict[str, Any] = {"file": file, "line": line, "field": field}
    if fault["type"] == "missing":
        return ScenarioError("scenario.missing_field", **where)
    if fault["type"] == "extra_forbidden":
        return ScenarioError("scenario.unknown_field", **where)
    cause = fault.get("ctx", {}).get("error")
    reason = str(cause) if isinstance(cause, UserError) else fault["msg"]
    return ScenarioError("scenario.bad_field", **where, reason=reason.rstrip(".").removeprefix("Value error, "))


def _place(root: yaml.Node | None, path: Sequence[int | str]) -> tuple[str, int]:
    """`requests[1].prompt` and its line; parts of the path that only pydantic knows (union members) are left out."""
    node, field, line = root, "", 1
    for index, part in enumerate(path):
        if isinstance(node, yaml.SequenceNode) and isinstance(part, int) and part < len(node.value):
            node, field = node.value[part], f"{field}[{part}]"
            line = node.start_mark.line + 1
            continue
        entry = None
        if isinstance(node, yaml.MappingNode):
            entry = next((pair for pair in node.value if pair[0].value == str(part)), None)
        if entry is not None:
            node, field = entry[1], f"{field}.{part}"
            line = entry[0].start_mark.line + 1
        elif index == len(path) - 1 and isinstance(node, yaml.MappingNode):
            field = f"{field}.{part}"  # a missing field has no place of its own
    return field.removeprefix("."), line

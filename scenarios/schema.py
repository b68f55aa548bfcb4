"""The scenario file: what may stand in it, and how a fault in it is said."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Discriminator,
    Field,
    StrictBool,
    StrictFloat,
    StrictInt,
    StrictStr,
    Tag,
    ValidationInfo,
    field_validator,
)

from engine.config import EngineConfig
from scenarios.claims import check_syntax
from scenarios.errors import ScenarioError, notice

MAX_REQUESTS = 1000
MAX_ANSWERS = 64
QUESTIONS = 20
DEFAULT_ORDER = 1000


class _Part(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Text(_Part):
    """A text in both languages."""

    en: StrictStr
    zh: StrictStr

    def get(self, lang: Literal["en", "zh"]) -> str:
        return self.en if lang == "en" else self.zh


class Message(_Part):
    """One turn of a chat."""

    role: Literal["system", "user", "assistant"]
    content: StrictStr


class Sampling(_Part):
    """How tokens are drawn; greedy by default. With `ignore_eos` an answer has exactly `max_tokens` tokens."""

    temperature: float = Field(default=0.0, ge=0.0, le=10.0)
    top_p: float = Field(default=1.0, gt=0.0, le=1.0)
    seed: StrictInt | None = None
    ignore_eos: StrictBool = False


def _prompt_kind(value: Any) -> str | None:
    if isinstance(value, str):
        return "text"
    if not isinstance(value, (list, tuple)) or not value:
        return None
    return "tokens" if isinstance(value[0], int) else "chat"


Prompt = Annotated[
    Annotated[StrictStr, Tag("text")]
    | Annotated[tuple[Message, ...], Tag("chat")]
    | Annotated[tuple[StrictInt, ...], Tag("tokens")],
    Discriminator(
        _prompt_kind,
        custom_error_type="prompt_kind",
        custom_error_message=str(notice("scenario.prompt_kind")),
    ),
]


class RequestEntry(_Part):
    """A request: its prompt as text, chat or token ids, and when it comes. `output` scripts the sampled tokens.

    `n` answers to the one prompt: the others fork off, as `id.1`, `id.2` …, at the first token.
    """

    id: StrictStr = Field(min_length=1, max_length=40)
    arrival_step: StrictInt = Field(default=0, ge=0)
    prompt: Prompt
    max_tokens: StrictInt = Field(ge=1)
    output: tuple[StrictInt, ...] | None = None
    sampling: Sampling = Sampling()
    priority: StrictInt = 0
    adapter: StrictStr | None = None
    salt: StrictStr | None = None
    abort_step: StrictInt | None = Field(default=None, ge=0)
    n: StrictInt = Field(default=1, ge=1, le=MAX_ANSWERS)


class Focus(_Part):
    """What a note points at; panels are the step page's (its kernel output is called attention) and laws."""

    kind: Literal["block", "request", "node", "panel"]
    id: StrictStr | StrictInt


def _readable(claim: str) -> str:
    check_syntax(claim)
    return claim


Claim = Annotated[StrictStr, AfterValidator(_readable)]


class Note(_Part):
    """What to say at a step, and claims about it that must hold on the scenario's model."""

    step: StrictInt = Field(ge=0)
    focus: Focus | None = None
    say: Text
    claims: tuple[Claim, ...] = ()


class Answer(_Part):
    """Which of the questions on the help page is settled at which step."""

    question: StrictInt = Field(ge=1, le=QUESTIONS)
    step: StrictInt = Field(ge=0)


class Exercise(_Part):
    """What happens if …? `config` are the settings to change, `step` is where to look, `claims` hold there."""

    ask: Text
    answer: Text
    config: Mapping[StrictStr, StrictBool | StrictInt | StrictFloat | StrictStr]
    step: StrictInt = Field(ge=0)
    claims: tuple[Claim, ...] = ()


class Cover(_Part):
    """The picture in the library: one diagram at the most telling step."""

    step: StrictInt = Field(ge=0)
    figure: Literal["tables", "pool", "queue", "schedule", "fairness"]


def _engine_config(value: Any) -> Any:
    """Checked by EngineConfig itself, so that a setting is refused in the same words everywhere."""
    return EngineConfig().with_changes(value) if isinstance(value, dict) else value


class Scenario(_Part):
    """One scenario. `order` is its place in the library; `model` is what its claims were measured on.

    `teaches`: what a class takes home, a line each.
    """

    title: Text
    summary: Text
    story: Text
    order: StrictInt = DEFAULT_ORDER
    config: Annotated[EngineConfig, BeforeValidator(_engine_config)] = EngineConfig()
    model: StrictStr = "smollm2"
    requests: tuple[RequestEntry, ...] = Field(min_length=1, max_length=MAX_REQUESTS)
    notes: tuple[Note, ...] = ()
    teaches: tuple[Text, ...] = ()
    answers: tuple[Answer, ...] = ()
    exercises: tuple[Exercise, ...] = ()
    cover: Cover | None = None

    @field_validator("requests")
    @classmethod
    def _distinct(cls, requests: tuple[RequestEntry, ...]) -> tuple[RequestEntry, ...]:
        seen: set[str] = set()
        for request in requests:
            if request.id in seen:
                raise ScenarioError("scenario.same_id", id=request.id)
            seen.add(request.id)
        return requests

    @field_validator("exercises")
    @classmethod
    def _settable(cls, exercises: tuple[Exercise, ...], info: ValidationInfo) -> tuple[Exercise, ...]:
        for exercise in exercises if "config" in info.data else ():
            info.data["config"].with_changes(dict(exercise.config))
        return exercises


def json_schema() -> dict[str, Any]:
    """The JSON schema of a scenario file, for editors."""
    schema = Scenario.model_json_schema()
    schema["$schema"] = "https://json-schema.org/draft/2020-12/schema"
    schema["$defs"]["EngineConfig"]["additionalProperties"] = False
    return schema

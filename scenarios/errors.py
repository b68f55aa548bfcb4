"""What this room says to a user: errors that stop, notices that do not."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from engine.errors import UserError
from scenarios.messages import MESSAGES


class ScenarioError(UserError):
    """A scenario or a claim that cannot be used. Keys start with "scenario.", "claim." or "run."."""

    def catalogue(self) -> dict[str, tuple[str, str]]:
        return MESSAGES


class TraceError(ScenarioError):
    """A trace file that cannot be used as a whole. Keys start with "trace."."""


@dataclass(frozen=True, slots=True)
class Notice:
    """Something the user must know though work goes on. `str()` is English; `key` and `params` translate it."""

    key: str
    params: Mapping[str, object] = field(default_factory=dict)

    def __str__(self) -> str:
        return MESSAGES[self.key][0].format(**self.params)


def notice(key: str, /, **params: object) -> Notice:
    return Notice(key, params)

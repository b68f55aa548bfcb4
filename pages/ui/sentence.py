"""A sentence about a step: what it says, whose function does the same, and what a click on it selects."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Tone = Literal["run", "new", "hit", "evict", "preempt", "wait", "done"]


@dataclass(frozen=True, slots=True)
class Sentence:
    """`source` names the function of vLLM or SGLang; `request` and `block` are what a click selects."""

    tone: Tone
    text: str
    source: str = ""
    request: str | None = None
    block: int | None = None
    weight: int = 5  # what is dropped first when there are too many: the lightest

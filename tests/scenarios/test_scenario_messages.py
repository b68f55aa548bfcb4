"""The room's message catalogue: both languages, the same parameters, and every key in use exists."""

from __future__ import annotations

import re
from pathlib import Path
from string import Formatter
from typing import get_args

import pytest

from engine.events import Limit
from scenarios.messages import MESSAGES

ROOM = Path(__file__).parents[2] / "scenarios"
KEY = re.compile(r'"((?:scenario|claim|trace|run|metric|compare|tree)\.[a-z0-9_.]+)"')


def parameters(text: str) -> set[str]:
    return {name for _, name, _, _ in Formatter().parse(text) if name}


@pytest.mark.parametrize("key", MESSAGES)
def test_both_languages_take_the_same_parameters(key: str) -> None:
    english, chinese = MESSAGES[key]
    assert parameters(english) == parameters(chinese)
    words = re.sub(r"\{\w*\}|\W", "", chinese)
    assert not words or re.search(r"[\u4e00-\u9fff]", words)
    assert english.endswith(".") == chinese.endswith("。")


def test_every_key_is_used_and_every_used_key_exists() -> None:
    sources = [path.read_text(encoding="utf-8") for path in ROOM.rglob("*.py") if path.name != "messages.py"]
    used = {key for source in sources for key in KEY.findall(source)}
    used |= {f"wait.{limit}" for limit in get_args(Limit)}
    assert used == set(MESSAGES)

"""Every error of the room has a sentence in both languages with the same parameters."""

from __future__ import annotations

import re
from pathlib import Path
from string import Formatter

from engine.model import errors
from engine.model.messages import MESSAGES

FOLDER = Path(errors.__file__).parent


def test_keys_used_are_the_keys_there_are() -> None:
    sources = "".join(path.read_text(encoding="utf-8") for path in FOLDER.glob("*.py") if path.name != "messages.py")
    used = set(re.findall(r'"(model\.(?:progress\.)?[a-z0-9_]+)"', sources)) - {"model.safetensors"}
    assert used == MESSAGES.keys()


def test_both_languages_say_the_same() -> None:
    for key, texts in MESSAGES.items():
        english, chinese = ({name for _, name, _, _ in Formatter().parse(text) if name} for text in texts)
        assert english == chinese, key

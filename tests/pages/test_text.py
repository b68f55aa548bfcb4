"""The catalogue is complete in both languages, nothing is missing from it, nothing lies in it unused."""

from __future__ import annotations

import ast
import re
import string
from collections.abc import Iterator
from pathlib import Path

import pytest

from pages.ui import figure_messages, messages, prefix_messages, why_messages
from pages.ui.text import LANGS, MESSAGES, listing, number, plural, t

ROOT = Path(__file__).parents[2]
PAGES = ROOT / "pages"
SOURCES = [
    path for path in [*PAGES.rglob("*.py"), ROOT / "app.py"] if path.exists() and not path.name.endswith("messages.py")
]
CATALOGUE = {
    **messages.MESSAGES, **figure_messages.MESSAGES, **prefix_messages.MESSAGES, **why_messages.MESSAGES,
}  # fmt: skip


def fields(text: str) -> set[str]:
    return {name for _, name, _, _ in string.Formatter().parse(text) if name}


@pytest.mark.parametrize("key", sorted(MESSAGES))
def test_both_languages_with_the_same_parameters(key: str) -> None:
    english, chinese = MESSAGES[key]
    assert english.strip() and chinese.strip()
    assert fields(english) == fields(chinese)


@pytest.mark.parametrize("key", sorted(CATALOGUE))
def test_chinese_is_chinese(key: str) -> None:
    _, chinese = CATALOGUE[key]
    words = re.sub(r"\{\w*\}|<[^>]*>|\W|\d", "", chinese)
    assert not words or re.search(r"[一-鿿]", chinese), chinese


def _calls() -> Iterator[tuple[str, bool]]:
    """Keys handed to `t` and its relatives: (literal, True), or (prefix of an f-string, False)."""
    names = {"t", "plural", "chip", "PageError"}
    for path in SOURCES:
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call) and getattr(node.func, "id", "") in names and node.args:
                parts = list(ast.walk(node.args[0]))
                inside = {id(value) for part in parts if isinstance(part, ast.JoinedStr) for value in part.values}
                for part in parts:
                    if isinstance(part, ast.JoinedStr) and isinstance(part.values[0], ast.Constant):
                        yield str(part.values[0].value), False
                    elif (
                        isinstance(part, ast.Constant)
                        and id(part) not in inside
                        and isinstance(part.value, str)
                        and "." in part.value
                    ):
                        yield part.value, True


def test_every_key_used_exists() -> None:
    missing = [
        key
        for key, literal in sorted(set(_calls()))
        if not any(name == key or name == f"{key}.many" if literal else name.startswith(key) for name in MESSAGES)
    ]
    assert not missing


def test_no_message_lies_unused() -> None:
    sources = "\n".join(path.read_text(encoding="utf-8") for path in SOURCES)
    prefixes = set(re.findall(r"""f["']([a-z_.]+)\{""", sources))
    for key in CATALOGUE:
        stem = key.removesuffix(".one").removesuffix(".many")
        literal = f'"{key}"' in sources or f'"{stem}"' in sources
        assert literal or any(key.startswith(prefix) for prefix in prefixes if "." in prefix), key


@pytest.mark.parametrize("path", sorted((PAGES / "figures").glob("*.py")), ids=lambda path: path.name)
def test_no_sentence_outside_the_catalogue(path: Path) -> None:
    tree = ast.parse(path.read_text(encoding="utf-8"))
    docstrings = {
        id(node.body[0].value)
        for node in ast.walk(tree)
        if isinstance(node, (ast.Module, ast.FunctionDef, ast.ClassDef))
        and node.body
        and isinstance(node.body[0], ast.Expr)
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in docstrings:
            # Plotly's own words ("middle left") are two lower-case words without punctuation.
            assert not re.search(r"[A-Za-z]+ [A-Za-z]+[ .:,]", node.value), node.value
            assert not re.search(r"[一-鿿]", node.value), node.value


def test_parameters_are_filled_in_both_languages() -> None:
    assert t("law.broken", "en", n=3, by="block 7") == "law 3 broken by block 7"
    assert "3" in t("law.broken", "zh", n=3, by="块 7")
    assert plural("why.published", 1, "en", blocks="#1").startswith("Block #1 is full")
    assert plural("why.published", 2, "en", blocks="#1 and #2").startswith("Blocks #1 and #2 are full")
    with pytest.raises(KeyError):
        t("no.such.key", "en")


def test_listing() -> None:
    assert listing([], "en") == ""
    assert listing(["A"], "en") == "A"
    assert listing(["A", "B", "C"], "en") == "A, B and C"
    assert listing(list("ABCDEF"), "en", 4) == "A, B, C, D and 2 more"
    assert all("F" in listing(list("EF"), lang) for lang in LANGS)


@pytest.mark.parametrize(
    ("value", "text"), [(0, "0"), (3.1e-7, "3.1e-07"), (12.345, "12.3"), (0.5, "0.5"), (1234.5, "1,234")]
)
def test_number(value: float, text: str) -> None:
    assert number(value) == text

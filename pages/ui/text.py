"""Every sentence a visitor reads, in both languages: the merged message catalogue and its lookup."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal, get_args

from engine import messages as engine_messages
from engine.errors import UserError
from engine.model import messages as model_messages
from pages.ui import (
    compare_messages,
    figure_messages,
    help_messages,
    kernel_messages,
    memory_messages,
    page_messages,
    prefix_messages,
    settings_messages,
    story_messages,
    why_messages,
)
from pages.ui import messages as ui_messages
from scenarios import messages as scenario_messages
from scenarios.errors import Notice

Lang = Literal["en", "zh"]
LANGS: tuple[Lang, ...] = get_args(Lang)

Catalogue = dict[str, tuple[str, str]]


MESSAGES: Catalogue = {
    **engine_messages.MESSAGES,
    **model_messages.MESSAGES,
    **scenario_messages.MESSAGES,
    **ui_messages.MESSAGES,
    **figure_messages.MESSAGES,
    **why_messages.MESSAGES,
    **page_messages.MESSAGES,
    **help_messages.MESSAGES,
    **story_messages.MESSAGES,
    **settings_messages.MESSAGES,
    **compare_messages.MESSAGES,
    **memory_messages.MESSAGES,
    **kernel_messages.MESSAGES,
    **prefix_messages.MESSAGES,
}


class PageError(UserError):
    """A wish of a visitor that the pages cannot grant. Keys start with "edit.", "session." or "kernel."."""

    def catalogue(self) -> Catalogue:
        return MESSAGES


def t(key: str, lang: Lang, **params: object) -> str:
    """The message in `lang` with its parameters filled in, notices among them translated too.

    An unknown key is a bug and raises KeyError.
    """
    text = MESSAGES[key][LANGS.index(lang)]
    filled = {
        name: t(value.key, lang, **value.params) if isinstance(value, Notice) else value
        for name, value in params.items()
    }
    return text.format(**filled) if filled else text


def plural(key: str, count: int, lang: Lang, **params: object) -> str:
    """`key.one` for a count of one, else `key.many`; `{n}` is the count. Chinese uses the same pair."""
    return t(f"{key}.one" if count == 1 else f"{key}.many", lang, n=count, **params)


def listing(items: list[str], lang: Lang, limit: int = 4) -> str:
    """'A, B and C', and 'A, B, C, D and 7 more' past the limit."""
    shown = items[:limit]
    if len(items) > limit:
        return t("list.more", lang, items=t("list.comma", lang).join(shown), n=len(items) - limit)
    if len(shown) < 2:
        return "".join(shown)
    return t("list.and", lang, items=t("list.comma", lang).join(shown[:-1]), last=shown[-1])


def numbered(ids: Iterable[int], lang: Lang, limit: int = 6) -> str:
    """Blocks or pages by their ids, as `listing`: '#1, #2 and #5'."""
    return listing([f"#{each}" for each in ids], lang, limit)


def number(value: float) -> str:
    """A measured quantity with three significant digits, without exponents where a reader would not want one."""
    if value == 0:
        return "0"
    if abs(value) < 0.001:
        return f"{value:.1e}"
    if abs(value) >= 1000:
        return f"{value:,.0f}"
    return f"{value:.3g}"

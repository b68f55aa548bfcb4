"""Links to a view of the step page, as its address has them."""

from __future__ import annotations

from collections.abc import Mapping

from pages.ui.settings import to_link
from pages.ui.text import Lang
from scenarios.schema import Note


def step_query(
    scenario: str, lang: Lang, step: int = -1, *, select: str = "", changes: Mapping[str, object] | None = None
) -> dict[str, str]:
    """The view after `step` (-1: nothing run yet) with `select` ("request:A", "block:3") and changed settings."""
    query = {"scenario": scenario, "step": str(step + 1), "lang": lang}
    if select:
        query["select"] = select
    if changes:
        query["cfg"] = to_link(changes)
    return query


def focus_of(note: Note | None) -> str:
    """What a note points at, as a link selects it; panels cannot be selected."""
    if note is None or note.focus is None or note.focus.kind not in ("request", "block"):
        return ""
    return f"{note.focus.kind}:{note.focus.id}"

"""One frame: everything the stage shows of one step, as JSON. Built from immutable steps; touches no engine."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from engine.config import EngineConfig
from engine.snapshot import Snapshot
from engine.timeline import Step
from pages.figures.attention import attention, attention_alt
from pages.figures.block_tables import MAX_ROWS, block_tables, relevant
from pages.figures.free_queue import free_queue
from pages.figures.marks import GLYPHS, MarkKind, Marks, Selection, block_marks
from pages.figures.pool import pool, ring_color
from pages.figures.primitives import Figure
from pages.figures.schedule import schedule
from pages.ui import panels
from pages.ui.text import Lang, listing, t
from pages.ui.theme import Palette
from pages.ui.why import Sentence, sentences

Json = dict[str, Any]

SCHEMA = 1

_TONES = {
    "run": "used",
    "new": "new",
    "hit": "hit",
    "evict": "evicted",
    "preempt": "preempted",
    "wait": "muted",
    "done": "text",
}
_CSS_COLORS = (
    "page", "card", "line", "text", "muted", "accent", "used", "shared", "cached", "free", "new", "evicted", "hit",
    "preempted", "decode", "on_used", "free_line",
)  # fmt: skip
_CONTROLS = ("reset", "back", "step", "play", "end", "stop", "scrub", "clear", "loading", "no_plotly", "toolbar")


def frame(
    steps: Sequence[Step],
    cursor: int,
    selection: Selection | None,
    palette: Palette,
    lang: Lang,
    config: EngineConfig,
    *,
    initial: Snapshot,
    prompts: Mapping[str, str] | None = None,
    running: bool = False,
    done: bool = False,
    ack: int = 0,
    notice: str = "",
    caption: str = "",
) -> Json:
    """The payload of `stage.mount`.

    `cursor` is the step shown, -1 for `initial` (nothing run yet). `done`: the engine has nothing left, so the last
    step is final. `running`: the stage asks for the next step as soon as it has drawn this one. `ack`: nonce of the
    last seek that was served. `notice`: a sentence shown above the panels (an error, scripted tokens).
    `caption`: what a teacher would say at this step, shown in the same place when there is no notice.
    """
    step = steps[cursor] if 0 <= cursor < len(steps) else None
    snapshot = step.snapshot if step is not None else initial
    happened = sentences(step, lang) if step is not None else [Sentence("wait", t("why.start", lang))]
    shown = " ".join(item.text for item in happened)
    return {
        "schema": SCHEMA,
        "lang": lang,
        "theme": palette.name,
        "step": cursor,
        "last": len(steps) - 1,
        "done": done,
        "running": running,
        "ack": ack,
        "notice": notice,
        "caption": caption,
        "colors": {name: getattr(palette, name) for name in _CSS_COLORS} | {"mono": palette.mono},
        "controls": {name: t(f"control.{name}", lang) for name in _CONTROLS}
        | {
            "position": t("control.scrub_start", lang)
            if step is None
            else t("control.scrub_value", lang, step=cursor, last=len(steps) - 1)
        },
        "selection": _selection(selection, lang),
        "kpis": panels.kpis(step, snapshot, palette, lang),
        "laws": panels.laws(step, lang),
        "panels": _figures(steps, cursor, step, snapshot, selection, palette, lang, config),
        "requests": {"title": t("panel.requests", lang)} | panels.request_table(step, snapshot, selection, lang),
        "why": {
            "title": t("panel.why", lang),
            "sentences": [
                _sentence(item, before, palette, lang)
                for before, item in zip([None, *happened], happened, strict=False)
            ],
        },
        "kernel": _kernel(step, selection, prompts or {}, lang),
        "announce": t("why.announce", lang, step=cursor, text=shown) if step is not None else shown,
    }


def _selection(selection: Selection | None, lang: Lang) -> Json | None:
    if selection is None:
        return None
    label = t(f"control.selected_{selection.kind}", lang, id=selection.id)
    return {"kind": selection.kind, "id": selection.id, "label": label}


def _sentence(item: Sentence, before: Sentence | None, palette: Palette, lang: Lang) -> Json:
    data: Json = {"tone": item.tone, "color": getattr(palette, _TONES[item.tone]), "text": item.text}
    if item.source:
        data["title"] = t("panel.source", lang, name=item.source)
        if before is None or before.source != item.source:
            data["source"] = item.source
    if item.request is not None:
        data["ref"] = f"request:{item.request}"
    elif item.block is not None:
        data["ref"] = f"block:{item.block}"
    return data


def _kernel(step: Step | None, selection: Selection | None, prompts: Mapping[str, str], lang: Lang) -> Json:
    focus = panels.kernel_focus(step, selection)
    row = step.kernel.row(focus) if step is not None and step.kernel is not None and focus is not None else None
    return panels.kernel_words(step, focus, row, prompts, lang)


def _panel(title: str, sub: str, figure: Figure, alt: str, legend: list[Json]) -> Json:
    return {"title": title, "sub": sub, "figure": figure, "alt": alt, "legend": legend}


def _figures(
    steps: Sequence[Step],
    cursor: int,
    step: Step | None,
    snapshot: Snapshot,
    selection: Selection | None,
    palette: Palette,
    lang: Lang,
    config: EngineConfig,
) -> dict[str, Json]:
    marks = block_marks(step.events, snapshot) if step is not None else {}
    view = snapshot.pool
    counts: dict[str, object] = {"owned": view.owned, "cached": view.free_cached, "empty": view.free_empty}
    focus = panels.kernel_focus(step, selection)
    row = step.kernel.row(focus) if step is not None and step.kernel is not None and focus is not None else None
    budget = config.max_num_batched_tokens
    shared = sum(1 for count in view.ref_count if count >= 2)
    return {
        "pool": _panel(
            t("panel.pool", lang),
            t("panel.pool_sub", lang, size=view.block_size),
            pool(snapshot, marks, selection, palette, lang),
            t("alt.pool", lang, shared=shared, **counts),
            _state_legend(palette, lang),
        ),
        "tables": _panel(
            t("panel.tables", lang),
            t("panel.tables_sub", lang),
            block_tables(snapshot, marks, selection, palette, lang),
            _tables_alt(snapshot, selection, lang),
            _mark_legend(_legend_kinds(marks), palette, lang),
        ),
        "queue": _panel(
            t("panel.queue", lang),
            t("panel.queue_sub", lang, total=view.num_blocks - 1, **counts),
            free_queue(snapshot, marks, selection, palette, lang),
            t("alt.queue", lang, n=len(view.free_queue), blocks=listing([f"#{b}" for b in view.free_queue], lang))
            if view.free_queue
            else t("alt.queue_empty", lang),
            [],
        ),
        "schedule": _panel(
            t("panel.schedule", lang),
            t("panel.schedule_sub", lang),
            schedule(steps, cursor, budget, selection, palette, lang),
            t("alt.schedule_empty", lang)
            if step is None
            else t("alt.schedule", lang, step=cursor, tokens=sum(step.scheduled_tokens.values()), budget=budget),
            [
                _chip("legend.prefill", palette.used, lang),
                _chip("legend.recompute", palette.used, lang, hatch=palette.card),
                _chip("legend.decode", palette.decode, lang),
                _chip("legend.preempted", palette.preempted, lang, hatch=palette.card),
                _chip("legend.waiting", palette.free_line, lang, thin=True),
            ],
        ),
        "attention": _panel("", "", attention(row, palette, lang), attention_alt(row, lang), []),
    }


def _chip(key: str, color: str, lang: Lang, **style: object) -> Json:
    """A legend entry: `hatch` (second colour), `thin` (a line), `ring` (outline with `glyph`), else a filled square."""
    return {"label": t(key, lang), "color": color, **style}


def _state_legend(palette: Palette, lang: Lang) -> list[Json]:
    return [
        _chip("legend.owned", palette.used, lang),
        _chip("legend.shared", palette.shared, lang),
        _chip("legend.cached", palette.cached, lang),
        _chip("legend.empty", palette.free, lang, outline=palette.free_line),
    ]


def _legend_kinds(marks: Marks) -> tuple[MarkKind, ...]:
    """The usual marks, and copies where there are some: only a fork makes them, and the line is short."""
    copied = any(mark.kind == "copied" for mark in marks.values())
    return ("new", "hit", "copied", "evicted", "freed") if copied else ("new", "hit", "evicted", "freed")


def _mark_legend(kinds: Sequence[MarkKind], palette: Palette, lang: Lang) -> list[Json]:
    return [_chip(f"legend.{kind}", ring_color(kind, palette), lang, ring=True, glyph=GLYPHS[kind]) for kind in kinds]


def _tables_alt(snapshot: Snapshot, selection: Selection | None, lang: Lang) -> str:
    rows = []
    for view in relevant(snapshot, selection, MAX_ROWS)[0]:
        blocks = listing([f"#{block}" for block in view.block_table], lang, 12)
        rows.append(
            t("alt.table_row", lang, id=view.id, blocks=blocks or t(f"status.{view.status.value.lower()}", lang))
        )
    return t("alt.tables", lang, rows=" ".join(rows))

"""The stage's panels that are text: key figures, laws, request table, kernel words. Plain data, no markup."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from engine.request import RequestStatus
from engine.snapshot import Budget, RequestView, Snapshot
from engine.timeline import KernelRecord, KernelRow, LawResult, Step
from pages.figures.block_tables import relevant
from pages.figures.marks import Selection
from pages.ui.story import story as life
from pages.ui.text import Lang, number, plural, t
from pages.ui.theme import Palette
from pages.ui.why import Sentence, wait_text

Json = dict[str, Any]

NUM_LAWS = 10
TABLE_ROWS = 60
STORY_LINES = 120
TEXT_CHARACTERS = 260
TOKEN_CHARACTERS = 16
_TONES = {
    "run": "used",
    "new": "new",
    "hit": "hit",
    "evict": "evicted",
    "preempt": "preempted",
    "wait": "muted",
    "done": "text",
}


def kpis(step: Step | None, snapshot: Snapshot, palette: Palette, lang: Lang) -> list[Json]:
    """The strip of key figures. Budgets are those of the running step, owned / cached / free those shown below."""
    # After the commit a budget would no longer show what the step was limited by.
    budgets = (step.scheduled if step is not None else snapshot).budgets
    pool = snapshot.pool
    over = sum(1 for view in snapshot.requests if view.status.is_over)
    total = max(1, pool.num_blocks - 1)
    parts = [
        {"color": palette.used, "share": round(pool.owned / total, 4)},
        {"color": palette.cached, "share": round(pool.cached / total, 4)},
    ]
    return [
        {
            "id": "step",
            "value": "–" if step is None else str(step.index),
            "label": t("kpi.step", lang),
            "detail": t("kpi.not_started", lang)
            if step is None
            else t("kpi.measured_ms", lang, ms=number(step.timings.total_ms)),
        },
        {
            "id": "requests",
            "value": str(len(snapshot.running)),
            "label": t("kpi.running", lang),
            "detail": t("kpi.requests_detail", lang, waiting=len(snapshot.waiting), over=over),
        },
        _budget("tokens", budgets.tokens, budgets.binding, palette, lang),
        _budget("blocks", budgets.blocks, budgets.binding, palette, lang),
        _budget("sequences", budgets.sequences, budgets.binding, palette, lang),
        {
            "id": "pool",
            "value": str(pool.owned),
            "label": t("kpi.pool", lang),
            "detail": t("kpi.pool_detail", lang, cached=pool.cached, empty=pool.free_empty),
            "parts": parts,
            "alt": t("kpi.pool_alt", lang, owned=pool.owned, cached=pool.cached, empty=pool.free_empty, total=total),
        },
    ]


def _budget(name: str, budget: Budget, binding: str | None, palette: Palette, lang: Lang) -> Json:
    binds = binding == name
    return {
        "id": name,
        "value": str(budget.used),
        "label": t(f"kpi.{name}", lang),
        "detail": t("kpi.binds", lang) if binds else t("kpi.of", lang, limit=budget.limit),
        "of": str(budget.limit),
        "binds": binds,
        "parts": [
            {
                "color": palette.evicted if binds else palette.accent,
                "share": round(min(1.0, budget.used / max(1, budget.limit)), 4),
            }
        ],
        "alt": t(f"kpi.{name}_alt", lang, used=budget.used, limit=budget.limit),
    }


def laws(step: Step | None, lang: Lang) -> Json:
    """The badge and its list. A law that had nothing to look at says so instead of claiming to hold."""
    results = {result.law: result for result in step.laws} if step is not None else {}
    items = []
    for law in range(1, NUM_LAWS + 1):
        state = _law_state(results.get(law))
        note = t(f"law.state.{state}", lang)
        if state == "broken":
            note += f": {_broken_by(results[law].broken_by, lang)}"
        items.append({"law": law, "state": state, "text": t(f"law.{law}", lang), "note": note})
    broken = next((result for result in results.values() if not result.holds), None)
    holding = sum(1 for item in items if item["state"] == "holds")
    if broken is not None:
        badge = t("law.broken", lang, n=broken.law, by=_broken_by(broken.broken_by, lang))
    elif not results:
        badge = t("law.none", lang)
    elif holding == NUM_LAWS:
        badge = t("law.all_hold", lang, n=holding)
    else:
        badge = t("law.some_unchecked", lang, n=holding, m=NUM_LAWS - holding)
    state = "broken" if broken is not None else "holds" if results else "unchecked"
    return {"state": state, "badge": badge, "title": t("law.title", lang), "items": items}


def _law_state(result: LawResult | None) -> str:
    if result is None or not result.checked:
        return "unchecked"
    return "holds" if result.holds else "broken"


def _broken_by(by: str, lang: Lang) -> str:
    """`block 7`, `request A`, `12 tokens` in the visitor's language; anything else as it is."""
    first, _, second = by.partition(" ")
    if first in ("block", "request"):
        return t(f"law.by.{first}", lang, id=second)
    if second in ("blocks", "tokens", "sequences"):
        return t(f"law.by.{second}", lang, id=first)
    return by


COLUMNS = ("id", "prompt", "computed", "output", "cached", "blocks", "preemptions")


def request_table(step: Step | None, snapshot: Snapshot, selection: Selection | None, lang: Lang) -> Json:
    """One row a request; what was scheduled and why others wait is taken from the running step."""
    in_flight = {view.id: view for view in step.scheduled.requests} if step is not None else {}
    views, hidden = relevant(snapshot, selection, TABLE_ROWS)
    return {
        "columns": [t(f"column.{name}", lang) for name in COLUMNS],
        "rows": [_row(view, in_flight.get(view.id, view), selection, lang) for view in views],
        "note": t("table.more", lang, n=hidden) if hidden else "" if views else t("table.empty", lang),
    }


def _row(view: RequestView, running: RequestView, selection: Selection | None, lang: Lang) -> Json:
    """The numbers of a request, and one line that says where it stands and why it does not run."""
    words = [t(f"status.{view.status.value.lower()}", lang)]
    if view.status is RequestStatus.FINISHED and view.finish_reason in ("length", "stop"):
        words.append(t(f"finish.{view.finish_reason}", lang))
    if running.scheduled:
        work = t(f"work.{running.work or 'decode'}", lang)
        words.append(plural("table.scheduled", running.scheduled, lang, work=work))
    reason = view.wait_reason or running.wait_reason
    if reason is not None and not view.status.is_over:
        words.append(wait_text(reason, lang))
    return {
        "id": view.id,
        "tone": view.status.value.lower(),
        "selected": selection is not None and selection.kind == "request" and selection.id == view.id,
        "cells": [
            view.id,
            str(view.prompt_tokens),
            f"{view.computed_tokens} / {view.known_tokens}",
            f"{view.output_tokens} / {view.max_tokens}",
            str(view.cached_tokens),
            str(len(view.block_table)),
            f"{view.preemptions}×",
        ],
        "status": " · ".join(words),
    }


def why(happened: Sequence[Sentence], palette: Palette, lang: Lang) -> Json:
    """What happened, a sentence each; where in vLLM it is done is named once for neighbours that share it."""
    before = [None, *happened]
    return {"sentences": [_sentence(*pair, palette, lang) for pair in zip(before, happened, strict=False)]}


def story(steps: Sequence[Step], selection: Selection | None, palette: Palette, lang: Lang) -> Json:
    """The life of what is selected, newest line first; each line leads to its step."""
    if selection is None:
        return {"sentences": [{"tone": "wait", "color": palette.muted, "text": t("story.select", lang)}]}
    name = t(f"control.selected_{selection.kind}", lang, id=selection.id)
    lines = life(steps, selection, lang)[-STORY_LINES:]
    if not lines:
        return {"sentences": [{"tone": "wait", "color": palette.muted, "text": t("story.none", lang, name=name)}]}
    return {
        "sub": t("story.title", lang, name=name),
        "sentences": [
            {
                "tone": line.tone,
                "color": getattr(palette, _TONES[line.tone]),
                "text": line.text,
                "step": line.first,
                "label": t(
                    "story.step.one" if line.first == line.last else "story.step.many",
                    lang,
                    first=line.first,
                    last=line.last,
                ),
                "title": t("story.jump", lang, step=line.first),
            }
            for line in reversed(lines)
        ],
    }


def _sentence(before: Sentence | None, item: Sentence, palette: Palette, lang: Lang) -> Json:
    data: Json = {"color": getattr(palette, _TONES[item.tone]), "text": item.text}
    if item.source:
        data["title"] = t("panel.source", lang, name=item.source)
        if before is None or before.source != item.source:
            data["source"] = item.source
    if item.request is not None:
        data["ref"] = f"request:{item.request}"
    elif item.block is not None:
        data["ref"] = f"block:{item.block}"
    return data


def kernel_focus(step: Step | None, selection: Selection | None) -> str | None:
    """The request whose attention is shown: the selected one, else the first of the batch."""
    if selection is not None and selection.kind == "request":
        return str(selection.id)
    if step is None or step.kernel is None or not step.kernel.rows:
        return None
    if selection is not None:
        readers = [row.request for row in step.kernel.rows if selection.id in row.block_table]
        if readers:
            return readers[0]
    return step.kernel.rows[0].request


def kernel_words(
    step: Step | None,
    focus: str | None,
    row: KernelRow | None,
    prompts: Mapping[str, str],
    lang: Lang,
) -> Json:
    """Title line, text so far, next tokens and the difference to dense attention."""
    record = step.kernel if step is not None else None
    return {
        "sub": t("panel.kernel_sub", lang, id=focus, layer=record.layer + 1, layers=record.num_layers)
        if record is not None and row is not None
        else "",
        "empty": _why_empty(step, record, row, focus, lang),
        **_text(step, focus, prompts, lang),
        "next": t("kernel.next", lang),
        "top": [
            {"text": _visible_token(item.text), "percent": _percent(item.probability), "share": item.probability}
            for item in (row.top if row is not None else ())[:5]
        ],
        "footer": _footer(record, lang),
        "inside": t("kernel.inside", lang) if row is not None else "",
        "within": record is None or record.max_abs_diff is None or record.max_abs_diff <= record.tolerance,
    }


def _why_empty(
    step: Step | None, record: KernelRecord | None, row: KernelRow | None, focus: str | None, lang: Lang
) -> str:
    if row is not None:
        return ""
    if record is not None and focus is not None:
        return t("kernel.not_in_batch", lang, id=focus)
    if step is not None and step.scheduled_tokens:
        return t("kernel.no_model", lang)
    return t("kernel.none", lang)


def _text(step: Step | None, focus: str | None, prompts: Mapping[str, str], lang: Lang) -> Json:
    if focus is None:
        return {"prompt": "", "text": "", "textNote": ""}
    prompt = prompts.get(focus, "").replace("\n", " ⏎ ")
    text = (step.text.get(focus, "") if step is not None else "").replace("\n", " ⏎ ")
    room = max(60, TEXT_CHARACTERS - len(text))
    return {
        "prompt": prompt if len(prompt) <= room else "…" + prompt[-room:],
        "text": text if len(text) <= TEXT_CHARACTERS else "…" + text[-TEXT_CHARACTERS:],
        "textNote": "" if text else t("kernel.no_text", lang),
    }


def _percent(share: float) -> str:
    return "<1 %" if 0 < share < 0.005 else f"{share * 100:.0f} %"


def _visible_token(text: str) -> str:
    """A token's text with its white space made visible."""
    shown = text.replace("\n", "⏎").replace(" ", "␣")
    return shown if len(shown) <= TOKEN_CHARACTERS else shown[: TOKEN_CHARACTERS - 1] + "…"


def _footer(record: KernelRecord | None, lang: Lang) -> list[str]:
    if record is None:
        return []
    diff = record.max_abs_diff
    # NaN is not within any tolerance
    sign = "≤" if diff is not None and diff <= record.tolerance else ">"
    first = (
        t("kernel.no_diff", lang)
        if diff is None
        else t("kernel.diff", lang, diff=number(diff), sign=sign, tolerance=number(record.tolerance))
    )
    return [
        first,
        t(
            "kernel.impl",
            lang,
            name=record.implementation,
            heads=record.num_query_heads,
            kv=record.num_kv_heads,
        ),
    ]

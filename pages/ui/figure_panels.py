"""The stage's diagrams as panels: each figure with its title, legend, and the same in words for a screen reader."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from engine.events import Event
from engine.metrics import measure
from engine.waits import waits
from pages.figures.attention import attention, attention_alt
from pages.figures.batch import batch, batch_alt
from pages.figures.block_tables import MAX_ROWS, block_tables, relevant
from pages.figures.eviction_heap import eviction_heap, heap_state, heap_words
from pages.figures.fairness import fairness, fairness_alt
from pages.figures.free_queue import free_queue
from pages.figures.hash_chains import chains_alt, hash_chains
from pages.figures.latency import clock_label, latency, latency_alt
from pages.figures.marks import GLYPHS, MarkKind, Marks
from pages.figures.pool import pool, ring_color
from pages.figures.radix_tree import node_card, radix_tree, tree_alt
from pages.figures.schedule import schedule
from pages.ui import panels
from pages.ui.scene import Scene
from pages.ui.text import Lang, numbered, t
from pages.ui.theme import Palette

Json = dict[str, Any]


def pool_panel(scene: Scene) -> Json:
    view, lang, palette = scene.snapshot.pool, scene.lang, scene.palette
    shared = sum(1 for count in view.ref_count if count >= 2)
    return {
        "sub": t("panel.pool_sub", lang, size=view.block_size),
        "figure": pool(scene.snapshot, scene.marks, scene.selection, palette, lang),
        "alt": t("alt.pool", lang, shared=shared, **_counts(scene)),
        "legend": [
            chip("legend.owned", palette.used, lang),
            chip("legend.shared", palette.shared, lang),
            chip("legend.cached", palette.cached, lang),
            chip("legend.empty", palette.free, lang, outline=palette.free_line),
        ],
    }


def tables_panel(scene: Scene) -> Json:
    lang = scene.lang
    return {
        "sub": t("panel.tables_sub", lang),
        "figure": block_tables(scene.snapshot, scene.marks, scene.selection, scene.palette, lang),
        "alt": _tables_alt(scene),
        "legend": _mark_legend(_legend_kinds(scene.marks), scene.palette, lang),
    }


def queue_panel(scene: Scene) -> Json:
    view, lang = scene.snapshot.pool, scene.lang
    blocks = numbered(view.free_queue, lang, 4)
    return {
        "sub": t("panel.queue_sub", lang, total=view.num_blocks - 1, **_counts(scene)),
        "figure": free_queue(scene.snapshot, scene.marks, scene.selection, scene.palette, lang),
        "alt": t("alt.queue", lang, n=len(view.free_queue), blocks=blocks) if blocks else t("alt.queue_empty", lang),
        "legend": [],
    }


def schedule_panel(scene: Scene) -> Json:
    lang, palette, step = scene.lang, scene.palette, scene.step
    budget = scene.config.max_num_batched_tokens
    return {
        "sub": t("panel.schedule_sub", lang),
        "figure": schedule(scene.steps, scene.cursor, budget, scene.selection, palette, lang),
        "alt": t("alt.schedule_empty", lang)
        if step is None
        else t("alt.schedule", lang, step=step.index, tokens=sum(step.scheduled_tokens.values()), budget=budget),
        "legend": [
            chip("legend.prefill", palette.used, lang),
            chip("legend.recompute", palette.used, lang, hatch=palette.card),
            chip("legend.decode", palette.decode, lang),
            chip("legend.preempted", palette.preempted, lang, hatch=palette.card),
            chip("legend.waiting", palette.free_line, lang, thin=True),
        ],
    }


def chains_panel(scene: Scene) -> Json:
    lang, palette = scene.lang, scene.palette
    return {
        "sub": t("panel.chains_sub", lang),
        "figure": hash_chains(scene.snapshot, scene.marks, scene.selection, palette, lang),
        "alt": chains_alt(scene.snapshot, lang),
        "legend": [
            chip("legend.cached", palette.cached, lang),
            chip("legend.stranded", palette.card, lang, outline=palette.evicted),
        ],
    }


def tree_panel(scene: Scene) -> Json:
    """Of an engine with the radix cache."""
    lang, palette, view = scene.lang, scene.palette, scene.snapshot.radix
    if view is None:
        raise ValueError("no radix tree in this snapshot")
    return {
        "sub": t("panel.tree_sub", lang),
        "figure": radix_tree(view, _events(scene), scene.selection, palette, lang, scene.label),
        "alt": tree_alt(view, lang),
        "legend": [
            chip("legend.locked", palette.used, lang),
            chip("legend.locked_twice", palette.shared, lang),
            chip("legend.unlocked", palette.cached, lang),
            chip("legend.matched", palette.new, lang, thin=True),
            chip("legend.cut", palette.evicted, lang, ring=True, glyph="◇"),
        ],
    }


def heap_panel(scene: Scene) -> Json:
    lang, view = scene.lang, scene.snapshot.radix
    if view is None:
        raise ValueError("no radix tree in this snapshot")
    state = heap_state(view, _events(scene))
    words = heap_words(state, lang)
    held = {node for node, _ in [*state.array, *state.pushed]}
    cards = {node.id: node_card(view, node, lang, scene.label) for node in view if node.id in held}
    return {
        "sub": words,
        "figure": eviction_heap(state, scene.selection, scene.palette, lang, cards),
        "alt": words,
        "legend": [],
    }


def _events(scene: Scene) -> Sequence[Event]:
    return scene.step.events if scene.step is not None else ()


def batch_panel(scene: Scene) -> Json:
    lang, palette, step = scene.lang, scene.palette, scene.step
    in_flight = step.scheduled if step is not None else scene.initial
    order = list(step.scheduled_tokens) if step is not None else []
    return {
        "sub": t("panel.batch_sub", lang),
        "figure": batch(in_flight, order, scene.selection, palette, lang),
        "alt": batch_alt(in_flight, order, lang),
        "legend": [
            chip("legend.context", palette.cached, lang),
            chip("legend.prefill", palette.used, lang),
            chip("legend.recompute", palette.used, lang, hatch=palette.card),
            chip("legend.decode", palette.decode, lang),
        ],
    }


def latency_panel(scene: Scene) -> Json:
    """On the measured clock: what the steps took on this machine."""
    lang, palette = scene.lang, scene.palette
    metrics = measure(scene.steps[: scene.cursor + 1])
    return {
        "sub": t("panel.latency_sub", lang, clock=clock_label(metrics, lang)),
        "figure": latency(metrics, scene.selection, palette, lang),
        "alt": latency_alt(metrics, lang),
        "legend": [
            chip("legend.waiting", palette.free_line, lang, thin=True),
            chip("legend.first_token", palette.used, lang),
            chip("legend.gap", palette.decode, lang),
            chip("legend.largest_gap", palette.preempted, lang, hatch=palette.card),
        ],
    }


def fairness_panel(scene: Scene) -> Json:
    """Counted in steps, on no clock."""
    lang, palette = scene.lang, scene.palette
    found = waits(scene.steps[: scene.cursor + 1])
    return {
        "sub": t("panel.fairness_sub", lang),
        "figure": fairness(found, scene.cursor, scene.selection, palette, lang),
        "alt": fairness_alt(found, lang),
        "legend": [
            chip("legend.waits", palette.accent, lang, thin=True),
            chip("legend.longest", palette.evicted, lang),
            chip("legend.preempted", palette.preempted, lang, hatch=palette.card),
        ],
    }


def kernel_panel(scene: Scene) -> Json:
    """The attention diagram beside the launch in words."""
    return {
        "figure": attention(scene.row, scene.palette, scene.lang),
        "alt": attention_alt(scene.row, scene.lang),
        "legend": [],
        **panels.kernel_words(scene.step, scene.focus, scene.row, scene.prompts, scene.lang),
    }


def chip(key: str, color: str, lang: Lang, **style: object) -> Json:
    """A legend entry: `hatch` (second colour), `thin` (a line), `ring` (outline with `glyph`), else a filled square."""
    return {"label": t(key, lang), "color": color, **style}


def _counts(scene: Scene) -> dict[str, object]:
    view = scene.snapshot.pool
    return {"owned": view.owned, "cached": view.cached, "empty": view.free_empty}


def _legend_kinds(marks: Marks) -> tuple[MarkKind, ...]:
    """The usual marks, and copies where there are some: only a fork makes them, and the line is short."""
    copied = any(mark.kind == "copied" for mark in marks.values())
    return ("new", "hit", "copied", "evicted", "freed") if copied else ("new", "hit", "evicted", "freed")


def _mark_legend(kinds: Sequence[MarkKind], palette: Palette, lang: Lang) -> list[Json]:
    return [chip(f"legend.{kind}", ring_color(kind, palette), lang, ring=True, glyph=GLYPHS[kind]) for kind in kinds]


def _tables_alt(scene: Scene) -> str:
    rows = []
    for view in relevant(scene.snapshot, scene.selection, MAX_ROWS)[0]:
        blocks = numbered(view.block_table, scene.lang, 12)
        status = t(f"status.{view.status.value.lower()}", scene.lang)
        rows.append(t("alt.table_row", scene.lang, id=view.id, blocks=blocks or status))
    return t("alt.tables", scene.lang, rows=" ".join(rows))

"""The kernel lens on the page: a launch again through the real Triton kernel, every load and store watched."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd
import streamlit as st

from kernels.errors import KernelError
from kernels.faults import Launch
from kernels.lens import Lens, LensResult, row_of
from kernels.recorder import LaunchRecord, walk
from kernels.sanitizer import Rights, Violation
from kernels.tiling import rows_per_program
from pages.ui.launch_view import LaunchView, difference
from pages.ui.text import Lang, t
from pages.ui.theme import Palette

LENS_PAIRS = 4096  # of query token and position, at most: the interpreter needs about a second for so many
SHOWN_VIOLATIONS = 6
TABLE_HEIGHT = 250
LENS = Lens()


@dataclass(frozen=True)
class Seen:
    """What came of a launch under the lens; `tokens` query tokens of it were run. Kept until another is asked for."""

    name: str
    tokens: int
    result: LensResult


def lens_card(shown: LaunchView, palette: Palette, lang: Lang) -> None:
    """A button, and what the last look at this very launch gave."""
    left, right = st.columns([0.42, 0.58], gap="medium")
    with left:
        st.markdown(t("kernel.lens_what", lang, tokens=most_tokens(shown)))
        seen = _look(shown, (shown.layer, shown.meta), "lens", lang)
        if seen is not None:
            _verdicts(shown, seen, lang)
    if seen is not None:
        with right:
            st.dataframe(accesses(seen.result, lang), hide_index=True, height=TABLE_HEIGHT, key="kernel-accesses")
            st.caption(t("kernel.lens_table", lang, n=len(seen.result.accesses)))


def watched(shown: LaunchView, launch: Launch, name: str, palette: Palette, lang: Lang) -> None:
    """The spoilt launch under the lens: which reads were not this request's to make."""
    seen = _look(shown, launch, f"fault-{name}", lang)
    if seen is None:
        return
    found = seen.result.violations
    if not found:
        st.markdown(t("kernel.sanitizer_clean", lang))
        return
    st.markdown(t("kernel.sanitizer_found", lang, n=len(found)))
    lines = [violation_words(violation, lang) for violation in found[:SHOWN_VIOLATIONS]]
    st.markdown("\n".join(f"- {line}" for line in lines))


def violation_words(violation: Violation, lang: Lang) -> str:
    tile, head, split = violation.program
    place = {"tile": tile, "head": head, "split": split, "tensor": violation.tensor or "?", "lanes": violation.lanes}
    why = t(f"kernel.why_access_{violation.why}", lang)
    if violation.block is None:
        return t("kernel.violation_nowhere", lang, why=why, **place)
    return t("kernel.violation", lang, block=violation.block, slot=violation.slot, why=why, **place)


def _look(shown: LaunchView, launch: Launch, key: str, lang: Lang) -> Seen | None:
    """The button; what the lens saw of exactly this launch, if it was asked."""
    state = st.session_state
    name = f"{key} {shown.request} {shown.step} {shown.layer_index} {shown.source}"
    label = t("kernel.lens_run" if key == "lens" else "kernel.sanitizer_run", lang)
    if st.button(label, key=f"kernel-run-{key.partition('-')[0]}"):
        state.pop("kernel-seen", None)
        try:
            with st.spinner(t("kernel.lens_running", lang)):
                state["kernel-seen"] = look(shown, launch, name)
        except KernelError as error:
            st.warning(t("kernel.lens_failed", lang, reason=error))
    seen: Seen | None = state.get("kernel-seen")
    return seen if seen is not None and seen.name == name else None


def most_tokens(shown: LaunchView) -> int:
    """Query tokens that are interpreted at most: a whole tile of them at least."""
    tile, _ = rows_per_program(shown.group)
    return max(tile, LENS_PAIRS // int(shown.meta.seq_lens[0]) // tile * tile)


def look(shown: LaunchView, launch: Launch, name: str = "") -> Seen:
    """The newest tokens of `launch` through the kernel, by the rights of the launch as it ran. Raises KernelError."""
    layer, meta = launch
    meta, tokens = row_of(meta, 0, most_tokens(shown))
    rights = Rights.of(shown.meta, shown.others)
    return Seen(name, tokens.stop - tokens.start, LENS.look(shown.query[tokens], layer, meta, shown.rule, rights))


def _verdicts(shown: LaunchView, seen: Seen, lang: Lang) -> None:
    result = seen.result
    against = {"twin": shown.output[-seen.tokens :], "dense": shown.dense_output[-seen.tokens :]}
    found = {name: difference(result.output, expected).largest for name, expected in against.items()}
    meta, tokens = row_of(shown.meta, 0, most_tokens(shown))
    twin = walk(shown.query[tokens], shown.layer, meta, shown.rule)
    same = same_walk(result.record, twin) and same_walk(result.reads, twin)
    st.markdown(
        t("kernel.lens_result", lang, tokens=seen.tokens, ms=f"{result.milliseconds:.0f}", version=result.triton,
          twin=f"{found['twin']:.2g}", dense=f"{found['dense']:.2g}", tolerance=f"{shown.tolerance:.0e}",
          mark="✓" if max(found.values()) <= shown.tolerance else "✗")
        + "\n\n"
        + t("kernel.lens_same" if same else "kernel.lens_other", lang, visits=len(twin.visits),
            state=f"{largest_state_difference(result.record, twin):.2g}")
        + "\n\n"
        + t("kernel.lens_clean" if not result.violations else "kernel.lens_violations", lang, n=len(result.violations))
    )  # fmt: skip


def same_walk(one: LaunchRecord, other: LaunchRecord) -> bool:
    """The same programs read the same blocks in the same order, and as much of each."""

    def steps(record: LaunchRecord) -> list[tuple[object, ...]]:
        return [(v.place, v.order, v.logical_block, v.physical_block, v.lanes) for v in record.visits]

    return sorted(steps(one)) == sorted(steps(other))


def largest_state_difference(one: LaunchRecord, other: LaunchRecord) -> float:
    """Of m and l after every visit that both know them of; rows that have seen nothing are equal."""
    theirs = {(visit.place, visit.order): visit for visit in other.visits}
    largest = 0.0
    for visit in one.visits:
        twin = theirs.get((visit.place, visit.order))
        if twin is None:
            continue
        for a, b in ((visit.running_max, twin.running_max), (visit.running_sum, twin.running_sum)):
            if a is not None and b is not None:
                finite = np.isfinite(a) & np.isfinite(b)
                largest = max(largest, float(np.abs(a - b)[finite].max(initial=0.0)))
    return largest


def accesses(result: LensResult, lang: Lang) -> pd.DataFrame:
    """Every load and store in the order of each program."""
    verbs = {True: t("kernel.store", lang), False: t("kernel.load", lang)}
    rows = [
        (
            ".".join(map(str, access.program)), access.order, verbs[access.store], access.tensor, access.lanes,
            ", ".join(f"#{block}" for block in access.blocks),
        )
        for access in result.accesses
    ]  # fmt: skip
    columns = ("program", "order", "what", "tensor", "lanes", "blocks")
    return pd.DataFrame(rows, columns=[t(f"kernel.column_{name}", lang) for name in columns])

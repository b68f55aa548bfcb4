"""Your trace: upload a request trace, see what is in it and what has to be clipped, and step it like a scenario."""

from __future__ import annotations

import hashlib
import sys
from pathlib import Path

import pandas as pd
import streamlit as st

if __name__ == "__main__":  # opened by its own address, Streamlit knows only this file's folder
    sys.path.insert(0, str(Path(__file__).parents[1]))

from engine.errors import UserError
from engine.model.load import LoadedModel
from pages.ui.model_choice import model_choice, offer_real_model, use_model
from pages.ui.shell import menu, shell, switches
from pages.ui.text import Lang, t
from pages.ui.workload import TraceChoice
from scenarios.traces.fit import DEFAULT_FIRST, suggest_step_seconds
from scenarios.traces.read import FORMATS, read
from scenarios.traces.record import Trace
from scenarios.traces.stats import TraceStats, stats

MAX_UPLOAD_MB = 5
PREVIEW_ROWS = 200
SKIPPED_SHOWN = 5
SCALES = (1, 4, 16, 64)
MAX_FIRST = 64


def main() -> None:
    lang = shell("traces")
    with st.container(horizontal=True, vertical_alignment="center", gap="small"):
        menu("traces", lang)
        choice = model_choice(lang)
        st.space("stretch")
        switches(lang)
    offer_real_model(choice, lang)
    loaded = use_model(choice, lang)
    left, right = st.columns([1, 1.25], gap="medium")
    with left:
        st.markdown(f"#### {t('trace.page_title', lang)}")
        st.markdown(t("trace.page_intro", lang))
        uploaded = st.file_uploader(t("trace.upload", lang), max_upload_size=MAX_UPLOAD_MB, key="trace_file")
        trace = _trace(uploaded.getvalue(), uploaded.name, lang) if uploaded is not None else None
        if uploaded is not None and trace is not None:
            _offer(uploaded.getvalue(), trace, loaded, lang)
    if trace is not None:
        with right:
            _preview(trace, stats(trace), lang)


def _trace(data: bytes, name: str, lang: Lang) -> Trace | None:
    """The parsed file, or None after one sentence that says what is wrong with it."""
    formats: list[str] = ["", *FORMATS]
    asked = st.selectbox(
        t("trace.format", lang), formats, format_func=lambda name: t(f"trace.format_{name or 'any'}", lang)
    )
    try:
        return _read(data, name, asked or None)
    except UserError as error:
        st.error(t(error.key, lang, **error.params))
        return None


def _offer(data: bytes, trace: Trace, loaded: LoadedModel, lang: Lang) -> None:
    """How the trace is cut to what the model can hold, what that touched, and the button that steps it."""
    chosen = _settings(data, trace, lang)
    try:
        fitted = chosen.fitted(loaded)
    except UserError as error:
        st.error(t(error.key, lang, **error.params))
        return
    if st.button(t("trace.step", lang, n=len(fitted.requests)), type="primary", key="step_trace"):
        st.session_state["trace"] = chosen
        st.session_state["scenario"] = chosen.key
        st.switch_page("pages/step.py")
    st.info("\n".join(f"- {t(notice.key, lang, **notice.params)}" for notice in (*trace.notices, *fitted.notices)))


@st.cache_data(max_entries=8, show_spinner=False)
def _read(data: bytes, name: str, asked: str | None) -> Trace:
    """Parsed once per file, however often a slider moves."""
    return read(data, name, asked)


def _preview(trace: Trace, facts: TraceStats, lang: Lang) -> None:
    rate = facts.infinite_cache_hit_rate
    facts_shown = {
        "format": t(f"trace.format_{trace.format}", lang),
        "requests": f"{facts.requests:,}",
        "span": f"{facts.span_s:,.1f} s",
        "prompt": f"{facts.prompt.total:,}",
        "output": f"{facts.output.total:,}",
        "hits": t("trace.no_data", lang) if rate is None else f"{rate:.1%}",
    }
    columns = st.columns(3)
    for place, (name, value) in enumerate(facts_shown.items()):
        columns[place % 3].metric(t(f"trace.m_{name}", lang), value, border=True)
    if trace.skipped:
        lines = [
            t("trace.skipped_line", lang, line=line, reason=t(reason.key, lang, **reason.params))
            for line, reason in trace.skipped[:SKIPPED_SHOWN]
        ]
        st.warning(t("trace.skipped", lang, n=len(trace.skipped)) + "\n" + "\n".join(f"- {line}" for line in lines))
    table = pd.DataFrame(
        [
            (record.row, record.arrival_s, record.prompt_tokens, record.output_tokens)
            for record in trace.records[:PREVIEW_ROWS]
        ],
        columns=[t(f"trace.c_{column}", lang) for column in ("row", "arrival", "prompt", "output")],
    )
    st.dataframe(table, height=330, hide_index=True)


def _settings(data: bytes, trace: Trace, lang: Lang) -> TraceChoice:
    with st.container(horizontal=True, vertical_alignment="bottom"):
        first = st.number_input(
            t("trace.first", lang), 1, min(MAX_FIRST, len(trace.records)), min(DEFAULT_FIRST, len(trace.records))
        )
        scale = st.selectbox(
            t("trace.scale", lang), SCALES, format_func=lambda value: "1" if value == 1 else f"1/{value}"
        )
        seconds = st.number_input(
            t("trace.seconds", lang),
            min_value=0.0001,
            max_value=3600.0,
            value=suggest_step_seconds(trace, int(first)),
            format="%.4f",
            help=t("trace.seconds_help", lang),
        )
    digest = hashlib.sha256(data + repr((trace.format, first, scale, seconds)).encode()).hexdigest()[:12]
    return TraceChoice(f"trace-{digest}", trace, int(first), int(scale), float(seconds))


if __name__ == "__main__":
    main()

"""The compiled kernel on the page: its Triton source beside TTIR, TTGIR, PTX and SASS, a line and what became of it."""

from __future__ import annotations

from pathlib import Path

import streamlit as st

from kernels.errors import KernelError
from kernels.listing import Listing, listing, names
from kernels.offline import CAPABILITIES, STAGES
from pages.ui.launch_view import LaunchView
from pages.ui.text import Lang, t
from pages.ui.theme import Palette, filled

_SCRIPT = (Path(__file__).parent / "listing.js").read_text(encoding="utf-8")
_CSS = """
.kv-listing{display:grid;grid-template-columns:1fr 1fr;gap:.5rem}
.kv-listing-source,.kv-listing-text{height:${height}px;overflow:auto;border:1px solid ${line};border-radius:6px;
background:${card};color:${text};font:${size}px/1.4 ${mono};white-space:pre;tab-size:4}
.kv-listing-source:focus-visible,.kv-listing-text:focus-visible{outline:2px solid ${accent};outline-offset:1px}
.kv-listing [data-number]::before{content:attr(data-number);display:inline-block;width:3.6em;padding-right:.8em;
text-align:right;color:${muted}}
.kv-listing [data-line],.kv-listing [data-of]{cursor:pointer}
.kv-listing .kv-on{background:${used};color:${on_used};box-shadow:inset 4px 0 ${new}}
.kv-listing .kv-on::before{color:${on_used}}
.kv-listing-said{grid-column:1/-1;font:14px ${sans};color:${muted}}
"""
HEIGHT = 330
START = "tl.dot(query, key"  # the line shown at first: q · k
ASKED = "kernel-listing"


def listing_card(shown: LaunchView, palette: Palette, lang: Lang) -> None:
    """Compiles on request: seconds the first time."""
    with st.container(horizontal=True, vertical_alignment="bottom", gap="small"):
        name = st.selectbox(t("kernel.listing_kernel", lang), names(), index=1, key="kernel-listing-name", width=330)
        capability = st.selectbox(
            "GPU", CAPABILITIES, index=len(CAPABILITIES) - 1, format_func=lambda each: f"sm_{each}",
            key="kernel-listing-sm", width=110,
        )  # fmt: skip
        stage = st.segmented_control(
            t("kernel.listing_stage", lang), STAGES, default="ttir", required=True, format_func=str.upper,
            key="kernel-listing-stage", width="content",
        )  # fmt: skip
        if st.button(t("kernel.listing_compile", lang), key="kernel-compile"):
            st.session_state[ASKED] = True
    if not st.session_state.get(ASKED):
        st.caption(t("kernel.listing_what", lang))
        return
    try:
        with st.spinner(t("kernel.listing_running", lang)):
            found = listing(name, capability)
    except KernelError as error:
        st.warning(t("kernel.listing_failed", lang, reason=error))
        return
    facts = found.compiled.facts
    st.markdown(
        t("kernel.listing_facts", lang, sm=capability, registers=facts.registers, spilled=facts.spilled,
          shared=f"{facts.shared:,}", ptx=f"{facts.ptx_bytes:,}", mma=facts.mma)
    )  # fmt: skip
    if not found.compiled.text.get(stage):
        st.caption(t("kernel.listing_no_stage", lang, stage=stage.upper()))
        return
    _panes(found, stage, palette, lang)


def _panes(found: Listing, stage: str, palette: Palette, lang: Lang) -> None:
    css = filled(_CSS, palette, height=HEIGHT, size=palette.px(12.5))
    component = st.components.v2.component(
        "kvscope_listing", html='<div class="kv-listing"></div>', css=css, js=_SCRIPT, isolate_styles=False
    )
    component(key="kernel-listing-panes", data=panes_data(found, stage, lang))


def panes_data(found: Listing, stage: str, lang: Lang) -> dict[str, object]:
    """What the two panes show; `lines` has for each line of the text its source line."""
    source = found.source.splitlines()
    start = next((found.first_line + at for at, line in enumerate(source) if START in line), found.first_line)
    return {
        "name": f"{found.compiled.name} {found.compiled.capability} {stage}",
        "source": source,
        "first_line": found.first_line,
        "text": found.compiled.text[stage].splitlines(),
        "lines": list(found.lines[stage]),
        "start": start,
        "words": {
            "source": t("kernel.listing_source", lang, file=found.file),
            "text": stage.upper(),
            # The browser fills the two in.
            "became": t("kernel.listing_became", lang, line="{line}", n="{n}", stage=stage.upper()),
        },
    }

"""The library: every scenario with a picture of its most telling step, what it teaches, and links into it."""

from __future__ import annotations

import sys
from html import escape
from pathlib import Path

import streamlit as st

if __name__ == "__main__":  # opened by its own address, Streamlit knows only this file's folder
    sys.path.insert(0, str(Path(__file__).parents[1]))

from pages.ui import shell
from pages.ui.covers import cover
from pages.ui.links import focus_of, step_query
from pages.ui.shell import header, step_link
from pages.ui.text import Lang, t
from scenarios import load
from scenarios.schema import Scenario

COLUMNS = 3

_CSS = """<style>
.kv-cover{display:block;width:100%;height:auto;border-radius:.4rem}
.kv-teaches{margin:0;padding-left:1.05rem;font-size:14px;line-height:1.45}
.kv-teaches li{margin:0 0 .1rem}
[class*="st-key-card-"] p{line-height:1.4}
[class*="st-key-links-title-"]{position:relative}
[class*="st-key-links-title-"] :is(div,a,span,p){position:static!important}
[class*="st-key-links-title-"] a::after{content:"";position:absolute;inset:0}
[class*="st-key-links-title-"] a p{font-size:16px}
</style>"""


def main() -> None:
    lang = header("library")
    names = load.library()
    st.html(_CSS)
    st.markdown(f"#### {t('library.title', lang)}")
    st.markdown(t("library.intro", lang, n=len(names)))
    for first in range(0, len(names), COLUMNS):
        for place, column in enumerate(st.columns(COLUMNS, gap="small")):
            if first + place < len(names):
                with column:
                    _card(first + place + 1, names[first + place], lang)


def _card(number: int, name: str, lang: Lang) -> None:
    scenario = load.load(name)
    with st.container(border=True, height="stretch", key=f"card-{name}", gap="small"):
        with st.container(key=f"links-title-{name}", gap="small"):  # a click on the picture follows the title's link
            step_link(f"**{number} · {scenario.title.get(lang)}**", step_query(name, lang))
            picture = cover(name, shell.palette(), lang)
            if picture is not None:
                st.html(f'<img class="kv-cover" src="{picture.source}" alt="{escape(picture.alt)}">')
        st.markdown(scenario.summary.get(lang))
        points = "".join(f"<li>{escape(point.get(lang))}</li>" for point in scenario.teaches)
        st.html(f'<ul class="kv-teaches">{points}</ul>')
        st.space("stretch")
        _questions(name, scenario, lang)
        _exercises(name, scenario, lang)


def _questions(name: str, scenario: Scenario, lang: Lang) -> None:
    """A link for each question the scenario settles, to the step that settles it."""
    if not scenario.answers:
        return
    notes = {note.step: note for note in scenario.notes}
    with st.container(horizontal=True, vertical_alignment="center", gap="small", key=f"links-answers-{name}"):
        st.caption(t("library.answers", lang), width="content")
        for answer in scenario.answers:
            query = step_query(name, lang, answer.step, select=focus_of(notes.get(answer.step)))
            step_link(str(answer.question), query, help_text=t(f"question.{answer.question}", lang))


def _exercises(name: str, scenario: Scenario, lang: Lang) -> None:
    """What happens if …? Each with the changed settings as a link and its answer, checked like any claim."""
    if not scenario.exercises:
        return
    opened = st.expander(t("library.exercises", lang, n=len(scenario.exercises)))
    with opened, st.container(key=f"links-exercises-{name}", gap="small"):
        for exercise in scenario.exercises:
            query = step_query(name, lang, exercise.step, changes=exercise.config)
            step_link(exercise.ask.get(lang), query)
            settings = ", ".join(f"`{key} = {str(value).lower()}`" for key, value in exercise.config.items())
            st.caption(f"{exercise.answer.get(lang)} {settings}")


if __name__ == "__main__":
    main()

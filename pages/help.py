"""Help: the questions people keep asking with the steps that answer them, keys, and the glossary."""

from __future__ import annotations

import sys
from html import escape
from pathlib import Path

import streamlit as st

if __name__ == "__main__":  # opened by its own address, Streamlit knows only this file's folder
    sys.path.insert(0, str(Path(__file__).parents[1]))

from pages.ui.help_messages import TERMS
from pages.ui.links import focus_of, step_query
from pages.ui.shell import header, step_link
from pages.ui.text import Lang, t
from scenarios import load
from scenarios.schema import QUESTIONS

KEYS = {"→": "forward", "←": "back", "": "play", "1 2 3": "speed", "End": "end", "Home": "home", "Esc": "clear"}

# Where each question was asked; the first of the threads found.
ASKED: dict[int, tuple[str, int]] = {
    1: ("vllm-project/vllm", 5176),
    2: ("vllm-project/vllm", 9660),
    3: ("LMCache/LMCache", 443),
    4: ("GeeeekExplorer/nano-vllm", 20),
    5: ("LMCache/LMCache", 3322),
    6: ("vllm-project/vllm-ascend", 10440),
    7: ("vllm-project/vllm", 4104),
    8: ("vllm-project/vllm", 4492),
    9: ("vllm-project/vllm", 40896),
    10: ("vllm-project/vllm", 25780),
    11: ("GeeeekExplorer/nano-vllm", 219),
    12: ("vllm-project/vllm", 2492),
    13: ("vllm-project/vllm", 18681),
    14: ("vllm-project/vllm", 8121),
    15: ("InternLM/lmdeploy", 1740),
    16: ("vllm-project/vllm", 255),
    17: ("vllm-project/vllm", 3094),
    18: ("vllm-project/vllm", 54644),
    19: ("InternLM/lmdeploy", 1393),
    20: ("vllm-project/vllm", 9302),
}

_CSS = """<style>
.kv-words{border-collapse:collapse;width:100%;font-size:14px;line-height:1.4}
.kv-words th{text-align:left;padding:.7rem 0 .15rem;font-weight:700}
.kv-words td{vertical-align:top;padding:.22rem .7rem .22rem 0;border-top:1px solid rgba(128,140,155,.25)}
.kv-words td:first-child{width:34%}
.kv-words .kv-other{opacity:.72;display:block}
.kv-words kbd{font:600 13px ui-monospace,Menlo,Consolas,monospace;border:1px solid rgba(128,140,155,.6);
 border-radius:4px;padding:.05rem .4rem}
[class*="st-key-links-question-"]{padding-bottom:.6rem}
</style>"""


def main() -> None:
    lang = header("help")
    st.html(_CSS)
    left, right = st.columns([1.3, 1], gap="large")
    with left:
        st.markdown(f"#### {t('help.questions', lang)}")
        st.markdown(t("help.questions_intro", lang))
        for number in range(1, QUESTIONS + 1):
            _question(number, lang)
    with right:
        st.markdown(f"#### {t('help.keys', lang)}")
        st.html(f'<table class="kv-words">{_keys(lang)}</table>')
        with st.container(key="links-tour"):
            step_link(f"→ {t('help.tour', lang)}", step_query(load.library()[0], lang) | {"tour": "1"})
        st.markdown(f"#### {t('help.glossary', lang)}")
        st.html(f'<table class="kv-words">{_glossary(lang)}</table>')


def _question(number: int, lang: Lang) -> None:
    """The question, its short answer, and a link for each scenario that settles it."""
    repository, thread = ASKED[number]
    where = f"[{repository} #{thread}](https://github.com/{repository}/issues/{thread})"
    st.markdown(f"**{number}. {t(f'question.{number}', lang)}**  \n{t(f'answer.{number}', lang)}")
    with st.container(horizontal=True, vertical_alignment="center", gap="medium", key=f"links-question-{number}"):
        for name in load.library():
            scenario = load.load(name)
            notes = {note.step: note for note in scenario.notes}
            for answer in scenario.answers:
                if answer.question == number:
                    label = t("help.see", lang, title=scenario.title.get(lang), step=answer.step)
                    step_link(
                        f"→ {label}", step_query(name, lang, answer.step, select=focus_of(notes.get(answer.step)))
                    )
        st.caption(t("help.asked", lang, where=where), width="content")


def _keys(lang: Lang) -> str:
    rows = [(f"<kbd>{name or t('help.space', lang)}</kbd>", t(f"key.{what}", lang)) for name, what in KEYS.items()]
    return "".join(f"<tr><td>{name}</td><td>{escape(what)}</td></tr>" for name, what in rows) + (
        f'<tr><td colspan="2">{escape(t("key.select", lang))}</td></tr>'
    )


def _glossary(lang: Lang) -> str:
    """Each term in both languages, this page's first, with what it means."""
    other: Lang = "zh" if lang == "en" else "en"
    rows = []
    for key in TERMS:
        kind, _, name = key.partition(".")
        if kind == "terms":
            rows.append(f'<tr><th colspan="2">{escape(t(key, lang))}</th></tr>')
        elif kind == "term":
            mine, theirs = escape(t(key, lang)), escape(t(key, other))
            translated = f'<span class="kv-other" lang="{other}">{theirs}</span>' if theirs != mine else ""
            means = escape(t(f"means.{name}", lang))
            rows.append(f"<tr><td><b>{mine}</b>{translated}</td><td>{means}</td></tr>")
    return "".join(rows)


if __name__ == "__main__":
    main()

"""What a visitor does by hand: a request more, one less, a fork; the visit as a link or a file; settings of the engine.

It all lies in one drawer of the step page. What is done takes effect before the next step; later steps are dropped.
"""

from __future__ import annotations

from collections.abc import Callable

import streamlit as st
from pydantic import ValidationError

from engine.config import EngineConfig
from engine.errors import UserError
from pages.ui.edits import Abort, Add, Configure, Edit, Fork
from pages.ui.session import Session
from pages.ui.session_file import SUFFIX, SessionFile, parse, save
from pages.ui.settings import changes_between, settings_form
from pages.ui.text import Lang, t
from scenarios.schema import RequestEntry, Sampling

EXAMPLE = "The three most important things about tea are"


def drawer(session: Session, link: str, lang: Lang) -> SessionFile | None:
    """The drawer over `session`. A session file that the visitor opened is returned, for the page to restore."""
    changed = len(changes_between(session.workload.config, session.config))
    label = t("settings.open_changed", lang, n=changed) if changed else t("settings.open", lang)
    with st.popover(label, width="content", key="drawer", on_change="rerun"):
        engine, requests, visit = st.tabs([t(f"drawer.{name}", lang) for name in ("engine", "requests", "visit")])
        with engine:
            _engine(session, lang)
        with requests:
            _requests(session, lang)
        with visit:
            return _visit(session, link, lang)


def _engine(session: Session, lang: Lang) -> None:
    base, spec = session.workload.config, session.workload.loaded.spec
    wanted = settings_form(session.config, base, spec, lang)
    if wanted is not None:
        _try(lambda: configure(session, wanted), lang)


def configure(session: Session, config: EngineConfig) -> None:
    """Runs the session again under `config`, up to where it is; raises UserError, with nothing changed."""
    changes = changes_between(session.workload.config, config)
    if changes:
        session.edit(Configure(changes=changes))
    else:
        session.replay([edit for edit in session.edits if not isinstance(edit, Configure)], session.cursor)


def _requests(session: Session, lang: Lang) -> None:
    step = min(session.cursor, session.last) + 1
    st.caption(t("byhand.when", lang, step=step))
    views = session.steps[step - 1].snapshot.requests if step else session.engine.initial.requests
    with st.form("add", border=False):
        name, tokens, priority, heat = st.columns(4)
        entered = {
            "id": name.text_input(t("byhand.id", lang), _free_name(session)),
            "max_tokens": tokens.number_input(t("byhand.max_tokens", lang), value=12),
            "priority": priority.number_input(t("byhand.priority", lang), value=0),
            "prompt": st.text_area(t("byhand.prompt", lang), EXAMPLE, height=70),
        }
        warmth = heat.number_input(t("byhand.temperature", lang), value=0.0, step=0.1)
        if st.form_submit_button(t("byhand.add", lang), type="primary"):
            _try(lambda: session.edit(_add(step, entered, warmth)), lang)
    live = [view.id for view in views if not view.status.is_over]
    if live:
        _end_or_fork(session, live, step, lang)
    by_hand = [edit for edit in session.edits if not isinstance(edit, Configure)]
    for edit in by_hand:
        st.markdown(f"- {_told(edit, lang)}")
    if by_hand and st.button(t("byhand.undo", lang)):
        last = by_hand[-1]
        kept = [edit for edit in session.edits if edit is not last]
        _try(lambda: session.replay(kept, min(session.cursor, last.step - 1)), lang)


def _end_or_fork(session: Session, live: list[str], step: int, lang: Lang) -> None:
    which, count, abort, fork = st.columns([2, 1, 1, 1], vertical_alignment="bottom")
    chosen = which.selectbox(t("byhand.which", lang), live)
    copies = count.number_input(t("byhand.copies", lang), value=1)
    if abort.button(t("byhand.abort", lang), width="stretch"):
        _try(lambda: session.edit(Abort(step=step, request=chosen)), lang)
    if fork.button(t("byhand.fork", lang), width="stretch"):
        _try(lambda: session.edit(Fork(step=step, request=chosen, n=int(copies))), lang)


def _visit(session: Session, link: str, lang: Lang) -> SessionFile | None:
    st.caption(t("visit.link", lang))
    st.code(link, language=None, wrap_lines=True)
    if any(not isinstance(edit, Configure) for edit in session.edits):
        st.caption(t("visit.link_lacks", lang))
    st.download_button(
        t("visit.save", lang),
        lambda: save(session, lang),
        f"{session.workload.scenario or 'trace'}{SUFFIX}",
        "application/json",
        on_click="ignore",
    )
    file = st.file_uploader(t("visit.open", lang), type="json", key="session_file")
    if file is None or st.session_state.get("opened") == file.file_id:
        return None
    st.session_state["opened"] = file.file_id
    try:
        return parse(file.getvalue(), file.name)
    except UserError as error:
        st.error(t(error.key, lang, **error.params))
        return None


def _add(step: int, entered: dict[str, object], temperature: float) -> Edit:
    """Raises UserError, or pydantic's error, for what no request can be."""
    sampling = Sampling(temperature=temperature)
    return Add(step=step, request=RequestEntry.model_validate(entered | {"sampling": sampling}))


def _free_name(session: Session) -> str:
    """The first letter no request has, or a number after Z."""
    taken = {spec.id for spec in session.workload.requests} | {*session.engine.requests}
    taken |= {edit.request.id for edit in session.edits if isinstance(edit, Add)}
    letters = (chr(code) for code in range(ord("A"), ord("Z") + 1))
    return next((name for name in letters if name not in taken), f"R{len(taken)}")


def _told(edit: Edit, lang: Lang) -> str:
    if isinstance(edit, Add):
        return t("byhand.added", lang, step=edit.step, id=edit.request.id)
    if isinstance(edit, Fork):
        return t("byhand.forked", lang, step=edit.step, id=edit.request, n=edit.n)
    return t("byhand.aborted", lang, step=edit.step, id=edit.request) if isinstance(edit, Abort) else ""


def _try(act: Callable[[], None], lang: Lang) -> None:
    """Does it, or says in one sentence why it cannot be done."""
    try:
        act()
    except ValidationError as error:
        fault = error.errors()[0]
        field = ".".join(str(part) for part in fault["loc"])
        st.error(t("byhand.refused", lang, field=field, reason=fault["msg"].removeprefix("Value error, ")))
    except UserError as error:
        st.error(t(error.key, lang, **error.params))

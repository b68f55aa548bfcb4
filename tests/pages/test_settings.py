"""Every setting has its control and its words, and a link carries exactly what was changed."""

from __future__ import annotations

from dataclasses import fields

import pytest
from hypothesis import given
from hypothesis import strategies as st
from streamlit.testing.v1 import AppTest

from engine.config import CHOICES, EngineConfig
from engine.errors import UserError
from engine.model.load import load_model
from pages.ui.settings import GROUPS, MAX_BLOCKS, changes_between, from_link, to_link
from pages.ui.text import MESSAGES

BASE = EngineConfig(num_blocks=32, block_size=8)
SPEC = load_model("toy").spec


def test_no_setting_is_forgotten() -> None:
    shown = [name for names in GROUPS.values() for name in names]
    assert sorted(shown) == sorted(field.name for field in fields(EngineConfig))
    assert all(f"setting.{name}" in MESSAGES for name in shown)
    assert all(f"choice.{choice}" in MESSAGES for choices in CHOICES.values() for choice in choices)


@given(
    block_size=st.integers(1, 64),
    num_blocks=st.integers(2, 500),
    enable_chunked_prefill=st.booleans(),
    watermark=st.sampled_from([0.0, 0.05, 0.25]),
    policy=st.sampled_from([name for name in CHOICES["policy"] if name != "dfs-weight"]),
    victim=st.sampled_from(CHOICES["victim"]),
    max_model_len=st.one_of(st.none(), st.integers(1, 64)),
)
def test_a_link_brings_the_same_settings_back(**changes: object) -> None:
    config = BASE.with_changes(changes)
    text = to_link(changes_between(BASE, config))
    assert from_link(text, BASE, SPEC) == config
    assert not changes_between(BASE, BASE)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("block_size:0", "block_size is 0, but it must be between 1 and 256."),
        ("num_blocks:1000000", f"num_blocks is 1000000, but it must be between 2 and {MAX_BLOCKS}."),
        ("colour:red", "There is no setting called colour"),
        ("policy:luck", "policy is luck; choose one of: fcfs, priority, lpm, "),
        ("block_size", "block_size"),
        ("block_size:[", "block_size=["),
        ("watermark:nan", "watermark is nan"),
        ("num_blocks:4000,block_size:256", "MB of KV cache"),
    ],
)
def test_a_link_that_cannot_be_is_one_sentence(text: str, says: str) -> None:
    with pytest.raises(UserError) as raised:
        from_link(text, BASE, SPEC)
    assert says in str(raised.value)


def _page() -> None:
    import streamlit as st

    from engine.config import EngineConfig
    from engine.model.load import load_model
    from pages.ui.settings import changes_between, settings_form

    base = EngineConfig(num_blocks=32, block_size=8)
    st.session_state.setdefault("config", base)
    chosen = settings_form(st.session_state["config"], base, load_model("toy").spec, "en")
    if chosen is not None:
        st.session_state["config"] = chosen
    st.session_state["changes"] = changes_between(base, st.session_state["config"])


def _labelled(page: AppTest, kind: str, label: str) -> AppTest:
    return next(item for item in getattr(page, kind) if item.label == label)


def test_the_form_applies_and_takes_back() -> None:
    page = AppTest.from_function(_page, default_timeout=60).run()
    _labelled(page, "number_input", "Block size (slots)").set_value(4)
    _labelled(page, "selectbox", "Order of the waiting queue").set_value("priority")
    page.button[0].click().run()
    assert page.session_state["changes"] == {"block_size": 4, "policy": "priority"}
    page.run()
    page.button[1].click().run()
    assert page.session_state["changes"] == {}


def test_what_cannot_be_is_said_and_changes_nothing() -> None:
    page = AppTest.from_function(_page, default_timeout=60).run()
    _labelled(page, "number_input", "Token budget").set_value(3)
    page.button[0].click().run()
    assert "max_num_batched_tokens is 3, but it must be at least max_num_seqs (8)" in page.error[0].value
    assert page.session_state["changes"] == {}

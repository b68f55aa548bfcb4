"""The settings form: every field of `EngineConfig` as a control, and the changes as the text of a link."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields

import streamlit as st
import torch

from engine.config import CHOICES, RANGES, EngineConfig
from engine.errors import UserError
from engine.kv_dtype import cache_layout
from engine.model.spec import LlamaSpec
from pages.ui.settings_messages import MESSAGES
from pages.ui.text import Lang, t
from scenarios.run import setting

Changes = dict[str, object]

# A page draws each block and a shared server holds the KV of every visitor.
MAX_BLOCKS = 4097
MAX_KV_MB = 512

GROUPS: dict[str, tuple[str, ...]] = {
    "memory": (
        "block_size", "num_blocks", "enable_prefix_caching", "max_model_len", "cache", "eviction_policy", "kv_dtype",
    ),
    "step": (
        "max_num_batched_tokens", "max_num_seqs", "enable_chunked_prefill", "long_prefill_token_threshold",
        "num_lookahead_tokens", "seed",
    ),
    "room": (
        "admission", "watermark", "scheduler_reserve_full_isl", "schedule_conservativeness", "preemption", "victim",
        "swap_blocks",
    ),
    "order": ("policy", "lpm_ageing", "in_batch_check", "in_batch_deprioritize"),
    "baselines": ("kv_layout", "contiguous_fit", "contiguous_reserve", "batching"),
}  # fmt: skip


class SettingsError(UserError):
    """Settings an engine could have but a page cannot show. Keys start with "settings."."""

    def catalogue(self) -> dict[str, tuple[str, str]]:
        return MESSAGES


def changes_between(base: EngineConfig, config: EngineConfig) -> Changes:
    """The settings of `config` that are not those of `base`."""
    pairs = ((field.name, getattr(config, field.name)) for field in fields(EngineConfig))
    return {name: value for name, value in pairs if value != getattr(base, name)}


def to_link(changes: Mapping[str, object]) -> str:
    """`block_size:8,policy:priority`: short, and legible in an address bar."""
    words = {True: "true", False: "false", None: "null"}
    return ",".join(
        f"{name}:{words[value] if isinstance(value, bool) or value is None else value}"
        for name, value in changes.items()
    )


def from_link(text: str, base: EngineConfig, spec: LlamaSpec) -> EngineConfig:
    """`base` with the changes of a link. Raises UserError, naming the field, if one of them is not possible."""
    parts = (part.replace(":", "=", 1) for part in text.split(",") if part.strip())
    return changed(base, dict(setting(part) for part in parts), spec)


def changed(base: EngineConfig, changes: Changes, spec: LlamaSpec) -> EngineConfig:
    """`base` with `changes`, if a page can hold it. Raises UserError, naming the field and its range."""
    config = base.with_changes(changes)
    for name in ("num_blocks", "swap_blocks"):
        value = getattr(config, name)
        if value > MAX_BLOCKS and value != getattr(base, name):
            raise UserError("config.range", field=name, value=value, low=RANGES[name][0], high=MAX_BLOCKS)
    size = config.num_blocks * cache_layout(spec, config, torch.float32).bytes_per_block / 1e6
    if size > MAX_KV_MB:
        raise SettingsError("settings.too_much_kv", blocks=config.num_blocks, size=round(size), limit=MAX_KV_MB)
    return config


def settings_form(
    config: EngineConfig, base: EngineConfig, spec: LlamaSpec, lang: Lang, side: str = ""
) -> EngineConfig | None:
    """The form over `config`; `base` is what the scenario has. The new configuration once one is asked for.

    What is not possible is said there, in a sentence, and changes nothing. `side` tells two forms of a page apart.
    """
    st.caption(t("settings.hint", lang))
    with st.form(f"settings{side}", border=False):
        wanted = _controls(config, lang, side)
        apply, reset = st.columns(2)
        applied = apply.form_submit_button(t("settings.apply", lang), type="primary", width="stretch")
        undone = reset.form_submit_button(t("settings.reset", lang), disabled=config == base, width="stretch")
    if undone:
        return base
    if not applied:
        return None
    try:
        chosen = changed(config, wanted, spec)
    except UserError as error:
        st.error(t("settings.refused", lang, reason=t(error.key, lang, **error.params)))
        return None
    return chosen if chosen != config else None


def _controls(config: EngineConfig, lang: Lang, side: str) -> Changes:
    wanted: Changes = {}
    for column, pair in zip(st.columns(2), (("memory", "room"), ("step", "order", "baselines")), strict=True):
        for group in pair:
            column.markdown(f"**{t(f'settings.group.{group}', lang)}**")
            for name in GROUPS[group]:
                with column:
                    wanted[name] = _control(name, getattr(config, name), lang, side)
    return wanted


def _control(name: str, value: object, lang: Lang, side: str) -> object:
    """One setting. The widget's key holds its value, so that a control always shows what runs."""
    label, key = t(f"setting.{name}", lang), f"setting{side}-{name}-{value}"
    help_text = f"`{name}`"
    if name in CHOICES:
        options = list(CHOICES[name])
        return st.selectbox(
            label, options, options.index(str(value)), key=key, help=help_text,
            format_func=lambda choice: t(f"choice.{choice}", lang),
        )  # fmt: skip
    if isinstance(value, bool):
        return st.toggle(label, value, key=key, help=help_text)
    if name == "max_model_len":
        length = st.number_input(label, value=_whole(value), key=key, help=f"{help_text} {t('settings.auto', lang)}")
        return length or None
    if name in ("watermark", "schedule_conservativeness"):
        return st.number_input(label, value=float(str(value)), step=0.01, key=key, help=help_text)
    # Without bounds of its own the control takes any number, and the refusal is the engine's sentence.
    return st.number_input(label, value=_whole(value), key=key, help=help_text)


def _whole(value: object) -> int:
    return value if isinstance(value, int) else 0

"""What requests had of each prefix cache, as tables: of one request, in sum, and of every request."""

from __future__ import annotations

from collections.abc import Mapping

import pandas as pd

from pages.ui.text import Lang, t
from scenarios.prefix_caches import CacheRun, CacheUse

Runs = Mapping[str, CacheRun]


def use_table(runs: Runs, request: str, lang: Lang) -> pd.DataFrame:
    """A row for each cache: what `request` had of it."""
    return pd.DataFrame([_row(run, run.uses[request], lang) for run in runs.values()])


def sums_table(runs: Runs, lang: Lang) -> pd.DataFrame:
    """A row for each cache: all requests together."""
    return pd.DataFrame([_row(run, run.total, lang) for run in runs.values()])


def requests_table(runs: Runs, lang: Lang) -> pd.DataFrame:
    """A row for each request and cache, those of a request together."""
    requests = next(iter(runs.values())).uses
    return pd.DataFrame(
        [
            {t("metric.request", lang): request, **_row(run, run.uses[request], lang)}
            for request in requests
            for run in runs.values()
        ]
    )


def _row(run: CacheRun, use: CacheUse, lang: Lang) -> dict[str, object]:
    config = run.config
    none = t("metric.none", lang)
    hit = use.hit_tokens
    return {
        t("prefix.cache", lang): t(f"prefix.{config.cache}_short", lang, size=config.block_size),
        t("prefix.matched", lang): none if use.matched_tokens is None else use.matched_tokens,
        t("prefix.usable", lang): none if hit is None else hit,
        t("prefix.computed", lang): none if hit is None else use.prompt_tokens - hit,
        t("prefix.recomputed", lang): use.recomputed_tokens,
        t("prefix.held", lang): f"{use.held_blocks} × {config.block_size}",
        t("prefix.evicted", lang): use.evicted_tokens,
    }

"""Two runs' metrics side by side, in the page's language: each number says where it comes from."""

from __future__ import annotations

from collections.abc import Iterable

import pandas as pd

from engine.metrics import RunMetrics
from pages.figures.latency import clock_label
from pages.ui.text import Lang, t
from scenarios import report
from scenarios.report import Row

TIMED_UNITS = ("ms", "/s")
TIMED_PATHS = ("fairness.jain_rate", "goodput.met", "goodput.share")


def metrics_table(
    a: RunMetrics, b: RunMetrics, rows: Iterable[Row], names: tuple[str, str], lang: Lang
) -> pd.DataFrame:
    """One row for each metric that one of the two has data for; b − a is no data unless both have."""
    difference = t("compare.difference", lang, a=names[0], b=names[1])
    lines = []
    for row in rows:
        left, right = report.value(a, row.path), report.value(b, row.path)
        if left is None and right is None:
            continue
        apart = None if left is None or right is None else right - left
        timed = row.unit in TIMED_UNITS or row.path in TIMED_PATHS
        lines.append(
            {
                t("compare.metric", lang): label(row, lang),
                names[0]: shown(left, row.unit, lang),
                names[1]: shown(right, row.unit, lang),
                difference: shown(apart, row.unit, lang, signed=True),
                t("compare.source", lang): clock_label(a, lang) if timed else t("compare.counted", lang),
            }
        )
    return pd.DataFrame(lines)


def label(row: Row, lang: Lang) -> str:
    """What a reader calls the metric: "TTFT, mean"."""
    part = row.path.rpartition(".")[2]
    return f"{t(row.key, lang)}, {t(f'compare.{part}', lang)}" if part in ("mean", "max") else t(row.key, lang)


def shown(number: report.Number, unit: str, lang: Lang, *, signed: bool = False) -> str:
    """A number with its unit, or the words for no data."""
    if number is None:
        return t("metric.none", lang)
    return ("+" if signed and number > 0 else "") + report.shown(number, unit)

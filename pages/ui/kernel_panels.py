"""The kernel page's cards and tabs: what one launch reads, where it lies, what it costs, and whether it is right."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection
from dataclasses import replace
from statistics import median
from typing import Any

import streamlit as st
import torch

from engine.kv_dtype import KV_DTYPES
from engine.roofline import GPUS
from kernels import faults
from kernels.faults import Fault
from kernels.masks import visible_positions
from kernels.metadata import MAX_TREE_TOKENS, AttentionMetadata, Mask, MaskKind, RowMasks
from pages.figures.block_walk import Walk, block_walk, walk_alt
from pages.figures.error_scale import error_scale
from pages.figures.mask_picture import mask_picture
from pages.figures.program_grid import grid_alt, program_grid
from pages.figures.roofline import is_memory_bound, roofline, seconds
from pages.ui.chart import chart
from pages.ui.launch_view import Difference, LaunchView, difference
from pages.ui.lens_panel import lens_card, watched
from pages.ui.listing_panel import listing_card
from pages.ui.player import player
from pages.ui.text import Lang, t
from pages.ui.theme import Palette

AS_RUN = ""
RUNS = 5  # of the launch, for its time
GRID_HEIGHT, WALK_HEIGHT, TAB_HEIGHT = 250, 265, 265


def grid_card(shown: LaunchView, palette: Palette, lang: Lang) -> None:
    tiles, heads, splits = shown.batch.grid
    st.markdown(
        f"**{t('kernel.grid', lang)}** · " + t("kernel.grid_sub", lang, tiles=tiles, heads=heads, splits=splits)
    )
    figure = program_grid(shown.batch, shown.requests, shown.place, shown.row, palette, lang)
    chart(figure, min(GRID_HEIGHT, 70 + 42 * heads * splits), "kernel-grid", grid_alt(shown.batch, lang))
    st.caption(t("kernel.grid_note", lang, group=shown.group))


def walk_card(shown: LaunchView, palette: Palette, lang: Lang) -> None:
    program = shown.program
    st.markdown(
        f"**{t('kernel.walk', lang)}** · "
        + t("kernel.walk_sub", lang, token=program.end_token - 1, head=program.kv_head)
    )
    if not shown.visits:
        st.info(t("kernel.no_visit", lang))
        return
    first = (program.end_token - program.first_token - 1) * shown.group
    heads = range(program.kv_head * shown.group, (program.kv_head + 1) * shown.group)
    walked = Walk(
        shown.visits, tuple(range(first, first + shown.group)), tuple(f"h{head}" for head in heads),
        shown.meta.block_size,
    )  # fmt: skip
    count = len(walked.visits)
    player(
        [block_walk(walked, at, palette, lang) for at in range(count)],
        [t("kernel.walk_at", lang, at=at + 1, of=count) for at in range(count)],
        [walk_alt(walked, at, lang) for at in range(count)],
        WALK_HEIGHT, palette, lang, key="kernel-walk",
    )  # fmt: skip
    st.caption(t("kernel.walk_note", lang))


def _address(shown: LaunchView, palette: Palette, lang: Lang) -> None:
    """Position → block → slot → element, with the numbers of this pool."""
    layout, meta = shown.layer.layout, shown.meta
    length, size = int(meta.seq_lens[0]), meta.block_size
    position = st.slider(
        t("kernel.position", lang), 0, max(1, length - 1), length - 1, key="kernel-position", width=420
    )
    head = shown.program.kv_head
    logical, slot = position // size, position % size
    block = int(meta.block_table[0, logical])
    steps = layout.strides
    where = (shown.layer_index, block, slot, head)
    total = sum(index * stride for index, stride in zip(where, steps, strict=False))
    st.markdown(
        t("kernel.address_walk", lang, p=position, size=size, logical=logical, block=block, slot=slot, id=shown.request)
    )
    terms = " + ".join(f"{index} × {stride:,}" for index, stride in zip(where, steps, strict=False))
    bytes_ = layout.dtype.itemsize
    st.code(
        f"{t('kernel.address_names', lang)}\n"
        f"offset = {terms} + d\n"
        f"       = {total:,} + d          (d = 0 … {layout.head_dim - 1})\n"
        f"bytes  = {bytes_} × ({total:,} + d) = {bytes_ * total:,} + {bytes_} × d",
        language=None,
    )
    st.caption(t("kernel.address_note", lang, order=" × ".join(_axes(layout.order, lang)), blocks=layout.num_blocks))


def _axes(order: str, lang: Lang) -> list[str]:
    return [t(f"kernel.axis_{axis.lower()}", lang) for axis in order] + ["d"]


def _mask(shown: LaunchView, palette: Palette, lang: Lang) -> None:
    """The mask of the request's launch, and what the other kinds would be."""
    left, right = st.columns([0.3, 0.7], gap="medium")
    length, query = int(shown.meta.seq_lens[0]), shown.meta.max_query_len
    with left:
        kinds = [kind for kind in MaskKind if kind is not MaskKind.TREE or 1 < query <= MAX_TREE_TOKENS]
        _keep_possible("kernel-mask-kind", kinds)
        kind = st.radio(
            t("kernel.mask_kind", lang), kinds, format_func=lambda each: t(f"kernel.mask_{each.name.lower()}", lang),
            key="kernel-mask-kind",
        )  # fmt: skip
        size = 0
        if kind in (MaskKind.WINDOW, MaskKind.PREFIX) and length > 1:
            size = st.slider(t("kernel.mask_size", lang), 1, length, max(1, length // 2), key="kernel-mask-size")
    meta = masked(shown.meta, kind, size)
    visible, _ = visible_positions(meta, 0, slice(0, query), slice(0, length))
    work = shown.work_of(meta)
    with right:
        figure = mask_picture(visible, shown.first_token, 0, length - query, shown.meta.block_size, palette, lang)
        alt = t("alt.mask", lang, tokens=query, seen=int(visible.sum()), total=visible.numel())
        chart(figure, min(TAB_HEIGHT, 90 + 16 * min(query, 24)), "kernel-mask-picture", alt)
        own = shown.work
        st.caption(
            t("kernel.mask_note", lang, seen=int(visible.sum()), total=visible.numel(), kv=_bytes(work.kv_bytes),
              own=_bytes(own.kv_bytes))
        )  # fmt: skip


def _keep_possible(key: str, options: Collection[object]) -> None:
    """What was chosen for another launch may not exist for this one."""
    if st.session_state.get(key) not in options:
        st.session_state.pop(key, None)


def masked(meta: AttentionMetadata, kind: MaskKind, size: int) -> AttentionMetadata:
    """The one-row launch under another mask; a tree is a binary one over its tokens."""
    if kind is MaskKind.CAUSAL:
        return replace(meta, masks=None)
    parents = tuple((token + 1) // 2 - 1 for token in range(meta.max_query_len)) if kind is MaskKind.TREE else ()
    mask = Mask(kind, size=size, parents=parents)
    return replace(meta, masks=RowMasks.of([mask], [meta.max_query_len]))


def _traffic(shown: LaunchView, palette: Palette, lang: Lang) -> None:
    left, right = st.columns([0.45, 0.55], gap="medium")
    work = shown.work
    with left:
        gpu = st.selectbox(t("kernel.gpu", lang), GPUS, index=1, format_func=lambda each: each.name, key="kernel-gpu")
        again = work.kv_bytes / work.least_kv_bytes if work.least_kv_bytes else 1.0
        bound = t("kernel.bound_memory" if is_memory_bound(gpu, work) else "kernel.bound_compute", lang)
        st.markdown(
            t("kernel.traffic", lang, kv=_bytes(work.kv_bytes), least=_bytes(work.least_kv_bytes), again=f"{again:.2f}",
              other=_bytes(work.other_bytes), flops=f"{work.flops:,}", intensity=f"{work.intensity:.2f}")
        )  # fmt: skip
        st.markdown(
            t("kernel.modelled", lang, gpu=gpu.name, us=f"{seconds(gpu, work) * 1e6:.2f}", bound=bound)
            + "  \n"
            + t("kernel.measured", lang, ms=f"{measured_ms(shown):.3f}", by=shown.implementation, runs=RUNS)
        )
    with right:
        alt = t("alt.roofline", lang, gpu=gpu.name, intensity=f"{work.intensity:.2f}", bound=bound)
        chart(roofline(work, gpu, palette, lang), TAB_HEIGHT, "kernel-roofline", alt)


def measured_ms(shown: LaunchView) -> float:
    """Median wall time of the request's launch on the device at hand."""
    times = []
    for _ in range(RUNS):
        began = time.perf_counter()
        shown.rerun(shown.layer, shown.meta)
        if shown.layer.key.device.type == "cuda":
            torch.cuda.synchronize(shown.layer.key.device)
        times.append(time.perf_counter() - began)
    return median(times) * 1e3


def _bytes(count: int) -> str:
    return f"{count / 2**20:.2f} MiB" if count >= 2**20 else f"{count / 2**10:.1f} KiB"


def _dense(shown: LaunchView, palette: Palette, lang: Lang) -> None:
    left, right = st.columns([0.45, 0.55], gap="medium")
    found = shown.difference
    with left:
        st.markdown(_verdict(found, shown, lang))
        st.markdown(
            t("kernel.where", lang, token=shown.first_token + found.token, head=found.head, dim=found.dim,
              paged=f"{found.paged:+.7f}", dense=f"{found.dense:+.7f}")
        )  # fmt: skip
        st.caption(t("kernel.dense_note", lang))
    with right:
        figure = error_scale(
            {t("kernel.delta", lang): found.by_head}, shown.tolerance, "h", t("hover.head_error", lang), palette
        )
        alt = t("alt.dense", lang, largest=f"{found.largest:.2g}", head=found.head)
        chart(figure, TAB_HEIGHT, "kernel-dense-heads", alt)


def _verdict(found: Difference, shown: LaunchView, lang: Lang) -> str:
    key = "kernel.equal" if found.largest <= shown.tolerance else "kernel.unequal"
    return t(key, lang, largest=f"{found.largest:.2g}", tolerance=f"{shown.tolerance:.0e}")


def _dtype(shown: LaunchView, palette: Palette, lang: Lang) -> None:
    """What it would cost to keep K and V in another format, layer by layer."""
    left, right = st.columns([0.42, 0.58], gap="medium")
    ran = str(shown.layer.layout.dtype).removeprefix("torch.")
    with left:
        asked = st.radio(
            t("kernel.dtype", lang), (AS_RUN, *(name for name in KV_DTYPES if name != "fp32")), horizontal=True,
            format_func=lambda name: t("kernel.as_run", lang, dtype=ran) if name == AS_RUN else name,
            key="kernel-kv-dtype",
        )  # fmt: skip
        if asked == AS_RUN:
            st.caption(t("kernel.dtype_note", lang))
            return
        with st.spinner(t("kernel.dtype_running", lang)):
            errors = shown.looked.errors_of(shown.row)
        mine = next(each for each in errors if each.kv_dtype == asked and each.layer == shown.layer_index)
        worst = max((each for each in errors if each.kv_dtype == asked), key=lambda each: each.relative)
        exact = next(each for each in errors if each.kv_dtype == "fp32")
        st.markdown(
            t("kernel.dtype_error", lang, dtype=asked, layer=mine.layer, largest=f"{mine.max_abs:.2g}",
              share=f"{mine.relative:.2%}", head=mine.head, worst=worst.layer, most=f"{worst.relative:.2%}",
              bytes=f"{mine.kv_bytes_per_token:,}", exact=f"{exact.kv_bytes_per_token:,}",
              times=f"{exact.kv_bytes_per_token / mine.kv_bytes_per_token:.2f}")
        )  # fmt: skip
        st.caption(t("kernel.dtype_note", lang))
    with right:
        names = [asked, *(name for name in KV_DTYPES if name not in (asked, "fp32"))]
        series = {name: [each.relative for each in errors if each.kv_dtype == name] for name in names}
        alt = t("alt.dtype", lang, dtype=asked, share=f"{mine.relative:.2%}", layer=mine.layer)
        figure = error_scale(series, None, "L", t("hover.layer_error", lang), palette)
        chart(figure, TAB_HEIGHT, "kernel-dtype-layers", alt)


def _wrong(shown: LaunchView, palette: Palette, lang: Lang) -> None:
    """The launch spoilt on purpose, and what came of it."""
    left, right = st.columns([0.45, 0.55], gap="medium")
    possible = possible_faults(shown)
    with left:
        _keep_possible("kernel-fault", possible)
        fault = st.radio(
            t("kernel.fault", lang), list(possible), format_func=lambda each: t(f"kernel.fault_{each}", lang),
            key="kernel-fault",
        )  # fmt: skip
    make, params = possible[fault]
    found = difference(shown.rerun(*make), shown.output)
    with right:
        said = {name: t(value, lang) if name == "whose" else value for name, value in params.items()}
        st.markdown(t(f"kernel.did_{fault}", lang, **said))
        nan = found.largest != found.largest
        key = (
            "kernel.came_nan"
            if nan
            else "kernel.came_same"
            if found.largest <= shown.tolerance
            else "kernel.came_other"
        )
        st.markdown(
            t(key, lang, largest=f"{found.largest:.3g}", head=found.head, token=shown.first_token + found.token)
        )
        st.caption(t(f"kernel.why_{fault}", lang))
        watched(shown, make, str(fault), palette, lang)


Faulty = tuple[faults.Launch, dict[str, Any]]


def possible_faults(shown: LaunchView) -> dict[Fault, Faulty]:
    """The faults that this launch can have, each made, with the numbers its sentence needs."""
    launch = (shown.layer, shown.meta)
    length, size = int(shown.meta.seq_lens[0]), shown.meta.block_size
    count, room = -(-length // size), -length % size
    table = shown.meta.block_table[0, :count].tolist()
    found: dict[Fault, Faulty] = {}
    if length >= 2 * size:
        found[Fault.SWAPPED] = (
            faults.swap_entries(launch, 0, 1),
            {"one": 0, "other": 1, "first": table[0], "second": table[1]},
        )
    if count > 1 and room:
        found[Fault.SWAPPED_TAIL] = (
            faults.swap_entries(faults.poison_tail(launch), 0, count - 1),
            {"one": 0, "other": count - 1, "first": table[0], "second": table[-1]},
        )
    candidates = [*sorted(shown.others), *range(1, shown.layer.layout.num_blocks)]
    foreign = next((block for block in candidates if block not in table), None)
    if foreign is not None:
        key = "kernel.whose_other" if foreign in shown.others else "kernel.whose_free"
        found[Fault.FOREIGN] = (
            faults.point_elsewhere(launch, 0, foreign),
            {"entry": 0, "own": table[0], "block": foreign, "whose": key},
        )
    if room:
        found[Fault.PAST_END] = (
            faults.read_past_end(launch, 1),
            {"length": length, "slot": length % size, "block": table[-1]},
        )
        found[Fault.POISONED_TAIL] = faults.poison_tail(launch), {"slots": room, "block": table[-1]}
    found[Fault.POISONED_SLOT] = faults.poison_slot(launch, 0), {"block": table[0], "slot": 0}
    return found


TABS: dict[str, Callable[[LaunchView, Palette, Lang], None]] = {
    "address": _address,
    "mask": _mask,
    "traffic": _traffic,
    "dense": _dense,
    "dtype": _dtype,
    "wrong": _wrong,
    "lens": lens_card,
    "listing": listing_card,
}

"""The radix tree: edges labelled with their text, locks on the nodes, what this step matched, cut off and grew."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from math import inf

from engine.events import Event
from engine.radix_events import NodeInserted, NodeSplit, PrefixMatched
from engine.radix_view import NodeView, RadixView
from pages.figures.block_tables import row_count
from pages.figures.marks import Selection
from pages.figures.primitives import Figure, Texts, Trace, escape, hidden_axis, layout, lines, node_ref
from pages.ui.text import Lang, t
from pages.ui.theme import Palette

MAX_ROWS = 14
MAX_DEPTH = 7
LABEL_CHARACTERS = 16
MIN_CHARACTERS = 4  # a column never gets narrower than this
MIN_WIDTH = 30  # characters across, so that a small tree stays together
NODE_PX = {"large": 21, "small": 15}

Labeller = Callable[[Sequence[int]], str]


@dataclass(frozen=True, slots=True)
class Placed:
    """A node at `depth` edges from the root and at height `y` (rows from the top); `parent_y` None for the root."""

    node: NodeView
    depth: int
    y: float
    parent: int | None
    parent_y: float | None


def token_ids(tokens: Sequence[int]) -> str:
    """The label of an edge where there is no text: its token ids."""
    return " ".join(map(str, tokens))


def place(root: NodeView, most: float = inf) -> tuple[list[Placed], int]:
    """Where each node goes, parents first: a row for each leaf, parents half-way between their outer children.

    Children from row `most` on do not count, so that the parent of those shown is shown. Returns the nodes and the
    number of rows.
    """
    order: list[tuple[NodeView, int, NodeView | None]] = [(root, 0, None)]
    for node, depth, _ in order:  # grows while it is walked
        order.extend((child, depth + 1, node) for child in node.children)
    rows = _leaf_rows(root)
    height = dict(rows)
    for node, _, _ in reversed(order):
        if node.children:
            heights = [height[child.id] for child in node.children]
            kept = [each for each in heights if each < most] or heights
            height[node.id] = (kept[0] + kept[-1]) / 2
    placed = []
    for node, depth, parent in order:
        above = (None, None) if parent is None else (parent.id, height[parent.id])
        placed.append(Placed(node, depth, height[node.id], *above))
    return placed, len(rows)


def _leaf_rows(root: NodeView) -> dict[int, float]:
    rows: dict[int, float] = {}
    stack = [root]
    while stack:
        node = stack.pop()
        if not node.children:
            rows[node.id] = len(rows) + 0.5
        stack.extend(reversed(node.children))
    return rows


def radix_tree(
    view: RadixView,
    events: Iterable[Event],
    selection: Selection | None,
    palette: Palette,
    lang: Lang,
    label: Labeller = token_ids,
) -> Figure:
    """Traces, in this order: edges, matched path, selected path, nodes, locks, labels, words."""
    events = list(events)
    most = palette.fits(palette.fits(MAX_ROWS))
    placed, count = place(view.root, most)
    shown = [item for item in placed if item.y < most and item.depth <= MAX_DEPTH]
    rows = row_count(min(count, most) + (len(shown) < len(placed)), most + 1)
    where = {item.node.id: item for item in shown}
    texts = {item.node.id: short_label(label(item.node.tokens)) for item in shown if item.depth}
    x = _columns(shown, texts)
    matched = {node for event in events if isinstance(event, PrefixMatched) for node in _up(event.node, where)}
    chosen = set(_up(int(selection.id), where)) if selection is not None and selection.kind == "node" else set()
    labels = Texts("labels", palette.px(12.5), palette.mono, "top right")
    locks = Texts("locks", palette.px(12.5), palette.mono)
    words = Texts("words", palette.px(12.5), palette.sans, "middle right")
    for item in shown:
        if item.depth:
            left, above = x[item.depth - 1] + 1.1, item.y - 0.07
            labels.add(left, above, texts[item.node.id], palette.text, ref=node_ref(item.node.id))
        if item.node.lock_ref and item.depth:
            ink = palette.on_shared if item.node.lock_ref > 1 else palette.on_used
            locks.add(x[item.depth], item.y, str(item.node.lock_ref), ink)
    if len(placed) == 1:
        words.add(0.6, 0.5, t("figure.tree_empty", lang), palette.muted)
    if len(shown) < len(placed):
        words.add(0, rows - 0.4, t("figure.more_nodes", lang, n=len(placed) - len(shown)), palette.muted)
    return {
        "data": [
            _edges("edges", [item for item in shown if item.depth], x, palette.muted, 1.6),
            _edges(
                "matched path", [item for item in shown if item.depth and item.node.id in matched], x, palette.new, 4
            ),
            _edges(
                "selected path", [item for item in shown if item.depth and item.node.id in chosen], x, palette.hit, 3
            ),
            _nodes(view, shown, x, events, rows, palette, lang, label),
            locks.trace(),
            labels.trace(),
            words.trace(),
        ],
        "layout": layout(
            palette, hidden_axis(-0.8, max(MIN_WIDTH, max(x)) + 0.8), hidden_axis(rows, -0.5), (8, 8, 2, 4)
        ),
    }


def tree_alt(view: RadixView, lang: Lang) -> str:
    """The diagram in one sentence."""
    locked = sum(1 for node in view if node.lock_ref and node is not view.root)
    return t(
        "alt.tree",
        lang,
        nodes=sum(1 for _ in view) - 1,
        locked=locked,
        evictable=view.evictable,
        protected=view.protected,
    )


def short_label(text: str) -> str:
    """An edge's text on one line, its middle left out if it is long: both ends tell edges apart."""
    text = text.replace("\n", "⏎")
    if len(text) <= LABEL_CHARACTERS:
        return text
    head = LABEL_CHARACTERS // 2
    return f"{text[:head]}…{text[head + 1 - LABEL_CHARACTERS :]}"


def _columns(shown: Sequence[Placed], texts: dict[int, str]) -> list[float]:
    """x of the nodes at each depth, in characters: the longest label of a depth sets its distance."""
    widths: dict[int, int] = {}
    for item in shown:
        if item.depth:
            widths[item.depth] = max(widths.get(item.depth, MIN_CHARACTERS), len(texts[item.node.id]))
    x = [0.0]
    for depth in range(1, max(widths, default=0) + 1):
        x.append(x[-1] + widths[depth] + 2.4)
    if len(x) == 1:
        x.append(float(LABEL_CHARACTERS))
    return x


def _up(node: int, where: dict[int, Placed]) -> list[int]:
    """A node and those above it, without the root; nothing if it is gone or out of the picture."""
    path = []
    item = where.get(node)
    while item is not None and item.parent is not None:
        path.append(item.node.id)
        item = where.get(item.parent)
    return path


def _edges(name: str, items: Sequence[Placed], x: Sequence[float], color: str, width: float) -> Trace:
    xs: list[float | None] = []
    ys: list[float | None] = []
    for item in items:
        left = x[item.depth - 1]
        xs += [left, left + 0.5, x[item.depth], None]
        ys += [item.parent_y, item.y, item.y, None]
    return lines(name, xs, ys, color, width=width)


def _nodes(
    view: RadixView,
    shown: Sequence[Placed],
    x: Sequence[float],
    events: Sequence[Event],
    rows: int,
    palette: Palette,
    lang: Lang,
    label: Labeller,
) -> Trace:
    """Circles filled by locks; a new leaf, or the upper half of a cut edge, has a ring of its own."""
    new = {event.node for event in events if isinstance(event, NodeInserted)}
    cut = {event.upper for event in events if isinstance(event, NodeSplit)}
    fills, rings, widths, hovers = [], [], [], []
    for item in shown:
        node = item.node
        fills.append(_fill(node, item.depth, palette))
        ring = palette.new if node.id in new else palette.evicted if node.id in cut else palette.card
        rings.append(ring)
        widths.append(3 if node.id in new | cut else 1.5)
        card = node_card(view, node, lang, label)
        hovers.append(card + ("<br>" + t("hover.tree_cut", lang) if node.id in cut else ""))
    return {
        "type": "scatter",
        "mode": "markers",
        "name": "nodes",
        "x": [x[item.depth] for item in shown],
        "y": [item.y for item in shown],
        "marker": {
            "size": palette.px(NODE_PX["large" if rows <= 12 else "small"]),
            "symbol": [
                "square" if not item.depth else "diamond" if item.node.id in cut else "circle" for item in shown
            ],
            "color": fills,
            "line": {"color": rings, "width": widths},
            "opacity": 1,
        },
        "customdata": [node_ref(item.node.id) for item in shown],
        "hovertext": hovers,
        "hovertemplate": "%{hovertext}<extra></extra>",
        "cliponaxis": False,
    }


def _fill(node: NodeView, depth: int, palette: Palette) -> str:
    if not depth:
        return palette.muted
    if node.lock_ref > 1:
        return palette.shared
    return palette.used if node.lock_ref else palette.cached


def node_card(view: RadixView, node: NodeView, lang: Lang, label: Labeller) -> str:
    """The hover card of a node, the same in every figure."""
    if node is view.root:
        return t("hover.tree_root", lang, evictable=view.evictable, protected=view.protected)
    text = label(node.tokens)
    return t(
        "hover.tree_node",
        lang,
        node=node.id,
        text=escape(text if len(text) <= 60 else text[:59] + "…"),
        tokens=node.units,
        first=node.start,
        last=node.end - 1,
        lock=node.lock_ref,
        hits=node.hit_count,
        pages=len(node.pages),
        state=t("state.evictable" if node.evictable else "state.protected" if node.lock_ref else "state.inner", lang),
    )

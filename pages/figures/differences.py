"""Where two pictures of the same step differ: blocks by their id, requests by what they hold and how far they are."""

from __future__ import annotations

from engine.snapshot import RequestView, Snapshot
from pages.figures.block_tables import column_count, table_rows, visible_positions
from pages.figures.marks import block_state
from pages.figures.pool import rings_around
from pages.figures.primitives import CLEAR, Rects, Trace
from pages.ui.theme import Palette


def comparable(a: Snapshot, b: Snapshot) -> bool:
    """Block ids name the same slots only in pools of one shape."""
    return (a.pool.num_blocks, a.pool.block_size) == (b.pool.num_blocks, b.pool.block_size)


def differing_blocks(a: Snapshot, b: Snapshot) -> tuple[int, ...]:
    """Ids of the blocks whose state, owners' count, fill or content differ; () where ids cannot be compared."""
    if not comparable(a, b):
        return ()
    return tuple(block for block in range(a.pool.num_blocks) if _block(a, block) != _block(b, block))


def _block(snapshot: Snapshot, block: int) -> tuple[object, ...]:
    pool = snapshot.pool
    return block_state(snapshot, block), pool.ref_count[block], pool.fill[block], pool.hashes[block]


def differing_requests(a: Snapshot, b: Snapshot) -> tuple[tuple[RequestView, RequestView], ...]:
    """Requests that one side has brought further, or holds in another state; both views of each."""
    others = {view.id: view for view in b.requests}
    pairs = ((view, others[view.id]) for view in a.requests if view.id in others)
    return tuple((mine, theirs) for mine, theirs in pairs if _progress(mine) != _progress(theirs))


def _progress(view: RequestView) -> tuple[object, ...]:
    return view.status, view.computed_tokens, view.known_tokens, view.preemptions


def pool_rings(mine: Snapshot, other: Snapshot, palette: Palette) -> Trace:
    """To lay over the pool of `mine`."""
    return rings_around(differing_blocks(mine, other), mine.pool.num_blocks, palette.text, "differs")


def table_rings(mine: Snapshot, other: Snapshot, palette: Palette) -> Trace:
    """To lay over the block tables of `mine`: chips that name another block than the other side's at their place."""
    rings = Rects("differs", radius=5)
    if comparable(mine, other):
        theirs = {view.id: view.block_table for view in other.requests}
        columns = column_count(mine.requests, mine.pool.block_size)
        for row, view in enumerate(table_rows(mine, None, palette)[0]):
            table = theirs.get(view.id, ())
            for column, position in enumerate(visible_positions(len(view.block_table), columns)):
                if position is not None and table[position : position + 1] != view.block_table[position : position + 1]:
                    rings.add(column + 0.01, row + 0.06, 0.98, 0.88, CLEAR, line=palette.text, line_width=2)
    return rings.trace()

"""The programs of one launch: query tiles by KV heads (and splits), who serves whom and who has nothing to do."""

from __future__ import annotations

from collections.abc import Sequence

from kernels.recorder import LaunchPlan, Program, blocks_of
from pages.figures.block_tables import short
from pages.figures.primitives import Figure, Rects, Texts, escape, label_axis, layout
from pages.ui.text import Lang, t
from pages.ui.theme import Palette

MAX_TILES = 40
NAMED_TILES = 14  # with more columns a name has no room

Place = tuple[int, int, int]


def program_grid(
    planned: LaunchPlan, names: Sequence[str], chosen: Place | None, row: int | None, palette: Palette, lang: Lang
) -> Figure:
    """Traces, in this order: programs, what they serve.

    names: request of each row of the batch. `row`'s programs stand out, `chosen` has a frame.
    """
    tiles, heads, splits = planned.grid
    shown = min(tiles, MAX_TILES)
    by_place = {program.place: program for program in planned.programs}
    cells, words = Rects("programs", radius=3), Texts("words", palette.px(12.5), palette.mono)
    for tile in range(shown):
        for line in range(heads * splits):
            place = (tile, line // splits, line % splits)
            program = by_place.get(place)
            mine = program is not None and program.row == row
            fill = palette.free if program is None else palette.used if mine else palette.cached
            ink = palette.muted if program is None else palette.on_used if mine else palette.on_cached
            framed = place == chosen
            cells.add(
                tile + 0.05, line + 0.08, 0.9, 0.84, fill, line=palette.new if framed else palette.free_line,
                line_width=4 if framed else 1, ref=f"program:{tile}.{place[1]}.{place[2]}",
                hover=_sentence(place, program, names, planned.block_size, lang),
            )  # fmt: skip
            if shown <= NAMED_TILES:
                text = "–" if program is None else short(names[program.row])
                words.add(tile + 0.5, line + 0.5, text, ink)
    labels = [_line(line // splits, line % splits, splits) for line in range(heads * splits)]
    size = palette.px(12.5)
    every = max(1, -(-shown // NAMED_TILES))
    ticks = list(range(0, shown, every))
    xlabels = [str(tick) for tick in ticks]
    if shown < tiles:
        xlabels[-1] += " …"
    return {
        "data": [cells.trace(), words.trace()],
        "layout": layout(
            palette,
            label_axis(0, max(shown, 4), [x + 0.5 for x in ticks], xlabels, palette.muted, size, palette.mono),
            label_axis(
                max(heads * splits, 1), 0, [y + 0.5 for y in range(heads * splits)], labels, palette.muted, size,
                palette.mono,
            ),
            (48 if splits > 1 else 34, 6, 4, 22),
        ),
    }  # fmt: skip


def grid_alt(planned: LaunchPlan, lang: Lang) -> str:
    tiles, heads, splits = planned.grid
    return t(
        "alt.grid", lang, tiles=tiles, heads=heads, splits=splits, busy=len(planned.programs),
        idle=tiles * heads * splits - len(planned.programs),
    )  # fmt: skip


def _line(head: int, split: int, splits: int) -> str:
    return f"kv{head}.{split}" if splits > 1 else f"kv{head}"


def _sentence(place: Place, program: Program | None, names: Sequence[str], block_size: int, lang: Lang) -> str:
    where = {"tile": place[0], "head": place[1], "split": place[2]}
    if program is None:
        return t("hover.program_idle", lang, **where)
    return t(
        "hover.program", lang, id=escape(names[program.row]), first=program.first_token, last=program.end_token - 1,
        blocks=sum(1 for _ in blocks_of(program, block_size)), start=program.start, stop=program.stop - 1, **where,
    )  # fmt: skip

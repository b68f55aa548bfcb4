"""Slots of a token pool, handed out by the page: the order in which SGLang's allocators give and take.

Source: SGLang 0.5.23 `TokenToKVPoolAllocator` (page size 1) and `PagedTokenToKVPoolAllocator`. Pages are taken from the
front of the free list. Freed ones go to the back with page size 1 (first in, first out) and to the front with larger
pages (last in, first out). Page 0 takes the writes of padding and is never handed out; page p owns the slots
p * page_size .. p * page_size + page_size - 1.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

from engine.errors import UserError

Ids = NDArray[np.int64]
NO_IDS: Ids = np.empty(0, np.int64)


class SlotPool:
    """The free list of `pool_tokens` slots in pages of `page_size`; a ring, so that both ends are cheap."""

    def __init__(self, pool_tokens: int, page_size: int) -> None:
        if page_size < 1 or pool_tokens < 1 or pool_tokens % page_size:
            raise UserError("radix.pool", pool=pool_tokens, page=page_size)
        self.page_size = page_size
        self.num_pages = pool_tokens // page_size
        self.clear()

    def clear(self) -> None:
        """Every page is free again, in ascending order."""
        self._ring: Ids = np.arange(1, self.num_pages + 1)
        self._head = 0
        self._count = self.num_pages
        self._is_free = np.ones(self.num_pages + 1, np.bool_)
        self._is_free[0] = False
        self._scratch: Ids = np.zeros(self.num_pages + 1, np.int64)

    @property
    def num_free_pages(self) -> int:
        return self._count

    @property
    def available(self) -> int:
        """Free slots, in tokens."""
        return self._count * self.page_size

    def free_pages(self) -> Ids:
        """The free list, front (next out) first; a copy."""
        return self._ring.take(np.arange(self._head, self._head + self._count), mode="wrap")

    def take(self, pages: int) -> Ids | None:
        """`pages` pages from the front, or None, with nothing taken, when there are fewer."""
        if pages > self._count:
            return None
        taken = self._ring.take(np.arange(self._head, self._head + pages), mode="wrap")
        self._is_free[taken] = False
        self._head = (self._head + pages) % self.num_pages
        self._count -= pages
        return taken

    def free(self, pages: ArrayLike) -> None:
        """Gives `pages` back in their order. Refused as a whole if one is no page, is free, or comes twice."""
        given = np.asarray(pages, np.int64)
        count = len(given)
        if not count:
            return
        self._check(given)
        start = self._head + self._count if self.page_size == 1 else self._head - count
        self._ring.put(np.arange(start, start + count), given, mode="wrap")
        if self.page_size > 1:
            self._head = start % self.num_pages
        self._count += count
        self._is_free[given] = True

    def free_segment(self, slots: ArrayLike, start: int) -> None:
        """Frees the slots of positions `start`.. of one request; `start` is a page's first position.

        The whole last page goes, also where the segment ends inside it (`free_segment`).
        """
        if start % self.page_size:
            raise UserError("radix.segment", start=start, page=self.page_size)
        self.free(np.asarray(slots, np.int64)[:: self.page_size] // self.page_size)

    def slots(self, pages: Ids) -> Ids:
        """The slots of `pages`, in order."""
        return (pages[:, None] * self.page_size + np.arange(self.page_size)).reshape(-1)

    def alloc(self, tokens: int) -> Ids | None:
        """Slots of whole pages for `tokens` tokens (`alloc`), or None."""
        pages = self.take(tokens // self.page_size)
        return None if pages is None else self.slots(pages)

    def alloc_extend(self, lengths: Sequence[tuple[int, int]], last_slots: Sequence[int]) -> list[Ids] | None:
        """Slots for requests that grow from `before` to `after` positions each; all of them or None (`alloc_extend`).

        `last_slots[i]` is the slot of request i's last position: its part-filled page is filled first.
        """
        size = self.page_size
        needs = [-(-after // size) - -(-before // size) for before, after in lengths]
        pages = self.take(sum(needs))
        if pages is None:
            return None
        grown: list[Ids] = []
        for (before, after), last, need in zip(lengths, last_slots, needs, strict=True):
            fresh = self.slots(pages[:need])
            pages = pages[need:]
            room = min(after - before, -before % size)
            grown.append(np.concatenate([np.arange(last + 1, last + 1 + room), fresh])[: after - before])
        return grown

    def alloc_decode(self, lengths: Sequence[int], last_slots: Sequence[int]) -> Ids | None:
        """One slot each for requests that now have `lengths` positions; a page only at a page's start (`alloc_decode`)."""
        grown = self.alloc_extend([(length - 1, length) for length in lengths], last_slots)
        return None if grown is None else np.concatenate([NO_IDS, *grown])

    def _check(self, given: Ids) -> None:
        order = np.arange(len(given))
        if given.min() < 1 or given.max() > self.num_pages:
            bad = next(page for page in given.tolist() if not 1 <= page <= self.num_pages)
            raise UserError("radix.no_page", page=bad, last=self.num_pages)
        self._scratch[given] = order  # of a page that comes twice only the later place survives
        wrong = self._is_free[given] | (self._scratch[given] != order)
        if wrong.any():
            raise UserError("radix.double_free", page=int(given[wrong.argmax()]))

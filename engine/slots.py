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
        self._is_free = np.ones(self.num_pages + 1, np.bool_)  # page 0 too: whoever frees it is refused
        self._place: Ids = np.zeros(self.num_pages + 1, np.int64)  # scratch of `_check`
        self._counting: Ids = np.arange(self.num_pages)

    @property
    def num_free_pages(self) -> int:
        return self._count

    @property
    def available(self) -> int:
        """Free slots, in tokens."""
        return self._count * self.page_size

    def free_pages(self) -> Ids:
        """The free list, front (next out) first; a copy."""
        return self._front(self._count)

    def is_free(self, page: int) -> bool:
        return bool(self._is_free[page])

    def take(self, pages: int) -> Ids | None:
        """`pages` pages from the front, or None, with nothing taken, when there are fewer."""
        if pages > self._count:
            return None
        taken = self._front(pages)
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
        if self.page_size == 1:
            start = (self._head + self._count) % self.num_pages
        else:
            start = self._head = (self._head - count) % self.num_pages
        until_end = self.num_pages - start
        self._ring[start : start + count] = given[:until_end]
        self._ring[: max(0, count - until_end)] = given[until_end:]
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
        """A slot each for requests that now have `lengths` positions; a page only at its start (`alloc_decode`)."""
        grown = self.alloc_extend([(length - 1, length) for length in lengths], last_slots)
        return None if grown is None else np.concatenate([NO_IDS, *grown])

    def _front(self, count: int) -> Ids:
        until_end = self.num_pages - self._head
        first = self._ring[self._head : self._head + count]
        return first.copy() if count <= until_end else np.concatenate([first, self._ring[: count - until_end]])

    def _check(self, given: Ids) -> None:
        order = self._counting[: len(given)]
        known = given.view(np.uint64).max() <= self.num_pages  # unsigned, a negative page is a very large one
        if known and len(order) == len(given):
            self._place[given] = order  # of a page that comes twice only the later place survives
            if not (self._is_free[given].any() or (self._place[given] != order).any()):
                return
        seen: set[int] = set()
        for page in given.tolist():
            if not 1 <= page <= self.num_pages:
                raise UserError("radix.no_page", page=page, last=self.num_pages)
            if self._is_free[page] or page in seen:
                raise UserError("radix.double_free", page=page)
            seen.add(page)

"""A sequence that changes a little at a time: picturing it costs what has changed, not its length."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import islice
from typing import Any, Generic, TypeAlias, TypeVar, overload

T = TypeVar("T")
Changes: TypeAlias = tuple[list[int], list[T]]  # where, and what is there from then on

_SHORTEST_LOG = 64  # changes; below this a full copy is not worth its while


class History(Generic[T]):
    """The sequence as it is now. Like a film: a full picture now and then, only the changes in between.

    A full copy is made once as many items have changed as there are, so that n changes cost O(n) time and memory.
    """

    def __init__(self, items: Iterable[T] = ()) -> None:
        self._base = tuple(items)
        self._changes: Changes[T] = ([], [])
        self._length = len(self._base)

    def __len__(self) -> int:
        return self._length

    def put(self, indexes: Sequence[int], items: Sequence[T]) -> None:
        """Replaces the items at `indexes`, or appends them where the sequence ends."""
        self._changes[0].extend(indexes)
        self._changes[1].extend(items)
        self._length = max(self._length, 1 + max(indexes, default=-1))

    def now(self) -> Moment[T]:
        """The sequence at this moment; later changes do not show in it."""
        if len(self._changes[0]) > max(_SHORTEST_LOG, len(self._base)):
            self._base = _replay(self._base, self._changes, len(self._changes[0]))
            self._changes = ([], [])
        return Moment(self._base, self._changes, len(self._changes[0]), self._length)


@dataclass(frozen=True, slots=True, eq=False)
class Moment(Sequence[T]):
    """What a `History` was: the first `num_changes` of `changes`, which only ever grow, on top of `base`.

    Put together when it is read. Only the last few that were read are kept whole, so that a long run with many
    pictures stays small.
    """

    base: tuple[T, ...]
    changes: Changes[T]
    num_changes: int
    length: int

    @property
    def items(self) -> tuple[T, ...]:
        whole: tuple[T, ...] = _whole(self)
        return whole

    def __len__(self) -> int:
        return self.length

    def __iter__(self) -> Iterator[T]:
        return iter(self.items)

    @overload
    def __getitem__(self, index: int) -> T: ...
    @overload
    def __getitem__(self, index: slice) -> tuple[T, ...]: ...
    def __getitem__(self, index: int | slice) -> T | tuple[T, ...]:
        return self.items[index]


@lru_cache(maxsize=16)
def _whole(moment: Moment[Any]) -> tuple[Any, ...]:
    return _replay(moment.base, moment.changes, moment.num_changes)


def _replay(base: tuple[T, ...], changes: Changes[T], count: int) -> tuple[T, ...]:
    items = list(base)
    for index, item in islice(zip(*changes, strict=True), count):
        if index == len(items):
            items.append(item)
        else:
            items[index] = item
    return tuple(items)

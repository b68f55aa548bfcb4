"""The order in which slots are handed out and taken back, as SGLang 0.5.23's two allocators do it."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.errors import UserError
from engine.slots import SlotPool


def test_page_1_is_first_in_first_out() -> None:
    pool = SlotPool(6, 1)
    assert pool.alloc(4).tolist() == [1, 2, 3, 4]  # type: ignore[union-attr]
    pool.free_segment([3, 1], 0)
    assert pool.free_pages().tolist() == [5, 6, 3, 1]


def test_larger_pages_are_last_in_first_out_and_whole() -> None:
    pool = SlotPool(16, 4)
    assert pool.alloc(8).tolist() == [4, 5, 6, 7, 8, 9, 10, 11]  # type: ignore[union-attr]
    pool.free_segment([8, 9, 10, 11], 4)
    assert pool.free_pages().tolist() == [2, 3, 4]
    pool.free_segment([4, 5, 6, 7], 0)
    assert pool.free_pages().tolist() == [1, 2, 3, 4]


def test_a_segment_that_ends_inside_a_page_frees_it_whole() -> None:
    pool = SlotPool(16, 4)
    slots = pool.alloc(8)
    assert slots is not None
    pool.free_segment(slots[:5], 4)
    assert pool.free_pages().tolist() == [1, 2, 3, 4]
    with pytest.raises(UserError, match="position 3 does not start a page of 4"):
        pool.free_segment([4], 3)


def test_too_much_takes_nothing() -> None:
    pool = SlotPool(8, 4)
    assert pool.alloc(12) is None
    assert pool.available == 8


def test_extension_fills_the_part_page_first() -> None:
    pool = SlotPool(32, 4)
    first = pool.alloc_extend([(0, 6), (0, 3)], [-1, -1])
    assert first is not None
    assert [slots.tolist() for slots in first] == [[4, 5, 6, 7, 8, 9], [12, 13, 14]]
    more = pool.alloc_extend([(6, 13), (3, 4)], [9, 14])
    assert more is not None
    assert [slots.tolist() for slots in more] == [[10, 11, 16, 17, 18, 19, 20], [15]]
    assert pool.free_pages().tolist() == [6, 7, 8]
    assert pool.alloc_extend([(13, 40)], [20]) is None
    assert pool.free_pages().tolist() == [6, 7, 8]


def test_decode_takes_a_page_only_at_its_start() -> None:
    pool = SlotPool(16, 4)
    assert pool.alloc_extend([(0, 4), (0, 2)], [-1, -1]) is not None
    slots = pool.alloc_decode([5, 3], [7, 9])
    assert slots is not None
    assert slots.tolist() == [12, 10]
    assert pool.alloc_decode([9, 9], [15, 11]) is None
    assert pool.alloc_decode([], []).tolist() == []  # type: ignore[union-attr]


@pytest.mark.parametrize("page", [1, 4])
def test_wrong_pages_are_refused_whole_and_by_name(page: int) -> None:
    pool = SlotPool(8 * page, page)
    assert pool.take(4) is not None
    before = pool.free_pages().tolist()
    for pages, sentence in (
        ([1, 5], "Page 5 is already free"), ([1, 2, 1], "Page 1 is already free"), ([3, 9], "Page 9 is not one of"),
        ([-1], "Page -1 is not one of this pool's pages 1–8"), ([0], "Page 0 is not one of"),
        ([1, 2, 3, 4] * 3, "Page 1 is already free"),
    ):  # fmt: skip
        with pytest.raises(UserError, match=sentence):
            pool.free(pages)
        assert pool.free_pages().tolist() == before


@given(
    st.sampled_from([1, 4]),
    st.lists(st.tuples(st.booleans(), st.integers(0, 5), st.integers(0, 2**30)), max_size=60),
)
def test_against_a_plain_list(page: int, operations: list[tuple[bool, int, int]]) -> None:
    """The ring hands out what a list would, whatever wraps around; page 0 never."""
    pool, free, out = SlotPool(7 * page, page), list(range(1, 8)), []  # type: ignore[var-annotated]
    for take, count, seed in operations:
        if take:
            taken = pool.take(count)
            assert (taken is None) == (count > len(free))
            if taken is not None:
                assert taken.tolist() == free[:count]
                free, out = free[count:], [*out, *taken.tolist()]
        else:
            back = [int(page) for page in np.random.default_rng(seed).permutation(out)[:count]]
            pool.free(back)
            out = [each for each in out if each not in back]
            free = [*free, *back] if page == 1 else [*back, *free]
        assert pool.free_pages().tolist() == free
        assert pool.available == len(free) * page

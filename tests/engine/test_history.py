"""A history's moments stay what they were, however much changes later and whether or not they were read before."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from engine import history
from engine.history import History

EDITS = st.lists(st.lists(st.tuples(st.integers(0, 6), st.integers()), max_size=40), max_size=30)


@given(start=st.lists(st.integers(), max_size=4), edits=EDITS)
def test_every_moment_is_what_the_list_was(start: list[int], edits: list[list[tuple[int, int]]]) -> None:
    record, plain = History(start), list(start)
    moments = [(record.now(), tuple(plain))]
    for edit in edits:
        places = []
        for place, item in edit:
            place = min(place, len(plain))
            plain[place : place + 1] = [item]
            places.append(place)
        record.put(places, [item for _, item in edit])
        moments.append((record.now(), tuple(plain)))
    for _ in range(2):
        for moment, items in moments:
            assert (moment.items, len(moment), tuple(moment)) == (items, len(items), items)
        history._whole.cache_clear()


def test_changes_that_cost_no_more_than_they_are() -> None:
    """A thousand items, one change a moment: ten thousand moments hold ten full copies, not ten thousand."""
    record = History(range(1000))
    moments = []
    for number in range(10_000):
        record.put([number % 1000], [-number])
        moments.append(record.now())
    assert len({id(moment.base) for moment in moments}) <= 10
    assert moments[0][0] == 0 and moments[5][:7] == (0, -1, -2, -3, -4, -5, 6)

"""Merging the lists of a user and a visitor."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from cluster.records.recent import RecentEvent
from cluster.store.recents import merge_recent

EVENTS = st.lists(st.integers(0, 50), unique=True).map(
    lambda times: [
        RecentEvent("purchase", (f"p,{n}", '"]'), n, 2.5).pack() for n in sorted(times, reverse=True)
    ]
)


@given(EVENTS, EVENTS)
def test_merged_lists_hold_everything_once_newest_first(user: list[bytes], visitor: list[bytes]) -> None:
    merged = merge_recent([user, visitor])
    assert len(merged) == len(set(merged))
    assert set(merged) == set(user) | set(visitor)
    times = [RecentEvent.unpack(packed).at_ms for packed in merged]
    assert times == sorted(times, reverse=True)


def test_one_list_is_returned_as_it_is() -> None:
    events = [RecentEvent("purchase", ("a",), n).pack() for n in (1, 3, 2)]
    assert merge_recent([events]) is events
    assert merge_recent([events, events[1:]]) is events


def test_damaged_events_are_no_reason_to_fail() -> None:
    good = RecentEvent("purchase", ("a",), 5).pack()
    assert set(merge_recent([[b"\xff"], [good, b"[,x,]"]])) == {b"\xff", good, b"[,x,]"}

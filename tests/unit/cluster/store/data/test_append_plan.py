"""Merging the lists of a user and a visitor, and which lists a push renews."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from cluster.records.interaction import RecentEvent
from cluster.store import keys
from cluster.store.data.append_plan import RENEWED_S, AppendPlan, RenewedLists, merge_recent
from tests.suites.manual_clock import ManualClock

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


def test_a_list_is_renewed_once_an_hour_however_much_is_pushed() -> None:
    clock = ManualClock()
    renewals = RenewedLists(clock)

    def push(*users: str) -> list[str]:
        plan = AppendPlan("shop", b"", [(user, "", b"x") for user in users], {}, renewals.lately())
        renewals.record(plan)
        return plan.renews

    assert push("a", "b", "a") == [keys.recent("shop", "u:a"), keys.recent("shop", "u:b")]
    clock.advance(int(RENEWED_S * 1000) - 1)
    assert push("a", "c") == [keys.recent("shop", "u:c")]
    clock.advance(1)
    assert push("a", "c") == [keys.recent("shop", "u:a"), keys.recent("shop", "u:c")]


def test_what_was_planned_and_not_carried_out_is_renewed_the_next_time() -> None:
    renewals = RenewedLists(ManualClock())
    for _ in range(2):
        plan = AppendPlan("shop", b"", [("a", "", b"x")], {}, renewals.lately())
        assert plan.renews == [keys.recent("shop", "u:a")]

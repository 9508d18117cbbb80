"""The list of users: those with a record and those with interactions, page by page."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cluster.records.interaction import RecentEvent
from deployments.operations.content.interest_summary import summarize_interests
from deployments.operations.content.users import merge_user_ids

IDS = st.lists(st.text("abc", min_size=1, max_size=3), unique=True).map(sorted)


@given(
    stored=IDS, active=IDS, part=st.sampled_from(["", "b", "cc"]), limit=st.integers(1, 4), size=st.integers(1, 4)
)  # fmt: skip
def test_all_pages_together_have_every_id_once(
    stored: list[str], active: list[str], part: str, limit: int, size: int
) -> None:
    """Also when no id of a page of the store has the part that is searched for."""
    seen: list[str] = []
    after = ""
    for _ in range(100):
        rest = [user_id for user_id in stored if user_id > after]
        fetched = [user_id for user_id in rest[:size] if part in user_id]
        fitting = (user_id for user_id in active if user_id > after and part in user_id)
        until = rest[size - 1] if len(rest) >= size else None
        shown, cursor = merge_user_ids(fetched, until, fitting, limit)
        assert len(shown) <= limit
        seen += shown
        if not cursor:
            break
        after = cursor
    assert seen == sorted(user_id for user_id in {*stored, *active} if part in user_id)


@pytest.mark.parametrize(("is_cut", "words"), [(False, "bought 2 "), (True, "bought at least 2 ")])
def test_counts_of_the_newest_interactions_are_lower_bounds(is_cut: bool, words: str) -> None:
    events = [RecentEvent("checkout", ("p",), at_ms) for at_ms in (1, 2)]
    assert words in summarize_interests(events, {}, is_cut=is_cut).sentences[0]

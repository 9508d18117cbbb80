"""Which replicas differ, by the digests that they publish with their offsets."""

from __future__ import annotations

from cluster.store.data.change_log import FOLLOWING_MS, Follower, find_differing

NOW = 1_000_000


def follower(name: str, offset: str = "5-0", at_ms: int = NOW, **digest: str) -> Follower:
    return Follower(name, at_ms, {"product": offset}, digest)


def test_equal_states_and_states_at_other_offsets_do_not_differ() -> None:
    followers = [
        follower("a", records="1", lists="x", version="v"),
        follower("b", records="1", lists="x", version="v"),
        follower("c", "6-0", records="2", lists="y", version="v"),
        follower("backup"),
    ]
    assert find_differing(followers, NOW) == []


def test_other_records_at_the_same_offset_differ() -> None:
    followers = [follower("a", records="1"), follower("b", records="2"), follower("c", "6-0", records="3")]
    assert find_differing(followers, NOW) == ["a", "b"]


def test_lists_are_compared_under_one_snapshot_and_only_where_both_exist() -> None:
    same = [follower(name, records="1", lists=name, version=name) for name in ("a", "b")]
    assert find_differing(same, NOW) == []
    assert find_differing([*same, follower("c", records="1", lists="", version="a")], NOW) == []
    assert find_differing([*same, follower("c", records="1", lists="c", version="a")], NOW) == ["a", "c"]


def test_a_follower_that_ended_does_not_count() -> None:
    gone = follower("a", at_ms=NOW - FOLLOWING_MS, records="1")
    assert find_differing([gone, follower("b", records="2")], NOW) == []

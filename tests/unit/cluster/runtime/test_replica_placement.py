"""Nodes of replicas."""

from __future__ import annotations

from itertools import pairwise

import pytest

from cluster.runtime.replica_placement import PAUSE_MAX_S, SETTLED_S, ReplicaMover, choose_node

NODES = ("a", "b", "c")
CROWDED = {"r1": "a", "r2": "b", "r3": "b"}


@pytest.mark.parametrize(
    ("replicas", "free", "expected"),
    [
        ({"a": 1, "b": 2}, {"a": 1.0, "b": 1.0, "c": 1.0}, "c"),
        ({"a": 1, "b": 2}, {"a": 1.0, "b": 9.0}, "a"),
        ({"a": 1, "b": 1, "c": 1}, {"a": 1.0, "b": 4.0, "c": 2.0}, "b"),
        ({"a": 0}, {"b": 0.0}, "b"),
        ({}, {}, None),
    ],
)
def test_a_replica_starts_on_the_emptiest_node_with_room(
    replicas: dict[str, int], free: dict[str, float], expected: str | None
) -> None:
    assert choose_node(replicas, free) == expected


def choose(mover: ReplicaMover, replicas: dict[str, str], now_s: float, room: str = "abc") -> str | None:
    return mover.choose_replica(replicas, NODES, now_s, lambda: room)


def test_the_newest_replica_of_a_crowded_node_moves_once_the_replicas_are_settled() -> None:
    mover = ReplicaMover()
    assert choose(mover, CROWDED, 0.0) is None
    assert choose(mover, CROWDED, SETTLED_S - 1) is None
    assert choose(mover, CROWDED, SETTLED_S) == "r3"


@pytest.mark.parametrize(
    ("replicas", "room"),
    [
        ({"r1": "a", "r2": "b", "r3": "c"}, "abc"),
        ({"r1": "a", "r2": "b", "r3": "b", "r4": "c"}, "abc"),
        ({"r1": "a"}, "abc"),
        ({}, "abc"),
        (CROWDED, "ab"),
        (CROWDED, ""),
    ],
)
def test_nothing_moves_between_even_nodes_or_without_room(replicas: dict[str, str], room: str) -> None:
    mover = ReplicaMover()
    assert [choose(mover, replicas, now_s, room) for now_s in (0.0, 100.0, 1e6)] == [None] * 3


def test_one_node_never_moves_a_replica() -> None:
    mover = ReplicaMover()
    replicas = {"r1": "a", "r2": "a"}
    assert [mover.choose_replica(replicas, ["a"], now_s, lambda: "a") for now_s in (0.0, 1e6)] == [None] * 2


def test_a_replica_of_a_node_that_is_gone_does_not_count() -> None:
    mover = ReplicaMover()
    replicas = {"r1": "a", "r2": "gone", "r3": "gone"}
    assert [mover.choose_replica(replicas, ["a", "b"], now_s, lambda: "b") for now_s in (0.0, 1e6)] == [
        None
    ] * 2


def test_a_change_of_the_replicas_starts_the_wait_again() -> None:
    mover = ReplicaMover()
    choose(mover, CROWDED, 0.0)
    changed = {"r1": "a", "r4": "b", "r5": "b"}
    assert choose(mover, changed, SETTLED_S) is None
    assert choose(mover, changed, 2 * SETTLED_S) == "r5"


def test_moves_that_do_not_help_become_rare() -> None:
    mover, now_s, at_s = ReplicaMover(), 0.0, []
    while now_s < 5 * PAUSE_MAX_S:
        if choose(mover, CROWDED, now_s):
            at_s.append(now_s)
        now_s += 1.0
    pauses = [after - before for before, after in pairwise(at_s)]
    assert pauses[:3] == [2 * SETTLED_S, 4 * SETTLED_S, 8 * SETTLED_S]
    assert max(pauses) == PAUSE_MAX_S


def test_a_move_that_helped_makes_the_next_one_quick_again() -> None:
    mover = ReplicaMover()
    choose(mover, CROWDED, 0.0)
    assert choose(mover, CROWDED, SETTLED_S) == "r3"
    even = {"r1": "a", "r2": "b", "r4": "c"}
    assert [choose(mover, even, now_s) for now_s in (40.0, 40.0 + SETTLED_S)] == [None] * 2
    later = {"r1": "a", "r2": "b", "r5": "a"}
    assert choose(mover, later, 200.0) is None
    assert choose(mover, later, 200.0 + SETTLED_S) == "r5"

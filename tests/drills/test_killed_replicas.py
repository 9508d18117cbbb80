"""Replicas killed under load, where doors answer themselves and where engines have places of their own.

`KIOSK_DRILL_S` says how long replicas are killed, a minute by default; the target was written for five.
`KIOSK_DRILL_LOAD` is the load meanwhile as a share of what both can bear: half of it, all that the one left can, unless
said otherwise.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator

import psutil
import pytest

from cluster.records.engine import application_name
from tests.benchmarks.stack import Stack
from tests.drills.bounds import Bounds
from tests.drills.engines import APP, asking, engine, in_turn, installed, replicas, say, seed, writing
from tests.drills.storm import Fates, calm, storm

pytestmark = [pytest.mark.ray, pytest.mark.redis, pytest.mark.timeout(900)]
DEDICATED = application_name(APP)
SECONDS = float(os.environ.get("KIOSK_DRILL_S", "60"))
EVERY_S = 20.0
LOAD = float(os.environ.get("KIOSK_DRILL_LOAD", "0.5"))


@pytest.fixture(scope="module")
def two() -> Iterator[Stack]:
    """Two API replicas, and two of the engine when it moves out."""
    with installed(KIOSK_REPLICAS_MIN="2", KIOSK_REPLICAS_MAX="2") as running:
        seed(running)
        _until(lambda: len(replicas(running)) == 2, 30)
        say(running, "engines", "scale", APP, "default", "--replicas", "2:2")
        yield running


@pytest.fixture(scope="module")
def stack() -> Iterator[Stack]:
    """One of each."""
    with installed(KIOSK_REPLICAS_MIN="1", KIOSK_REPLICAS_MAX="1") as running:
        seed(running)
        say(running, "engines", "scale", APP, "default", "--replicas", "1")
        yield running


def test_killing_one_of_two_doors(two: Stack, bounds: Bounds) -> None:
    mixed = in_turn(asking(two), asking(two, kind="user_to_trending"), asking(two), writing(two))
    _kill_one_of_two(two, bounds, "R1 in the API replicas", "api:", mixed)


def test_killing_one_of_two_replicas_of_an_engine(two: Stack, bounds: Bounds) -> None:
    say(two, "engines", "place", APP, "default", "own")
    try:
        _until(lambda: engine(two)["replicas"] == 2, 30)
        _kill_one_of_two(two, bounds, "R1 in its own place", DEDICATED, asking(two))
    finally:
        say(two, "engines", "place", APP, "default", "door")


def _kill_one_of_two(stack: Stack, bounds: Bounds, name: str, what: str, requests: list[bytes]) -> None:
    """The text's bound is three times the p99; a p99 under five milliseconds counts as five."""
    rate = LOAD * _capacity(stack, requests)
    before = calm(requests, port=stack.port, rate=rate, seconds=10)
    back: list[float] = []
    with storm(requests, port=stack.port, rate=rate, seconds=SECONDS + 2, again=True) as running:
        begin = time.monotonic()
        time.sleep(1)
        for turn in range(int(SECONDS / EVERY_S)):
            back.append(_kill(stack, what, 2))
            time.sleep(max(0.0, begin + 1 + (turn + 1) * EVERY_S - time.monotonic()))
        fates = running.fates()
    share = fates.errors / len(fates)
    print(
        f"\n{name}: {len(back)} kills at {rate:.0f}/s: errors {fates.errors} of {len(fates)} = {share:.4%}, after one "
        f"retry {fates.lost}; p99 {fates.p(0.99):.1f} ms, before {before.p(0.99):.1f} ms; both replicas back after "
        f"{max(back):.1f} s; {fates.statuses()}; longest gap {fates.longest_gap_s():.2f} s; "
        f"{bounds.at_most(f'{name}, p99 against before', fates.p(0.99) / before.p(0.99), 3)}"
    )
    assert share <= 0.001
    assert fates.lost == 0
    assert fates.p(0.99) <= 3 * max(before.p(0.99), 5.0)
    assert max(back) <= 15


def test_killing_the_only_door(stack: Stack) -> None:
    _kill_the_only(stack, "R2 in the API replicas", "api:", asking(stack))


def test_killing_the_only_replica_of_an_engine(stack: Stack) -> None:
    say(stack, "engines", "place", APP, "default", "own")
    try:
        _kill_the_only(stack, "R2 in its own place", DEDICATED, asking(stack))
    finally:
        say(stack, "engines", "place", APP, "default", "door")


def _kill_the_only(stack: Stack, name: str, what: str, requests: list[bytes]) -> None:
    with storm(requests, port=stack.port, rate=40, seconds=22) as running:
        time.sleep(2)
        killed = time.monotonic()
        _kill(stack, what, 1)
        fates = running.fates()
    after = fates.between(killed - 0.5, killed + 30)
    back = _answers_again(after, killed)
    print(
        f"\n{name}: answers again after {back:.1f} s; {fates.statuses()}, slowest {after.took_ms.max() / 1000:.1f} s"
    )
    assert back <= 15
    assert after.took_ms.max() <= 15_000
    untold = ~after.good & ~after.refused & (after.first != 0)
    assert not untold.any(), after.first[untold]
    # what was inside the replica when it died has no answer at all, the rest is told when to come back
    assert int((after.first == 0).sum()) <= 3


def _answers_again(fates: Fates, killed: float) -> float:
    """Find when the last request that was not answered well ended."""
    ends = fates.due + fates.took_ms / 1000
    bad = ends[~fates.good | (fates.took_ms > 1000)]
    return float(bad.max() - killed) if len(bad) else 0.0


def _capacity(stack: Stack, requests: list[bytes]) -> float:
    calm(requests, port=stack.port, seconds=2, connections=16)
    return calm(requests, port=stack.port, seconds=5, connections=16).per_second()


def _kill(stack: Stack, what: str, count: int) -> float:
    """Kill one replica and wait until as many as before have come up; return the seconds that took."""
    before = replicas(stack, what)
    assert len(before) == count, before
    pids = {process.pid for process in before}
    begin = time.monotonic()
    before[0].kill()
    _until(
        lambda: any(
            _takes_requests(replica, stack, what)
            for replica in replicas(stack, what)
            if replica.pid not in pids
        ),
        30,
    )
    return time.monotonic() - begin


def _takes_requests(replica: psutil.Process, stack: Stack, what: str) -> bool:
    """A door is on HAProxy's list; an engine's replica is counted by whoever keeps engines."""
    if not what.startswith("api"):
        seen = engine(stack)
        return bool(seen["replicas"] == seen["target_replicas"])
    try:
        lines = replica.net_connections("tcp")
    except psutil.Error:
        return False
    ports = {line.laddr.port for line in lines if line.status == psutil.CONN_LISTEN}
    return bool(ports & set(_ports_in_use(stack)))


def _ports_in_use(stack: Stack) -> list[int]:
    from tests.cluster.under_load.test_fast_layer import replica_ports

    return replica_ports(stack)


def _until(true: Callable[[], bool], seconds: float) -> None:
    until = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < until, "did not happen in time"
        time.sleep(0.1)

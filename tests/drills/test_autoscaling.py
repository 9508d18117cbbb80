"""An engine in its own place grows under a step of load and shrinks again; nobody beside it notices.

Also R4 (the Serve controller killed) and a promotion under load. Delays are short, so that it takes minutes.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace

import pytest

from cluster.process.store_connections import connect
from cluster.records.engine import Engine
from cluster.settings import Settings
from tests.benchmarks.stack import Stack
from tests.drills.bounds import Bounds
from tests.drills.engines import APP, SCALING, asking, engine, installed, say, seed
from tests.drills.journal import processes
from tests.drills.storm import calm, storm

pytestmark = [pytest.mark.ray, pytest.mark.redis, pytest.mark.timeout(900)]


@pytest.fixture(scope="module")
def stack() -> Iterator[Stack]:
    """One API replica, the default engine in its own place, a neighbour in the API replicas."""
    with installed(KIOSK_REPLICAS_MAX="1") as running:
        seed(running)
        say(running, "engines", "scale", APP, "default", "--replicas", "1:2", *SCALING, "--target", "0.2")
        say(running, "engines", "place", APP, "default", "own")
        say(running, "engines", "create", APP, "neighbour")
        calm(asking(running, "neighbour"), port=running.port, rate=20, seconds=2)
        yield running


def test_a_step_of_load_is_followed_up_and_down_once_and_neighbours_do_not_notice(stack: Stack) -> None:
    mine, theirs = asking(stack), asking(stack, "neighbour")
    with _counting(stack) as counts:
        with (
            storm(mine, port=stack.port, rate=10, seconds=12),
            storm(theirs, port=stack.port, rate=40, seconds=12) as beside,
        ):
            before = beside.fates()
        with (
            storm(mine, port=stack.port, rate=_busy(stack), seconds=45, connections=64) as step,
            storm(theirs, port=stack.port, rate=40, seconds=45) as beside,
        ):
            during, load = beside.fates(), step.fates()
        with storm(mine, port=stack.port, rate=10, seconds=40) as rest:
            quiet = rest.fates()
    changes = [count for at, count in enumerate(counts) if at == 0 or counts[at - 1] != count]
    print(
        f"\nreplicas over time {changes}; neighbour p99 {before.p(0.99):.1f} ms before, {during.p(0.99):.1f} ms "
        f"during; statuses {load.statuses()} {during.statuses()} {quiet.statuses()}"
    )
    assert changes == [1, 2, 1]
    assert {200} == load.statuses().keys() == during.statuses().keys() == quiet.statuses().keys()
    assert during.p(0.99) <= 1.5 * max(before.p(0.99), 5.0)


def test_killing_the_controller_costs_nothing_and_scaling_goes_on(stack: Stack, bounds: Bounds) -> None:
    """The text's bound is thirty seconds; to them come the delays of scaling: load must last, and is averaged."""
    _until(lambda: engine(stack)["target_replicas"] == 1, 60)
    mine = asking(stack)
    with storm(mine, port=stack.port, rate=_busy(stack), seconds=40, connections=64) as running:
        (controller,) = processes(stack, "ServeController")
        controller.kill()
        killed = time.monotonic()
        _until(lambda: engine(stack)["replicas"] == 2, 60)
        resumed = time.monotonic() - killed
        fates = running.fates()
    print(
        f"\nR4: controller killed: {fates.statuses()} of {len(fates)}, p99 {fates.p(0.99):.1f} ms, second replica "
        f"after {resumed:.1f} s; {bounds.at_most('R4, seconds until scaling goes on', resumed, 30)}"
    )
    assert fates.errors == 0
    assert resumed <= 30 + 3 + 4


def test_another_snapshot_is_taken_up_under_load_without_an_error(stack: Stack) -> None:
    """No version that the record names next costs a request, not even one that is not stored."""
    with (
        storm(asking(stack), port=stack.port, rate=50, seconds=14) as dedicated,
        storm(asking(stack, "neighbour"), port=stack.port, rate=50, seconds=14) as embedded,
    ):
        for version in ("20260101T000000-nowhere", "", "20260102T000000-nowhere", ""):
            time.sleep(2.5)
            asyncio.run(_serve(stack, version))
        fates = [dedicated.fates(), embedded.fates()]
    print(
        f"\npromotion: own {fates[0].statuses()}, doors {fates[1].statuses()}, p99 {fates[0].p(0.99):.1f} ms"
    )
    assert [fate.statuses().keys() for fate in fates] == [{200}, {200}]


def test_a_trained_snapshot_is_promoted_and_rolled_back_under_load(stack: Stack) -> None:
    """The playground's default engine, in the API replicas and then in its own place, over one training."""
    say(stack, "apps", "limit", "playground", "--queries", "1000000")
    keys = say(stack, "keys", "list", "--app", "playground", "--reveal")["keys"]
    secret = next(key["key"] for key in keys if key["kind"] == "secret")
    requests = asking(replace(stack, secret_key=secret))
    _train(stack)
    for place in ("door", "own"):
        say(stack, "engines", "place", "playground", "default", place)
        calm(requests, port=stack.port, rate=50, seconds=3)
        with storm(requests, port=stack.port, rate=50, seconds=24) as running:
            time.sleep(1)
            promoted = say(stack, "promote", "playground", "--force", "a drill")["version"]
            time.sleep(4)
            say(stack, "rollback", "playground", "--to", "none")
            time.sleep(4)
            say(stack, "promote", "playground", "--force", "a drill")
            fates = running.fates()
        print(
            f"\n{promoted} promoted, rolled back, promoted ({place}): {fates.statuses()}, p99 {fates.p(0.99):.1f} ms"
        )
        assert fates.statuses().keys() == {200}
        say(stack, "rollback", "playground", "--to", "none")


def _train(stack: Stack) -> None:
    """Train on the sample; what was just accepted settles first."""
    assert say(stack, "train", "playground", "--recipe", "fast")["status"] == "finished"


async def _serve(stack: Stack, version: str) -> None:
    def promoted(engine: Engine) -> Engine:
        return engine.model_copy(update={"snapshot": version})

    async with connect(Settings(data_dir=stack.data_dir)) as stores:
        for engine_id in ("default", "neighbour"):
            await stores.engines.change(APP, engine_id, promoted)


def _busy(stack: Stack) -> float:
    """Choose a rate that one replica can just carry: more than it should, less than the machine has."""
    full = calm(asking(stack), port=stack.port, seconds=4, connections=8).per_second()
    return 0.35 * full


@contextmanager
def _counting(stack: Stack) -> Iterator[list[int]]:
    """Note how many replicas are wanted, twice a second."""
    counts: list[int] = []
    over = threading.Event()

    async def look() -> None:
        async with connect(Settings(data_dir=stack.data_dir)) as stores:
            while not over.is_set():
                counts.append((await stores.engine_activity.list_statuses(APP))["default"].target)
                await asyncio.sleep(0.5)

    thread = threading.Thread(target=lambda: asyncio.run(look()), daemon=True)
    thread.start()
    try:
        yield counts
    finally:
        over.set()
        thread.join(30)


def _until(true: Callable[[], bool], seconds: float) -> None:
    until = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < until, "did not happen in time"
        time.sleep(0.2)

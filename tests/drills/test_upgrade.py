"""Drill R22: this release and the next one under load on one Redis and one artifact folder, forwards and back."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator

import pytest

from tests.drills.next_release import copy_next_release
from tests.drills.releases import Fleet, check_whole, fill
from tests.suites.redis_process import RedisProcess

pytestmark = [pytest.mark.redis, pytest.mark.timeout(900), pytest.mark.usefixtures("allow_world")]
PHASE_S = 10.0


@pytest.fixture
def fleet(private_server: RedisProcess, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fleet]:
    folder = tmp_path_factory.mktemp("u")
    fleet = Fleet(private_server.url, folder, copy_next_release(folder / "next"))
    asyncio.run(fill(private_server.url))
    yield fleet
    fleet.close()


def test_two_releases_run_together_forwards_and_back(
    fleet: Fleet, record_property: Callable[[str, object], None]
) -> None:
    fleet.start("old-1", is_next=False)
    fleet.start("old-2", is_next=False)
    time.sleep(PHASE_S)
    for before, after, is_next in (
        ("old-1", "next-1", True), ("old-2", "next-2", True), ("next-1", "old-3", False), ("next-2", "old-4", False),
    ):  # fmt: skip
        fleet.start(after, is_next=is_next)
        time.sleep(PHASE_S)
        fleet.stop(before)
        time.sleep(PHASE_S)
    fleet.stop("old-3")
    fleet.stop("old-4")
    figures = asyncio.run(check_whole(fleet))
    for name, figure in figures.items():
        record_property(name, figure)
    print(figures)
    assert figures["other_requests"] > 50

"""The short form of the upgrade drill: the next release and this one together, then this one alone."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator

import pytest

from tests.drills.next_release import copy_next_release
from tests.drills.releases import Fleet, check_whole, fill
from tests.suites.redis_process import RedisProcess

pytestmark = [pytest.mark.redis, pytest.mark.slow, pytest.mark.usefixtures("allow_world")]


@pytest.fixture
def fleet(private_server: RedisProcess, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fleet]:
    folder = tmp_path_factory.mktemp("u")
    fleet = Fleet(private_server.url, folder, copy_next_release(folder / "next"))
    asyncio.run(fill(private_server.url))
    yield fleet
    fleet.close()


def test_two_releases_share_redis_artifacts_and_messages(fleet: Fleet) -> None:
    fleet.start("next-1", is_next=True)
    fleet.start("old-1", is_next=False)
    time.sleep(2)
    fleet.stop("next-1")
    time.sleep(2)  # the intake of this release takes over and writes the next manifest
    fleet.stop("old-1")
    figures = asyncio.run(check_whole(fleet))
    assert min(figures.values()) > 0

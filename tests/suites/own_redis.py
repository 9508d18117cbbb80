"""Shorthand for tests with a Redis server of their own."""

from __future__ import annotations

import asyncio
import os
import time

from cluster.errors import Unavailable
from cluster.store.connect import OpenStores
from tests.suites.doing import APP

EASY = {"hot_s": 5.0, "slow_s": 10.0}
"Deadlines that a busy test machine keeps, for tests that are not about deadlines."


async def until_it_works(stores: OpenStores, within_s: float = 5.0) -> float:
    """Ask until an answer comes; return how long that took."""
    begin = time.monotonic()
    while True:
        try:
            await stores.records.get(APP, "product", "p1")
            return time.monotonic() - begin
        except Unavailable:
            assert time.monotonic() - begin < within_s, "the stores did not come back"
            await asyncio.sleep(0.01)


def open_files() -> int:
    """Count this process's open files and sockets."""
    return len(os.listdir("/proc/self/fd"))

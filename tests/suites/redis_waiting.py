"""Deadlines and waiting for tests that start a private Redis server."""

from __future__ import annotations

import os
from typing import TypedDict

from cluster.errors import Unavailable
from cluster.store.connect import OpenStores
from tests.suites.doing import APP
from tests.suites.waiting import until


class Deadlines(TypedDict):
    """Of short commands and of long ones, in seconds."""

    hot_s: float
    slow_s: float


EASY: Deadlines = {"hot_s": 5.0, "slow_s": 10.0}
"Deadlines that a busy test machine keeps, for tests that are not about deadlines."


async def until_it_works(stores: OpenStores) -> float:
    """Ask until an answer comes; return how long that took."""

    async def works() -> bool:
        try:
            await stores.records.get(APP, "product", "p1")
        except Unavailable:
            return False
        return True

    return await until(works)


def open_files() -> int:
    """Count this process's open files and sockets."""
    return len(os.listdir("/proc/self/fd"))

"""Processor time of a command: the multiplexed connection against redis-py, in one run.

    python -m tests.benchmarks.redis_clients

Both read the recent list of a user, 32 at once and one after the other. Counted is the processor time of this process,
which other work of the machine hardly changes; Redis' own is not in it.
"""

from __future__ import annotations

import asyncio
import statistics
import time

from cluster.store import keys
from cluster.store.connect import OpenStores, open_stores
from tests.suites.redis_process import RedisProcess

ROUNDS = 7
COMMANDS = 4_000
APP, USER = "shop", "u:ada"


async def measure(stores: OpenStores, at_once: int) -> float:
    """Return microseconds of processor time of one command, the median of rounds."""
    name = keys.recent(APP, USER)
    times_us = []
    for _ in range(ROUNDS):
        begin = time.process_time()
        for _ in range(COMMANDS // at_once):
            await asyncio.gather(*(stores.server.execute("LRANGE", name, 0, 49) for _ in range(at_once)))
        times_us.append((time.process_time() - begin) / COMMANDS * 1e6)
    return statistics.median(times_us)


async def run(url: str) -> None:
    """Print one line for each client."""
    for title, is_serving in (("multiplexed", True), ("redis-py", False)):
        async with open_stores(url, hot_s=5.0, slow_s=5.0, is_serving=is_serving) as stores:
            await stores.server.execute_slow("RPUSH", keys.recent(APP, USER), *[b"x" * 60] * 50)
            many, alone = await measure(stores, 32), await measure(stores, 1)
            print(f"{title:12} {many:6.1f} us with 32 in flight, {alone:6.1f} us with one")


def main() -> None:
    """Measure over a server of our own."""
    server = RedisProcess()
    try:
        server.start()
        asyncio.run(run(server.url))
    finally:
        server.stop()


if __name__ == "__main__":
    main()

"""A process that polls feeds until it is killed: `python -m tests.drills.feed_process REDIS_URL PORT OWNER`."""

from __future__ import annotations

import asyncio
import random
import socket
import sys

from cluster.clock import SystemClock
from cluster.external_fetcher import ExternalFetcher
from cluster.store.connect import open_stores
from jobs.feeds.polite_fetcher import RULES, PoliteFetcher
from jobs.feeds.poller import FeedPoller
from tests.fakes.document_host import PUBLIC


async def poll(url: str, port: int, owner: str) -> None:
    """Poll without the pauses between two requests to a host."""

    def look_up(host: str, _: int) -> list[str]:
        if host.startswith("dead"):
            raise socket.gaierror("unknown")
        return ["10.0.0.7"] if host.startswith("internal") else [PUBLIC]

    def connect(_: tuple[str, int], timeout: float) -> socket.socket:
        return socket.create_connection(("127.0.0.1", port), timeout)

    async with open_stores(url, is_serving=False) as stores:
        clock, client = SystemClock(), ExternalFetcher(look_up=look_up, connect=connect, rules=RULES)
        fetcher = PoliteFetcher(client, clock, lambda _: asyncio.sleep(0))
        poller = FeedPoller(stores, fetcher, clock, random.Random(), owner=owner)
        while True:
            await poller.run_once()
            await asyncio.sleep(0.2)


if __name__ == "__main__":
    asyncio.run(poll(sys.argv[1], int(sys.argv[2]), sys.argv[3]))

"""Concurrent questions to Sentinels lose none of them."""

from __future__ import annotations

import asyncio
from functools import partial
from typing import Any

from redis.exceptions import ConnectionError

from cluster.store.client.discovery import ConcurrentSentinel


async def test_concurrent_questions_keep_every_sentinel() -> None:
    sentinel = ConcurrentSentinel([("one", 1), ("two", 2), ("three", 3)], {})
    clients = list(sentinel.sentinels)
    counts = [0] * 3
    master = {"shop": {"is_master": True, "is_sdown": False, "is_odown": False, "num-other-sentinels": 2,
                       "ip": "10.0.0.7", "port": 6379}}  # fmt: skip

    async def answer(number: int, **_options: Any) -> Any:
        counts[number] += 1
        if number < 2 and counts[number] % 2:
            for _ in range(number + 2):
                await asyncio.sleep(0)
            raise ConnectionError("away")
        await asyncio.sleep(0)
        return master

    for number, client in enumerate(clients):
        client.sentinel_masters = partial(answer, number)
    for _ in range(3):
        await asyncio.gather(*(sentinel.discover_master("shop") for _ in range(7)))
        assert set(sentinel.sentinels) == set(clients)
    assert len(sentinel.sentinels) == 3
    assert sentinel.sentinels[0] is not clients[0], "who answered is asked first"

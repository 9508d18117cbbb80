from __future__ import annotations

from typing import Any, cast

from cluster.records.served_list import ServedAnswer
from cluster.store.archive.log_stream import MOST_BATCHES, MOST_WRITERS, LogStream
from cluster.store.client.redis_client import RedisClient

ROWS = [ServedAnswer("s1", 1, "user_to_products", "default")]


class _Queue:
    """A server with one queue, which counts the reads of its length."""

    def __init__(self, length: int) -> None:
        self.length = length
        self.checks = 0

    async def execute_slow(self, *command: Any) -> Any:
        if command[0] == "XLEN":
            self.checks += 1
            return self.length
        self.length += 1
        return b"1-0"


async def append_until_full(queue: _Queue) -> int:
    """Add batches from as many replicas as are expected, in turn, until each is refused."""
    streams = [
        LogStream(cast(RedisClient, queue), lambda app_id: app_id, ServedAnswer) for _ in range(MOST_WRITERS)
    ]
    while any([await stream.append("shop", ROWS) for stream in streams]):
        pass
    return queue.length


async def test_a_hundred_replicas_fill_a_queue_to_its_limit() -> None:
    assert await append_until_full(_Queue(0)) == MOST_BATCHES
    assert await append_until_full(_Queue(MOST_BATCHES)) == MOST_BATCHES


async def test_an_empty_queue_is_measured_rarely_and_a_full_one_each_time() -> None:
    queue = _Queue(0)
    stream = LogStream(cast(RedisClient, queue), lambda app_id: app_id, ServedAnswer)
    for _ in range(MOST_BATCHES // MOST_WRITERS):
        assert await stream.append("shop", ROWS)
    assert queue.checks == 1
    queue.length = MOST_BATCHES
    assert not await stream.append("shop", ROWS)
    queue.length -= 1
    assert await stream.append("shop", ROWS)
    assert not await stream.append("shop", ROWS)

"""Writing keys into an empty Redis with plain commands, so that any server and any rights will do."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator
from typing import Any

from cluster.store.ports.key_parts import KeyPart
from cluster.store.redis.client import RedisClient

_BATCH = 400
"Commands on their way at once."
_MEMBERS = 1000
_WORDS = {"hash": "HSET", "set": "SADD", "list": "RPUSH"}


class KeyWriter:
    """Writes parts of keys over a client that keeps the order of commands, as the multiplexed one does."""

    def __init__(self, server: RedisClient, now_ms: int) -> None:
        self._server = server
        self._now_ms = now_ms

    async def write(self, parts: Iterable[KeyPart]) -> None:
        """Write parts in their order; what expired since the backup is left out."""
        await self.send(command for part in parts for command in self._commands(part))

    async def send(self, commands: Iterable[tuple[Any, ...]]) -> None:
        """Send commands, some hundred at a time."""
        waiting: list[Any] = []
        for command in commands:
            waiting.append(self._server.execute_slow(*command))
            if len(waiting) >= _BATCH:
                await asyncio.gather(*waiting)
                waiting = []
        await asyncio.gather(*waiting)

    async def finish_log(self, key: bytes, last_id: str) -> None:
        """Make a log, which may be empty, and set the newest offset that it ever gave."""
        if last_id != "0":
            # the only way to make an empty stream: a group that is removed again
            await self._server.execute_slow("XGROUP", "CREATE", key, "kiosk-restore", "$", "MKSTREAM")
            await self._server.execute_slow("XGROUP", "DESTROY", key, "kiosk-restore")
            await self._server.execute_slow("XSETID", key, last_id)

    def _commands(self, part: KeyPart) -> Iterator[tuple[Any, ...]]:
        if part.expires_ms and part.expires_ms <= self._now_ms:
            return
        key, items = part.key, part.items
        if part.kind == "string":
            yield ("SET", key, items[0])
        elif part.kind == "stream":
            for entry_id, fields in items:
                yield ("XADD", key, entry_id, *fields)
            if part.last_id and part.last_id != b"0":
                yield ("XSETID", key, part.last_id)
        elif part.kind == "zset":
            for first in range(0, len(items), 2 * _MEMBERS):
                some = items[first : first + 2 * _MEMBERS]
                pairs = zip(some[1::2], some[::2], strict=True)
                yield ("ZADD", key, *(word for pair in pairs for word in pair))
        else:
            for first in range(0, len(items), 2 * _MEMBERS):
                yield (_WORDS[part.kind], key, *items[first : first + 2 * _MEMBERS])
        if part.expires_ms:
            yield ("PEXPIREAT", key, part.expires_ms)

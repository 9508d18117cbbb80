"""Writing keys into an empty Redis with plain commands, so that any server and any rights will do."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator
from typing import Any

from cluster.ids import position_from_offset
from cluster.store.client.key_loader import KeyPart, StreamState
from cluster.store.client.redis_client import RedisClient

_BATCH = 400
"Commands on their way at once."
# Members in one command: a huge one would block the server for its time.
_MEMBERS = 1000
_WORDS = {"hash": "HSET", "set": "SADD", "list": "RPUSH"}


class KeyWriter:
    """Writes parts of keys over a client that keeps the order of commands, as the multiplexed one does."""

    def __init__(self, server: RedisClient, now_ms: int) -> None:
        self._server = server
        self._now_ms = now_ms
        self._open: KeyPart | None = None
        "The newest part of a stream of which more parts may follow."

    async def write(self, parts: Iterable[KeyPart]) -> None:
        """Write parts in their order; keys that expired since the backup are left out.

        The last stream may go on with the next call, so `finish` follows the last one.
        """
        commands: list[tuple[Any, ...]] = []
        for part in parts:
            # PEXPIREAT in the past deletes, but the key would be visible until then.
            if part.expires_ms and part.expires_ms <= self._now_ms:
                continue
            if self._open is not None and self._open.key != part.key:
                # Every entry first: `finish` sets the newest id, after which Redis takes no older entry.
                await self.send(commands)
                commands = []
                await self.finish()
            if part.kind == "stream":
                self._open = _join(self._open, part)
            commands += _commands(part)
        await self.send(commands)

    async def finish(self) -> None:
        """Set the state of the last stream: Redis takes no older entries after its newest id is set."""
        part = self._open
        self._open = None
        if part is None:
            return
        state = part.stream or StreamState(part.last_id)
        await self.finish_stream(part.key, state)
        if part.expires_ms:
            await self._server.execute_slow("PEXPIREAT", part.key, part.expires_ms)

    async def send(self, commands: Iterable[tuple[Any, ...]]) -> None:
        """Send commands, some hundred at a time."""
        waiting: list[Any] = []
        for command in commands:
            waiting.append(self._server.execute_slow(*command))
            if len(waiting) >= _BATCH:
                await asyncio.gather(*waiting)
                waiting = []
        await asyncio.gather(*waiting)

    async def finish_stream(self, key: bytes, state: StreamState) -> None:
        """Make a stream that may have no entries, and set its newest id, its counts and its consumer groups."""
        ask = self._server.execute_slow
        # the only way to make an empty stream: a group that is removed again
        await ask("XGROUP", "CREATE", key, "kiosk-restore", "$", "MKSTREAM")
        await ask("XGROUP", "DESTROY", key, "kiosk-restore")
        if position_from_offset(state.last_id.decode()) > (0, 0):
            counts: tuple[Any, ...] = ("ENTRIESADDED", state.added, "MAXDELETEDID", state.deleted)
            # Redis before 7 has neither these counts nor the words of XSETID for them.
            counted = state.added >= 0 and b"entries-added" in await ask("XINFO", "STREAM", key)
            await ask("XSETID", key, state.last_id, *(counts if counted else ()))
        for group, after in state.groups:
            await ask("XGROUP", "CREATE", key, group, after)


def _join(before: KeyPart | None, part: KeyPart) -> KeyPart:
    """Return a part without entries that has the state of a stream after both parts."""
    ids = [part.last_id, *(entry[0] for entry in part.items[-1:]), *([before.last_id] if before else [])]
    newest = max(ids, key=lambda last_id: position_from_offset(last_id.decode()))
    return KeyPart(part.key, part.kind, [], part.expires_ms, newest, part.stream)


def _commands(part: KeyPart) -> Iterator[tuple[Any, ...]]:
    key = part.key
    items = part.items
    if part.kind == "string":
        yield ("SET", key, items[0])
    elif part.kind == "stream":
        for entry_id, fields in items:
            # Under its id of the backup, because other keys and the segments store it as an offset.
            yield ("XADD", key, entry_id, *fields)
    elif part.kind == "zset":
        for first in range(0, len(items), 2 * _MEMBERS):
            # ZSCAN returned member and score; ZADD takes score and member.
            some = items[first : first + 2 * _MEMBERS]
            pairs = zip(some[1::2], some[::2], strict=True)
            yield ("ZADD", key, *(word for pair in pairs for word in pair))
    else:
        for first in range(0, len(items), 2 * _MEMBERS):
            # An even number of items, so that field and value of a hash stay in one command.
            yield (_WORDS[part.kind], key, *items[first : first + 2 * _MEMBERS])
    # Also after the first part of a key, so that an interrupted restore leaves no key that lives for ever.
    if part.expires_ms and items:
        yield ("PEXPIREAT", key, part.expires_ms)

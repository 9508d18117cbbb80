"""Reading keys of Redis in short commands, page by page, without commands that need more than plain rights."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from typing import Any

from cluster.clock import Clock
from cluster.errors import Fault
from cluster.store.ports.key_parts import KeyPart
from cluster.store.redis.client import RedisClient
from cluster.store.redis.multiplexer import name_of, text_of
from cluster.store.redis.script import Script

PAGE = 100
"Keys or members read with one command."
PAGE_BYTES = 1 << 20
"About how much one read of a log returns."

_CUT = Script.load("read_cut")
_SCANS = {b"hash": ("HSCAN",), b"set": ("SSCAN",), b"zset": ("ZSCAN",)}
"Type -> the first word of the command."


class KeyReader:
    """Reads keys of one server."""

    def __init__(self, server: RedisClient, clock: Clock) -> None:
        self._server = server
        self._clock = clock

    async def scan(self) -> AsyncIterator[list[bytes]]:
        """Yield the names of all keys in pages; a name may come twice."""
        cursor: Any = 0
        while True:
            cursor, names = await self._server.execute_slow("SCAN", cursor, "COUNT", PAGE)
            yield names
            if int(cursor) == 0:
                return

    async def read_strings(self, names: Sequence[bytes]) -> list[KeyPart]:
        """Return strings without a time to live; absent ones are left out."""
        found = []
        for group in self._server.group([name_of(key) for key in names]):
            values = await self._server.execute_slow("MGET", *group)
            found += [
                KeyPart(key.encode("utf-8", "surrogateescape"), "string", [value])
                for key, value in zip(group, values, strict=True)
                if value is not None
            ]
        return found

    async def read(self, names: Sequence[bytes]) -> AsyncIterator[KeyPart]:
        """Yield some keys of any type; large ones in parts."""
        kinds, lives = await self._types(names)
        begins = await asyncio.gather(
            *(self._first_page(key, kind) for key, kind in zip(names, kinds, strict=True))
        )
        for key, kind, life, begin in zip(names, kinds, lives, begins, strict=True):
            if begin is None:
                continue
            expires_ms = self._clock.now_ms() + life if life >= 0 else 0
            async for items, last_id in self._pages(key, kind, begin):
                if items:
                    yield KeyPart(key, kind.decode(), items, expires_ms, last_id)

    async def read_cut(
        self, small: Sequence[str], logs: Sequence[str] = (), strings: Sequence[str] = ()
    ) -> tuple[list[KeyPart], list[str], list[bytes]]:
        """Return small keys, the newest offsets of logs, and strings (absent ones empty), all of one moment.

        All keys must have the same hash tag.
        """
        names = [*small, *logs, *strings]
        found, offsets, values = await self._server.run(_CUT, names, [len(small), len(logs)])
        now_ms = self._clock.now_ms()
        parts = [
            KeyPart(
                key.encode("utf-8", "surrogateescape"),
                text_of(kind),
                [value] if text_of(kind) == "string" else list(value),
                now_ms + life if life >= 0 else 0,
            )
            for key, (kind, life, value) in zip(small, found, strict=True)
            if value
        ]
        return parts, [text_of(offset) for offset in offsets], values

    async def read_log(self, key: str, until: str) -> AsyncIterator[list[Any]]:
        """Yield the entries of a log up to an offset, in pages of about a megabyte."""
        after, count = "-", 16
        while page := await self._server.execute_slow("XRANGE", key, after, until, "COUNT", count):
            yield page
            size = sum(len(field) for _, fields in page for field in fields)
            count = max(
                1, min(PAGE, count * 2 if size < PAGE_BYTES / 2 else count * PAGE_BYTES // (size + 1))
            )
            after = "(" + page[-1][0].decode()

    async def sample(self, ids: str, count: int) -> list[str]:
        """Return some members of a sorted set, chosen at random."""
        members = await self._server.execute_slow("ZRANDMEMBER", ids, count)
        return [name_of(member) for member in members]

    async def last_offset(self, key: str) -> str:
        """Return the newest offset that a log ever gave, `0` before the first."""
        return (await self.read_cut((), [key]))[1][0]

    async def _types(self, names: Sequence[bytes]) -> tuple[list[bytes], list[int]]:
        ask = self._server.execute_slow
        replies = await asyncio.gather(
            *(ask("TYPE", key) for key in names), *(ask("PTTL", key) for key in names)
        )
        kinds = [kind if isinstance(kind, bytes) else str(kind).encode() for kind in replies[: len(names)]]
        return kinds, [int(life) for life in replies[len(names) :]]

    async def _first_page(self, key: bytes, kind: bytes) -> Any:
        """Return the reply of the first command for a key; None for an absent key."""
        ask = self._server.execute_slow
        if kind == b"string":
            return await ask("GET", key)
        if kind in _SCANS:
            return await ask(*_SCANS[kind], key, 0, "COUNT", PAGE)
        if kind == b"list":
            return await ask("LRANGE", key, 0, PAGE - 1)
        if kind == b"stream":
            return await self.last_offset(name_of(key))
        if kind == b"none":
            return None
        raise Fault(f"keys of type {kind.decode()} can't be backed up")

    async def _pages(self, key: bytes, kind: bytes, begin: Any) -> AsyncIterator[tuple[list[Any], bytes]]:
        """Yield the items of a key, page by page, from the reply of `_first_page` on."""
        ask = self._server.execute_slow
        if kind == b"string":
            yield [begin], b""
        elif kind in _SCANS:
            cursor, items = begin
            yield items, b""
            while int(cursor):
                cursor, items = await ask(*_SCANS[kind], key, cursor, "COUNT", PAGE)
                yield items, b""
        elif kind == b"list":
            items, first = begin, PAGE
            yield items, b""
            while len(items) == PAGE:
                items = await ask("LRANGE", key, first, first + PAGE - 1)
                first += PAGE
                yield items, b""
        else:
            async for page in self.read_log(name_of(key), "+"):
                yield page, begin.encode()

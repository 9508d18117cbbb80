"""Reading keys of Redis in short commands, page by page, without commands that need more than plain rights."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Sequence
from typing import Any

import msgspec

from cluster.clock import Clock
from cluster.errors import Fault
from cluster.ids import position_from_offset
from cluster.store.client.redis_client import RedisClient
from cluster.store.client.replies import name_of, split_pairs, text_of
from cluster.store.client.script import Script


class StreamState(msgspec.Struct, array_like=True):
    """The state of a stream beside its entries; an empty stream has one too."""

    last_id: bytes
    "The newest id that was ever given."
    added: int = -1
    "Number of entries that were ever added; -1 where the server does not count them."
    deleted: bytes = b"0-0"
    "The newest id that was ever deleted."
    groups: list[tuple[bytes, bytes]] = []
    """Consumer groups: name, and the id after which entries are delivered. Entries that a consumer had not acknowledged
    come after it, so they are delivered again."""


class KeyPart(msgspec.Struct, array_like=True):
    """A key with all of its value or one part of it; the parts of a key are adjacent, and added to each other."""

    key: bytes
    kind: str
    "`string`, `hash`, `set`, `zset`, `list` or `stream`."
    items: list[Any]
    "As Redis returns them; hashes and sorted sets flat."
    expires_ms: int = 0
    "Wall clock; 0 means never."
    last_id: bytes = b""
    "Streams in backups of release 0.1.0, in each part: the newest id that was ever given when the first part was read."
    stream: StreamState | None = None
    "In the last part of a stream."


PAGE = 100
"Keys or members read with one command."
PAGE_BYTES = 1 << 20
"About how much one read of a log returns."
_WHOLE = 1000
"Members of a list of short members, read with one command: a list that grows at its head moves between two reads."
_SHORT_BYTES = 64 << 10
"Bytes of a page of short members."

_RUN_ID = re.compile(r"^run_id:(\w+)", re.MULTILINE)
_CUT = Script.load("read_cut")
_SCANS = {b"hash": ("HSCAN",), b"set": ("SSCAN",), b"zset": ("ZSCAN",)}
"Type -> the first word of the command."


class KeyLoader:
    """Reads keys of one server."""

    def __init__(self, server: RedisClient, clock: Clock) -> None:
        self._server = server
        self._clock = clock

    async def run_ids(self) -> frozenset[str]:
        """Return the ids of the server processes: a cursor of one says nothing to the next, which would skip keys."""
        replies = await self._server.execute_everywhere("INFO", "server")
        return frozenset(match[1] for reply in replies if (match := _RUN_ID.search(text_of(reply))))

    async def scan(self) -> AsyncIterator[list[bytes]]:
        """Yield the names of all keys in pages; a name may come twice."""
        cursor: Any = 0
        while True:
            cursor, names = await self._server.execute_slow("SCAN", cursor, "COUNT", PAGE)
            yield names
            # Only the cursor tells the end: SCAN may return an empty page in the middle.
            if int(cursor) == 0:
                return

    async def read_strings(self, names: Sequence[bytes]) -> list[KeyPart]:
        """Return strings without a time to live; absent ones are left out."""
        parts = []
        # One command per node of a cluster: MGET takes only keys of one.
        for group in self._server.group([name_of(key) for key in names]):
            values = await self._server.execute_slow("MGET", *group)
            parts += [
                KeyPart(key.encode("utf-8", "surrogateescape"), "string", [value])
                for key, value in zip(group, values, strict=True)
                if value is not None
            ]
        return parts

    async def read(self, names: Sequence[bytes]) -> AsyncIterator[KeyPart]:
        """Yield some keys of any type; large ones in parts."""
        kinds, lives = await self._types(names)
        begins = await asyncio.gather(
            *(self._first_page(key, kind) for key, kind in zip(names, kinds, strict=True))
        )
        for key, kind, life, begin in zip(names, kinds, lives, begins, strict=True):
            if begin is None:
                continue
            # A moment in place of a span: a restore happens later, and the key must still die at its time.
            expires_ms = self._clock.now_ms() + life if life >= 0 else 0
            async for items in self._pages(key, kind, begin):
                if items:
                    yield KeyPart(key, kind.decode(), items, expires_ms)
            if kind == b"stream":
                yield KeyPart(key, "stream", [], expires_ms, stream=begin)

    async def read_cut(
        self, small: Sequence[str], logs: Sequence[str] = (), strings: Sequence[str] = ()
    ) -> tuple[list[KeyPart], list[str], list[bytes]]:
        """Return small keys, the newest offsets of logs, and strings (absent ones empty), all of one moment.

        All keys must have the same hash tag.
        """
        names = [*small, *logs, *strings]
        states, offsets, values = await self._server.run(_CUT, names, [len(small), len(logs)])
        now_ms = self._clock.now_ms()
        parts = [
            KeyPart(
                key.encode("utf-8", "surrogateescape"),
                text_of(kind),
                [value] if text_of(kind) == "string" else list(value),
                now_ms + life if life >= 0 else 0,
                stream=_parse_state(*state) if state else None,
            )
            for key, (kind, life, value, state) in zip(small, states, strict=True)
            if value or state
        ]
        return parts, [text_of(offset) for offset in offsets], values

    async def read_log(self, key: str, until: str, after: str = "") -> AsyncIterator[list[Any]]:
        """Yield the entries of a log after an offset (empty: from the first on) and up to another one, in pages of
        about a megabyte.
        """
        # "(" excludes the entry itself.
        start = f"({after}" if after else "-"
        count = 16
        while page := await self._server.execute_slow("XRANGE", key, start, until, "COUNT", count):
            yield page
            size = sum(len(field) for _, fields in page for field in fields)
            # Doubled while pages are small, else cut to the size wanted: next = count * PAGE_BYTES / size.
            count = max(
                1, min(PAGE, count * 2 if size < PAGE_BYTES / 2 else count * PAGE_BYTES // (size + 1))
            )
            start = "(" + page[-1][0].decode()

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
        # PTTL: -1 means no expiry, -2 means that the key is absent.
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
            return await self._read_state(key)
        if kind == b"none":
            return None
        raise Fault(f"keys of type {kind.decode()} can't be backed up")

    async def _read_state(self, key: bytes) -> StreamState | None:
        """Return the state of a stream without its entries; None for an absent one."""
        ask = self._server.execute_slow
        try:
            facts, groups = await asyncio.gather(ask("XINFO", "STREAM", key), ask("XINFO", "GROUPS", key))
        # The key expired or was removed between TYPE and XINFO.
        except Fault as error:
            if "no such key" in error.message:
                return None
            raise
        names = [_as_dict(group)[b"name"] for group in groups]
        pending = await asyncio.gather(*(ask("XPENDING", key, name) for name in names))
        return _parse_state(facts, groups, [summary[1] for summary in pending])

    async def _pages(self, key: bytes, kind: bytes, begin: Any) -> AsyncIterator[list[Any]]:
        """Yield the items of a key, page by page, from the reply of `_first_page` on."""
        ask = self._server.execute_slow
        if kind == b"string":
            yield [begin]
        elif kind in _SCANS:
            cursor, items = begin
            yield items
            while int(cursor):
                cursor, items = await ask(*_SCANS[kind], key, cursor, "COUNT", PAGE)
                yield items
        elif kind == b"list":
            items = begin
            most = PAGE
            first = 0
            # Read again from the head with a larger page, so that one command has the whole list.
            if len(items) == PAGE and sum(map(len, items)) < _SHORT_BYTES:
                most = _WHOLE
                items = await ask("LRANGE", key, 0, most - 1)
            yield items
            while len(items) == most:
                first += most
                items = await ask("LRANGE", key, first, first + most - 1)
                yield items
        else:
            # up to the newest id of the state: entries that are added meanwhile would be newer than it
            async for page in self.read_log(name_of(key), begin.last_id.decode()):
                yield page


def _parse_state(facts: Sequence[Any], groups: Sequence[Any], pending: Sequence[Any]) -> StreamState:
    """Read the replies of XINFO, and the oldest unacknowledged id of each group (empty: none)."""
    stream = _as_dict(facts)
    state = StreamState(stream[b"last-generated-id"])
    if b"entries-added" in stream:
        state.added = int(stream[b"entries-added"])
        state.deleted = stream[b"max-deleted-entry-id"]
    for group, oldest in zip(map(_as_dict, groups), pending, strict=True):
        after = group[b"last-delivered-id"]
        # A restored group has no pending list. So it begins before the oldest entry that nobody acknowledged.
        state.groups.append((group[b"name"], _id_before(oldest) if oldest else after))
    return state


def _id_before(entry_id: bytes) -> bytes:
    """Return the greatest id before another one."""
    ms, n = position_from_offset(entry_id.decode())
    return f"{ms}-{n - 1}".encode() if n else f"{ms - 1}-{2**64 - 1}".encode()


def _as_dict(flat: Sequence[Any]) -> dict[bytes, Any]:
    return dict(split_pairs(flat))

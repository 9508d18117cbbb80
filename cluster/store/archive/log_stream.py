"""Logs on their way to the artifact store: one stream for each app, one entry for each batch of rows."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Generic, Protocol, TypeVar

import orjson

from cluster.store.client.redis_client import RedisClient
from cluster.store.client.replies import text_of
from cluster.store.data.salts import Salts
from cluster.store.seals.seal import salt_from_key, seal, unseal

MOST_BATCHES = 4_000
"Batches kept while the intake does not compact them; further ones are refused. About 30 KB each at most."
MOST_WRITERS = 100
"Replicas that may each use their part of the free places without reading the length of the queue."

Row = TypeVar("Row")
ParsedRow = TypeVar("ParsedRow", covariant=True)


class RowType(Protocol[ParsedRow]):
    """The dataclass of a row."""

    def from_dict(self, given: Any) -> ParsedRow | None:
        """Return the row of a JSON object; None for other values."""
        ...


@dataclass(frozen=True, slots=True)
class LogBatch(Generic[Row]):
    """Rows that one API replica wrote at once."""

    offset: str
    rows: tuple[Row, ...]
    "Empty when the stored batch is damaged, so that the consumer can skip it."


class LogStream(Generic[Row]):
    """Rows on their way to the artifact store, in a bounded queue. `key` names the stream of an app."""

    def __init__(self, server: RedisClient, key: Callable[[str], str], row_type: RowType[Row]) -> None:
        self._server = server
        self._key = key
        self._row_type = row_type
        self._salts = Salts(server)
        self._unchecked: dict[str, int] = {}
        "App -> batches that may be added before the length of its queue is read again: saves half of the trips."

    async def append(self, app_id: str, rows: Sequence[Row | Mapping[str, Any]]) -> bool:
        """Add a batch; return False, and store nothing, while the queue of the app is full.

        A row may be a mapping of its fields, without some that have their default.
        """
        if not rows:
            return True
        name = self._key(app_id)
        unchecked = self._unchecked.get(app_id, 0)
        if unchecked < 1:
            room = MOST_BATCHES - int(await self._server.execute_slow("XLEN", name))
            if room < 1:
                return False
            # Each replica may use a hundredth of the room unasked, so a
            # hundred of them can't overfill it together.
            unchecked = room // MOST_WRITERS
        self._unchecked[app_id] = unchecked - 1
        await self._server.execute_slow(
            "XADD", name, "*", "lot", seal(orjson.dumps(rows), salt_from_key(name))
        )
        return True

    async def newest_offset(self, app_id: str) -> str:
        """Return the offset of the newest batch; `"0-0"` without any."""
        entries = await self._server.execute_slow("XREVRANGE", self._key(app_id), "+", "-", "COUNT", 1)
        return text_of(entries[0][0]) if entries else "0-0"

    async def read(self, app_id: str, after: str, *, count: int) -> list[LogBatch[Row]]:
        """Return batches after an offset (`"0"`: from the start), oldest first."""
        name = self._key(app_id)
        entries = await self._server.execute_slow("XRANGE", name, f"({after}", "+", "COUNT", count)
        return [
            LogBatch(text_of(offset), self._parse(pairs[1], salt_from_key(name))) for offset, pairs in entries
        ]

    async def read_all(
        self, app_id: str, after: str, is_selected: Callable[[Row], bool] = lambda row: True
    ) -> list[Row]:
        """Return the rows after an offset that meet a condition, oldest first."""
        rows: list[Row] = []
        while batches := await self.read(app_id, after, count=200):
            rows += (row for batch in batches for row in batch.rows if is_selected(row))
            after = batches[-1].offset
        return rows

    async def trim(self, app_id: str, upto: str) -> None:
        """Delete batches up to an offset: the artifact store holds them."""
        ms, _, n = upto.partition("-")
        # MINID keeps the id itself, so the next one is named. `=`:
        # exactly, or people's rows would outlive it.
        await self._server.execute_slow("XTRIM", self._key(app_id), "MINID", "=", f"{ms}-{int(n or 0) + 1}")

    async def salt(self, app_id: str) -> bytes:
        """Return the salt of the app's pseudonyms; the first call creates it, and it never changes."""
        return await self._salts.get(app_id)

    def _parse(self, sealed: bytes, salt: bytes) -> tuple[Row, ...]:
        body = unseal(sealed, salt)
        if body is None:
            return ()
        try:
            given = orjson.loads(body)
        except orjson.JSONDecodeError:
            # Empty and not an error: a damaged batch must not stop the compaction of those behind it.
            return ()
        # archive calls of earlier releases have an entry each
        rows = map(self._row_type.from_dict, given if isinstance(given, list) else [given])
        return tuple(row for row in rows if row is not None)

"""Logs on their way to the artifact store: one stream for each app, one entry for each batch of rows."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Generic, Protocol, TypeVar

import orjson

from cluster.errors import Unavailable
from cluster.store.client.redis_client import RedisClient
from cluster.store.client.replies import text_of
from cluster.store.data.salts import Salts
from cluster.store.seals.seal import salt_from_key, seal, unseal

MOST_BATCHES = 4_000
"Batches kept while the intake does not compact them; further ones are refused. About 30 KB each at most."

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

    async def append(self, app_id: str, rows: Sequence[Row]) -> None:
        """Append one batch.

        Errors:
            Unavailable: the store is unreachable, or the queue is full because the intake compacts nothing
        """
        if not rows:
            return
        name = self._key(app_id)
        if int(await self._server.execute_slow("XLEN", name)) >= MOST_BATCHES:
            raise Unavailable(
                f"the queue {name} is full; see why the intake does not empty it: kiosk logs intake"
            )
        await self._server.execute_slow(
            "XADD", name, "*", "lot", seal(orjson.dumps(rows), salt_from_key(name))
        )

    async def read(self, app_id: str, after: str, *, count: int) -> list[LogBatch[Row]]:
        """Return batches after an offset (`"0"`: from the start), oldest first."""
        name = self._key(app_id)
        entries = await self._server.execute_slow("XRANGE", name, f"({after}", "+", "COUNT", count)
        return [
            LogBatch(text_of(offset), self._parse(pairs[1], salt_from_key(name))) for offset, pairs in entries
        ]

    async def read_all(self, app_id: str, after: str) -> list[Row]:
        """Return all rows after an offset, oldest first."""
        rows: list[Row] = []
        while batches := await self.read(app_id, after, count=200):
            rows += (row for batch in batches for row in batch.rows)
            after = batches[-1].offset
        return rows

    async def trim(self, app_id: str, upto: str) -> None:
        """Delete batches up to an offset: the artifact store holds them."""
        ms, _, n = upto.partition("-")
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
            return ()
        rows = map(self._row_type.from_dict, given if isinstance(given, list) else [])
        return tuple(row for row in rows if row is not None)

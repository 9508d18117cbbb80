"""The query log: one stream for each app, one entry for each batch."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import orjson

from cluster.records.logged_query import LoggedQuery
from cluster.store import keys
from cluster.store.client.redis_client import RedisClient
from cluster.store.client.replies import text_of
from cluster.store.data.salts import Salts
from cluster.store.seals.seal import salt_from_key, seal, unseal


@dataclass(frozen=True, slots=True)
class QueryBatch:
    """Queries that one API replica wrote at once."""

    offset: str
    queries: tuple[LoggedQuery, ...]
    "Empty when the stored batch is damaged, so that the consumer can skip it."


MOST_BATCHES = 4_000
"Batches kept while the intake does not compact them; the oldest go first. About 30 KB each at most."


class QueryStore:
    """Queries on their way to the artifact store: a bounded queue that drops the oldest batches."""

    def __init__(self, server: RedisClient) -> None:
        self._server = server

    async def append(self, app_id: str, queries: Sequence[LoggedQuery]) -> None:
        """Append one batch."""
        if not queries:
            return
        name = keys.query(app_id)
        sealed = seal(orjson.dumps([query.to_dict() for query in queries]), salt_from_key(name))
        await self._server.execute_slow("XADD", name, "MAXLEN", "~", MOST_BATCHES, "*", "lot", sealed)

    async def read(self, app_id: str, after: str, *, count: int) -> list[QueryBatch]:
        """Return batches after an offset (`"0"`: from the start), oldest first."""
        name = keys.query(app_id)
        entries = await self._server.execute_slow("XRANGE", name, f"({after}", "+", "COUNT", count)
        return [
            QueryBatch(text_of(offset), _queries(pairs[1], salt_from_key(name))) for offset, pairs in entries
        ]

    async def trim(self, app_id: str, upto: str) -> None:
        """Delete batches up to an offset: the artifact store holds them."""
        ms, _, n = upto.partition("-")
        await self._server.execute_slow("XTRIM", keys.query(app_id), "MINID", "=", f"{ms}-{int(n or 0) + 1}")

    async def salt(self, app_id: str) -> bytes:
        """Return the salt of the app's pseudonyms; the first call creates it, and it never changes."""
        return await Salts(self._server).get(app_id)


def _queries(sealed: bytes, salt: bytes) -> tuple[LoggedQuery, ...]:
    body = unseal(sealed, salt)
    if body is None:
        return ()
    try:
        given = orjson.loads(body)
    except orjson.JSONDecodeError:
        return ()
    queries = (LoggedQuery.from_dict(fields) for fields in given) if isinstance(given, list) else ()
    return tuple(query for query in queries if query is not None)

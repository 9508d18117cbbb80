"""The query log over Redis: one stream for each app, one entry for each batch."""

from __future__ import annotations

from collections.abc import Sequence

import orjson

from cluster.records.logged_query import LoggedQuery
from cluster.store import keys
from cluster.store.ports.query_log import QueryBatch
from cluster.store.redis.client import RedisClient
from cluster.store.redis.multiplexer import text_of
from cluster.store.redis.salts import Salts
from cluster.store.redis.seal import salt_from_key, seal, unseal

MOST_BATCHES = 4_000
"Batches kept while the intake does not compact them; the oldest go first. About 30 KB each at most."


class RedisQueries:
    """`QueryStore` over Redis."""

    def __init__(self, server: RedisClient) -> None:
        self._server = server

    async def append(self, app_id: str, queries: Sequence[LoggedQuery]) -> None:
        if not queries:
            return
        name = keys.query(app_id)
        sealed = seal(orjson.dumps([query.to_dict() for query in queries]), salt_from_key(name))
        await self._server.execute_slow("XADD", name, "MAXLEN", "~", MOST_BATCHES, "*", "lot", sealed)

    async def read(self, app_id: str, after: str, *, count: int) -> list[QueryBatch]:
        name = keys.query(app_id)
        entries = await self._server.execute_slow("XRANGE", name, f"({after}", "+", "COUNT", count)
        return [
            QueryBatch(text_of(offset), _queries(pairs[1], salt_from_key(name))) for offset, pairs in entries
        ]

    async def trim(self, app_id: str, upto: str) -> None:
        ms, _, n = upto.partition("-")
        await self._server.execute_slow("XTRIM", keys.query(app_id), "MINID", "=", f"{ms}-{int(n or 0) + 1}")

    async def salt(self, app_id: str) -> bytes:
        return await Salts(self._server).get(app_id)


def _queries(sealed: bytes, salt: bytes) -> tuple[LoggedQuery, ...]:
    body = unseal(sealed, salt)
    if body is None:
        return ()
    try:
        given = orjson.loads(body)
    except orjson.JSONDecodeError:
        return ()
    found = (LoggedQuery.from_dict(one) for one in given) if isinstance(given, list) else ()
    return tuple(query for query in found if query is not None)

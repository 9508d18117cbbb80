"""Queries on their way to the shelf over Redis: a stream an app, one entry a lot."""

from __future__ import annotations

from collections.abc import Sequence

import orjson

from cluster.records.logged_query import Searched
from cluster.store import keys
from cluster.store.ports.query_log import Lot
from cluster.store.redis.client import Server
from cluster.store.redis.multiplexer import text_of
from cluster.store.redis.salts import Salts
from cluster.store.redis.seal import salt_of, seal, unseal

MOST_LOTS = 4_000
"Lots kept while nobody settles them; the oldest go first. About 30 KB each at most."


class RedisQueries:
    """`QueryStore` over Redis."""

    def __init__(self, server: Server) -> None:
        self._server = server

    async def append(self, app_id: str, queries: Sequence[Searched]) -> None:
        if not queries:
            return
        name = keys.query(app_id)
        sealed = seal(orjson.dumps([query.told() for query in queries]), salt_of(name))
        await self._server.ask_slow("XADD", name, "MAXLEN", "~", MOST_LOTS, "*", "lot", sealed)

    async def read(self, app_id: str, after: str, *, count: int) -> list[Lot]:
        name = keys.query(app_id)
        entries = await self._server.ask_slow("XRANGE", name, f"({after}", "+", "COUNT", count)
        return [Lot(text_of(offset), _queries(pairs[1], salt_of(name))) for offset, pairs in entries]

    async def trim(self, app_id: str, upto: str) -> None:
        ms, _, n = upto.partition("-")
        await self._server.ask_slow("XTRIM", keys.query(app_id), "MINID", "=", f"{ms}-{int(n or 0) + 1}")

    async def salt(self, app_id: str) -> bytes:
        return await Salts(self._server).of(app_id)


def _queries(sealed: bytes, salt: bytes) -> tuple[Searched, ...]:
    body = unseal(sealed, salt)
    if body is None:
        return ()
    try:
        given = orjson.loads(body)
    except orjson.JSONDecodeError:
        return ()
    found = (Searched.of(one) for one in given) if isinstance(given, list) else ()
    return tuple(query for query in found if query is not None)

"""Users and products as sealed JSON, one string for each record."""

from __future__ import annotations

from collections.abc import Sequence

import orjson

from cluster.records.intake import Noun
from cluster.store import keys
from cluster.store.client.redis_client import RedisClient
from cluster.store.client.replies import split_pairs, text_of
from cluster.store.seals.quarantine import Quarantine
from cluster.store.seals.seal import salt_from_key, unseal

MOST_AT_ONCE = 500
"Records read with one command."
HOT_AT_ONCE = 50
"Up to this many records count as a short read."


def type_prefix(product_type: str) -> bytes:
    """Encode a product type as JSON text with its closing quote, so that it is no prefix of another type."""
    return orjson.dumps(product_type)


class RecordStore:
    """Stored users and products, as JSON bytes. A record whose checksum fails is moved to quarantine and
    reads as absent."""

    def __init__(self, server: RedisClient, quarantine: Quarantine) -> None:
        self._server = server
        self._quarantine = quarantine

    async def get(self, app_id: str, noun: Noun, record_id: str) -> bytes | None:
        key = keys.record(app_id, noun, record_id)
        sealed: bytes | None = await self._server.execute("GET", key)
        if sealed is None:
            return None
        body = unseal(sealed, salt_from_key(key))
        if body is None:
            await self._quarantine.record(app_id, noun, record_id, sealed)
        return body

    async def get_many(self, app_id: str, noun: Noun, record_ids: Sequence[str]) -> list[bytes | None]:
        bodies: list[bytes | None] = []
        ask = self._server.execute if len(record_ids) <= HOT_AT_ONCE else self._server.execute_slow
        # One `MGET` of all would hold Redis up for large records.
        for first in range(0, len(record_ids), MOST_AT_ONCE):
            some = record_ids[first : first + MOST_AT_ONCE]
            names = [keys.record(app_id, noun, record_id) for record_id in some]
            for record_id, key, sealed in zip(some, names, await ask("MGET", *names), strict=True):
                body = None if sealed is None else unseal(sealed, salt_from_key(key))
                if body is None and sealed is not None:
                    await self._quarantine.record(app_id, noun, record_id, sealed)
                bodies.append(body)
        return bodies

    async def ids(self, app_id: str, noun: Noun, product_type: str | None = None) -> list[str]:
        """Return all ids, sorted."""
        if product_type is None:
            members = await self._server.execute_slow("ZRANGE", keys.record_ids(app_id, noun), 0, -1)
            return [text_of(member) for member in members]
        prefix = type_prefix(product_type)
        # No UTF-8 text holds the byte FF, so it bounds everything that begins with the prefix.
        members = await self._server.execute_slow(
            "ZRANGEBYLEX", keys.product_type_ids(app_id), b"[" + prefix, b"(" + prefix + b"\xff"
        )
        return [text_of(member[len(prefix) :]) for member in members]

    async def page_ids(
        self, app_id: str, noun: Noun, *, prefix: str = "", after: str = "", limit: int = 100
    ) -> list[str]:
        """Return the first ids, in their order, that begin with a prefix and stand behind an id."""
        begin = prefix.encode("utf-8", "replace")
        last = after.encode("utf-8", "replace")
        low = b"(" + last if last and last >= begin else b"[" + begin if begin else b"-"
        # No UTF-8 text holds the byte FF, so it bounds everything that begins with the prefix.
        high = b"(" + begin + b"\xff" if begin else b"+"
        members = await self._server.execute(
            "ZRANGEBYLEX", keys.record_ids(app_id, noun), low, high, "LIMIT", 0, limit
        )
        return [text_of(member) for member in members]

    async def count(self, app_id: str, noun: Noun) -> int:
        return int(await self._server.execute("ZCARD", keys.record_ids(app_id, noun)))

    async def seen(self, app_id: str, noun: Noun) -> bool:
        """Return whether the app ever received a record of this noun."""
        return await self._server.execute("GET", keys.noun_seen(app_id, noun)) is not None

    async def attribute_types(self, app_id: str, noun: Noun) -> dict[str, str]:
        """Return custom attribute name -> scalar type registered so far."""
        flat = await self._server.execute_slow("HGETALL", keys.attribute_types(app_id, noun))
        return {text_of(name): text_of(kind) for name, kind in split_pairs(flat)}

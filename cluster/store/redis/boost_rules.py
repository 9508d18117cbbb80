"""Stored boost rules, a few for each engine, in one hash for each app."""

from __future__ import annotations

from collections.abc import Sequence

from cluster.records.boost_rule import BoostRule
from cluster.store import keys
from cluster.store.redis.client import RedisClient
from cluster.store.redis.multiplexer import name_of
from cluster.store.redis.quarantine import Quarantine
from cluster.store.redis.record_seal import SealedRecords, seal_record

_BETWEEN = "\x1f"


class RedisRules:
    """`RuleStore` over Redis."""

    def __init__(self, server: RedisClient, quarantine: Quarantine) -> None:
        self._server = server
        self._records = SealedRecords(quarantine)

    async def put(self, app_id: str, rules: Sequence[BoostRule]) -> None:
        key = keys.boost_rule(app_id)
        pairs: list[str | bytes] = []
        for given in rules:
            field = _field(given.engine_id, given.name)
            stored: bytes | None = await self._server.execute_slow("HGET", key, field)
            rule = await self._records.replacing(given, app_id, key, field, stored)
            pairs += [field, seal_record(rule, key, field)]
        if pairs:
            await self._server.execute_slow("HSET", key, *pairs)

    async def all(self, app_id: str) -> list[BoostRule]:
        key = keys.boost_rule(app_id)
        flat = await self._server.execute_slow("HGETALL", key)
        found: list[BoostRule] = []
        for name, sealed in sorted(zip(flat[::2], flat[1::2], strict=True)):
            rule = await self._records.open(BoostRule, app_id, key, name_of(name), sealed)
            if rule is not None:
                found.append(rule)
        return found

    async def remove(self, app_id: str, engine_id: str, names: Sequence[str]) -> int:
        if not names:
            return 0
        fields = [_field(engine_id, name) for name in names]
        return int(await self._server.execute_slow("HDEL", keys.boost_rule(app_id), *fields))


def _field(engine_id: str, name: str) -> str:
    return engine_id + _BETWEEN + name

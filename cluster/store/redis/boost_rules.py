"""Stored boost rules, a few for each engine, in one hash for each app."""

from __future__ import annotations

from collections.abc import Sequence

from pydantic import ValidationError

from cluster.records.boost_rule import BoostRule
from cluster.store import keys
from cluster.store.redis.client import RedisClient
from cluster.store.redis.multiplexer import name_of
from cluster.store.redis.quarantine import Quarantine
from cluster.store.redis.seal import salt_from_key, seal, unseal

_BETWEEN = "\x1f"


class RedisRules:
    """`RuleStore` over Redis."""

    def __init__(self, server: RedisClient, quarantine: Quarantine) -> None:
        self._server = server
        self._quarantine = quarantine

    async def put(self, app_id: str, rules: Sequence[BoostRule]) -> None:
        key = keys.boost_rule(app_id)
        pairs: list[str | bytes] = []
        for rule in rules:
            field = _field(rule.engine_id, rule.name)
            pairs += [field, seal(rule.model_dump_json().encode(), salt_from_key(key, field))]
        if pairs:
            await self._server.execute_slow("HSET", key, *pairs)

    async def all(self, app_id: str) -> list[BoostRule]:
        key = keys.boost_rule(app_id)
        flat = await self._server.execute_slow("HGETALL", key)
        found: list[BoostRule] = []
        for name, sealed in sorted(zip(flat[::2], flat[1::2], strict=True)):
            field = name_of(name)
            body = unseal(sealed, salt_from_key(key, field))
            try:
                if body is not None:
                    found.append(BoostRule.model_validate_json(body))
                    continue
            except ValidationError:
                pass
            await self._quarantine.field(app_id, key, keys.quarantine(app_id), field, sealed)
        return found

    async def remove(self, app_id: str, engine_id: str, names: Sequence[str]) -> int:
        if not names:
            return 0
        fields = [_field(engine_id, name) for name in names]
        return int(await self._server.execute_slow("HDEL", keys.boost_rule(app_id), *fields))


def _field(engine_id: str, name: str) -> str:
    return engine_id + _BETWEEN + name

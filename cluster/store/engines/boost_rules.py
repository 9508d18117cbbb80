"""Stored boost rules, a few for each engine, in one hash for each app, and the stream of their changes.

One script writes a rule and its version, so that there is no change without a version.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from cluster.errors import NewerRelease
from cluster.records.boost_rule import BoostRule
from cluster.records.rule_version import RuleVersion
from cluster.store import keys
from cluster.store.client.multiplexer import name_of, text_of
from cluster.store.client.redis_client import RedisClient
from cluster.store.client.script import Script
from cluster.store.seals.quarantine import Quarantine
from cluster.store.seals.record_seal import SealedRecords, parse_record, seal_record
from cluster.store.seals.seal import salt_from_key, unseal

MOST_VERSIONS = 2_000
"Changes kept for each app; the oldest go first. Some KB each."
_BETWEEN = "\x1f"
_CHANGE = Script.load("change_rules")
_VERSION_ID = re.compile(r"\d{1,20}-\d{1,20}", re.ASCII)


class RuleStore:
    """Stored boost rules: few, read whole."""

    def __init__(self, server: RedisClient, quarantine: Quarantine) -> None:
        self._server = server
        self._records = SealedRecords(quarantine)

    async def put(
        self, app_id: str, rules: Sequence[BoostRule], versions: Sequence[RuleVersion] = ()
    ) -> None:
        """Store rules and append the versions, all or none; a rule replaces one with the same engine and name."""
        key = keys.boost_rule(app_id)
        pairs: list[str | bytes] = []
        for given in rules:
            field = _field(given.engine_id, given.name)
            stored: bytes | None = await self._server.execute_slow("HGET", key, field)
            rule = await self._records.replacing(given, app_id, key, field, stored)
            pairs += [field, seal_record(rule, key, field)]
        await self._change(app_id, pairs, versions)

    async def all(self, app_id: str) -> list[BoostRule]:
        """Return all rules of all engines, by engine and name."""
        key = keys.boost_rule(app_id)
        flat = await self._server.execute_slow("HGETALL", key)
        found: list[BoostRule] = []
        for name, sealed in sorted(zip(flat[::2], flat[1::2], strict=True)):
            rule = await self._records.open(BoostRule, app_id, key, name_of(name), sealed)
            if rule is not None:
                found.append(rule)
        return found

    async def remove(
        self, app_id: str, engine_id: str, names: Sequence[str], versions: Sequence[RuleVersion] = ()
    ) -> int:
        """Remove rules and append the versions, all or none; return the number of rules removed."""
        return await self._change(
            app_id, [part for name in names for part in (_field(engine_id, name), "")], versions
        )

    async def _change(
        self, app_id: str, pairs: Sequence[str | bytes], versions: Sequence[RuleVersion]
    ) -> int:
        if not pairs:
            return 0
        history = keys.boost_rule_version(app_id)
        sealed = [seal_record(one.model_copy(update={"version_id": ""}), history) for one in versions]
        return int(
            await self._server.run(
                _CHANGE, [keys.boost_rule(app_id), history], [len(pairs) // 2, MOST_VERSIONS, *pairs, *sealed]
            )
        )


class RuleVersionStore:
    """Who changed which rule when, as `RuleStore` wrote it with the rule, each under a `version_id` of the store.

    About 2,000 changes of an app are kept; nothing else removes one.
    """

    def __init__(self, server: RedisClient) -> None:
        self._server = server

    async def newest(self, app_id: str, *, count: int) -> list[RuleVersion]:
        """Return changes, the newest first."""
        return await self._read(app_id, "XREVRANGE", "+", "-", count)

    async def get(self, app_id: str, version_id: str) -> RuleVersion | None:
        if _VERSION_ID.fullmatch(version_id) is None:
            return None
        versions = await self._read(app_id, "XRANGE", version_id, version_id, 1)
        return versions[0] if versions else None

    async def _read(self, app_id: str, command: str, first: str, last: str, count: int) -> list[RuleVersion]:
        key = keys.boost_rule_version(app_id)
        entries = await self._server.execute_slow(command, key, first, last, "COUNT", count)
        versions: list[RuleVersion] = []
        for name, pairs in entries:
            body = unseal(pairs[1], salt_from_key(key))
            if body is None:
                continue
            try:
                version = parse_record(RuleVersion, body)
            except NewerRelease:
                continue
            versions.append(version.model_copy(update={"version_id": text_of(name)}))
        return versions


def _field(engine_id: str, name: str) -> str:
    return engine_id + _BETWEEN + name

"""Stored boost rules, a few for each engine, in one hash for each app, and the stream of their changes.

One script writes a rule and its version, so that there is no change without a version.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from cluster.errors import NewerRelease
from cluster.records.boost_rule import BoostRule, RuleVersion
from cluster.store import keys
from cluster.store.client.redis_client import RedisClient
from cluster.store.client.replies import text_of
from cluster.store.client.script import Script
from cluster.store.seals.quarantine import Quarantine
from cluster.store.seals.record_seal import parse_record, seal_record
from cluster.store.seals.seal import salt_from_key, unseal
from cluster.store.seals.sealed_hash import SealedHash

MOST_VERSIONS = 2_000
"Changes kept for each app; the oldest go first. Some KB each."
_BETWEEN = "\x1f"
_CHANGE = Script.load("change_rules")
_VERSION_ID = re.compile(r"\d{1,20}-\d{1,20}", re.ASCII)


class RuleStore:
    """Stored boost rules: few, read whole."""

    def __init__(self, server: RedisClient, quarantine: Quarantine) -> None:
        self._server = server
        self._rules = SealedHash(server, quarantine, BoostRule, keys.boost_rule)

    async def put(
        self, app_id: str, rules: Sequence[BoostRule], versions: Sequence[RuleVersion] = ()
    ) -> None:
        """Store rules and append the versions, all or none; a rule replaces one with the same engine and name."""
        pairs: list[str | bytes] = []
        for rule in rules:
            field = _field(rule.engine_id, rule.name)
            pairs += [field, await self._rules.seal_update(app_id, field, rule)]
        await self._change(app_id, pairs, versions)

    async def all(self, app_id: str) -> list[BoostRule]:
        """Return all rules of all engines, by engine and name."""
        return list((await self._rules.all(app_id)).values())

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
        sealed = [seal_record(version.model_copy(update={"version_id": ""}), history) for version in versions]
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
        # Checked here, as `-` and `+` would read a whole stream.
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

"""The publisher's rules for clients of the archive."""

from __future__ import annotations

from collections.abc import Mapping

from cluster.records.archive.archive_client import ClientRule, fold_client_name
from cluster.store import keys
from cluster.store.client.redis_client import RedisClient
from cluster.store.seals.quarantine import Quarantine
from cluster.store.seals.sealed_hash import SealedHash


class ClientRuleStore:
    """The publisher's rules for the clients of an archive: few, read whole."""

    def __init__(self, server: RedisClient, quarantine: Quarantine) -> None:
        self._rules = SealedHash(server, quarantine, ClientRule, keys.client_rule)

    async def all(self, app_id: str) -> Mapping[str, ClientRule]:
        """Return all rules under their folded names."""
        return await self._rules.all(app_id, hot=True)

    async def put(self, app_id: str, rule: ClientRule) -> None:
        await self._rules.put(app_id, fold_client_name(rule.client), rule)

    async def remove(self, app_id: str, client: str) -> bool:
        """Remove a rule; return False when it was absent."""
        return bool(await self._rules.remove(app_id, [fold_client_name(client)]))

"""Administration of the archive: the log of calls, and the rules for clients."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence

from cluster.records.archive_client import ArchiveCall, ClientRule, fold_client_name
from cluster.store import keys
from cluster.store.client.redis_client import RedisClient
from cluster.store.client.replies import text_of
from cluster.store.client.script import Script
from cluster.store.seals.quarantine import Quarantine
from cluster.store.seals.seal import salt_from_key, seal, unseal
from cluster.store.seals.sealed_hash import SealedHash

MOST_CALLS = 200_000
"Calls kept in the log; the oldest go first. About 300 bytes each."
_PAGE = 2_000
_CLOCKS_APART_MS = 60_000

_NOTE = Script.load("note_calls")


class ArchiveCallStore:
    """Calls of the archive's tools, for the publisher's report. The latest 200,000 of an app are kept."""

    def __init__(self, server: RedisClient) -> None:
        self._server = server

    async def append(self, app_id: str, calls: Sequence[ArchiveCall]) -> None:
        if not calls:
            return
        name = keys.archive_call(app_id)
        sealed = [seal(call.json(), salt_from_key(name)) for call in calls]
        await self._server.run(_NOTE, [name], [MOST_CALLS, *sealed])

    async def read_since(self, app_id: str, at_ms: int) -> list[ArchiveCall]:
        """Return the calls recorded at a time or later, oldest first."""
        name = keys.archive_call(app_id)
        calls: list[ArchiveCall] = []
        # Redis names entries by its own clock, a moment after the call.
        start = str(max(0, at_ms - _CLOCKS_APART_MS))
        while True:
            entries = await self._server.execute_slow("XRANGE", name, start, "+", "COUNT", _PAGE)
            # Reports read many; the requests of this process must not wait for their parsing.
            calls += await asyncio.to_thread(_parse_calls, [pairs[1] for _, pairs in entries], name, at_ms)
            if len(entries) < _PAGE:
                return calls
            start = "(" + text_of(entries[-1][0])


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


def _parse_calls(sealed: Sequence[bytes], name: str, at_ms: int) -> list[ArchiveCall]:
    bodies = (unseal(value, salt_from_key(name)) for value in sealed)
    calls = (ArchiveCall.parse(body) for body in bodies if body is not None)
    return [call for call in calls if call is not None and call.at >= at_ms]

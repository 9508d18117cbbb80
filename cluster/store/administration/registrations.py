"""Registrations that clients changed or removed. All others are in their client ids and not stored.

At most `MOST_REGISTRATIONS` are stored, so a flood of changes has a bound. The least recently used one goes first;
its client id then has its original meaning again.
"""

from __future__ import annotations

from cluster.errors import Unavailable
from cluster.records.archive_client import Registration, short_id
from cluster.store import keys
from cluster.store.client.redis_client import RedisClient
from cluster.store.client.script import Script
from cluster.store.seals.quarantine import Quarantine
from cluster.store.seals.record_seal import SealedRecords, seal_record, with_unknown_fields

MOST_REGISTRATIONS = 10_000
_TRIES = 5

_CHANGE = Script.load("change_client")


class RegistrationStore:
    """Registrations that clients changed or removed."""

    def __init__(
        self, server: RedisClient, quarantine: Quarantine, *, most: int = MOST_REGISTRATIONS
    ) -> None:
        self._server = server
        self._records = SealedRecords(quarantine)
        self._most = most

    async def get(self, client_id: str) -> Registration | None:
        """Return a stored registration; None: the client id contains the registration."""
        field = short_id(client_id)
        sealed = await self._server.execute("HGET", keys.oauth_clients(), field)
        return None if sealed is None else await self._open(field, sealed)

    async def put(self, registration: Registration, *, now_ms: int) -> bool:
        """Write a change or a removal; return False when the client was removed before.

        Errors:
            Unavailable: too many concurrent changes of the registration
        """
        key, field = keys.oauth_clients(), short_id(registration.client_id)
        for _ in range(_TRIES):
            before = await self._server.execute_slow("HGET", key, field)
            known = None if before is None else await self._open(field, before)
            if known is not None and known.removed:
                return False
            expected = b"" if known is None else before
            after = registration if known is None else with_unknown_fields(registration, known)
            sealed = seal_record(after, key, field)
            args = [field, expected, sealed, now_ms, self._most]
            if await self._server.run(_CHANGE, [key, keys.oauth_clients_used()], args):
                return True
        raise Unavailable("this registration is being changed by many at once", retry_after_s=1)

    async def touch(self, client_id: str, *, now_ms: int) -> None:
        """Record that a client with a stored registration was used, so that it is not evicted first."""
        await self._server.execute_slow("ZADD", keys.oauth_clients_used(), "XX", now_ms, short_id(client_id))

    async def _open(self, field: str, sealed: bytes) -> Registration | None:
        return await self._records.get(Registration, "", keys.oauth_clients(), field, sealed)

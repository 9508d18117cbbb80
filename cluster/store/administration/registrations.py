"""Registrations that clients changed or removed. All others are in their client ids and not stored.

At most `MOST_REGISTRATIONS` are stored, so a flood of changes has a bound. The least recently used one goes first;
its client id then has its original meaning again.
"""

from __future__ import annotations

from cluster.errors import Unavailable
from cluster.records.archive.archive_client import Registration, short_id
from cluster.store import keys
from cluster.store.client.redis_client import RedisClient
from cluster.store.client.script import Script
from cluster.store.seals.quarantine import Quarantine
from cluster.store.seals.record_seal import with_unknown_fields
from cluster.store.seals.sealed_hash import SealedHash

MOST_REGISTRATIONS = 10_000
_TRIES = 5

_CHANGE = Script.load("change_client")


class RegistrationStore:
    """Registrations that clients changed or removed."""

    def __init__(
        self, server: RedisClient, quarantine: Quarantine, *, most: int = MOST_REGISTRATIONS
    ) -> None:
        self._server = server
        self._registrations = SealedHash(server, quarantine, Registration, lambda _: keys.oauth_clients())
        self._most = most

    async def get(self, client_id: str) -> Registration | None:
        """Return a stored registration; None: the client id contains the registration."""
        return await self._registrations.get("", short_id(client_id), hot=True)

    async def put(self, registration: Registration, *, now_ms: int) -> bool:
        """Write a change or a removal; return False when the client was removed before.

        Errors:
            Unavailable: too many concurrent changes of the registration
        """
        field = short_id(registration.client_id)
        names = [keys.oauth_clients(), keys.oauth_clients_used()]
        for _ in range(_TRIES):
            stored = await self._registrations.read("", field)
            before = None if stored is None else await self._registrations.unseal("", field, stored)
            if before is not None and before.removed:
                return False
            # A damaged record is in the quarantine by now: the script must find none.
            expected = b"" if stored is None or before is None else stored
            after = registration if before is None else with_unknown_fields(registration, before)
            sealed = self._registrations.seal("", field, after)
            if await self._server.run(_CHANGE, names, [field, expected, sealed, now_ms, self._most]):
                return True
        raise Unavailable("this registration is being changed by many at once", retry_after_s=1)

    async def touch(self, client_id: str, *, now_ms: int) -> None:
        """Record that a client with a stored registration was used, so that it is not evicted first."""
        await self._server.execute_slow("ZADD", keys.oauth_clients_used(), "XX", now_ms, short_id(client_id))

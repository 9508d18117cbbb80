"""Leases: exclusive rights to do a job, with an expiry."""

from __future__ import annotations

from dataclasses import dataclass

from cluster.store import keys
from cluster.store.client.redis_client import RedisClient
from cluster.store.client.replies import text_of
from cluster.store.client.script import Script

_HOLD = Script.load("hold")
_RELEASE = Script.load("release")


class LeaseStore:
    """Exclusive rights to do a job."""

    def __init__(self, server: RedisClient) -> None:
        self._server = server

    async def hold(self, name: str, owner: str, ttl_ms: int) -> bool:
        """Take or renew a lease; return False when another owner holds it."""
        return bool(await self._server.run(_HOLD, [keys.lease(name)], [owner, ttl_ms]))

    async def release(self, name: str, owner: str) -> None:
        await self._server.run(_RELEASE, [keys.lease(name)], [owner])


LEASES = ("intake", "engines", "trainer", "tracker")
"The leases that one process of the installation holds at every time."


@dataclass(frozen=True, slots=True)
class LeaseHolder:
    """Who holds a lease."""

    name: str
    owner: str
    "Empty when no process holds it."
    remaining_ms: int


class LeaseReader:
    """Reads who holds a lease; writes nothing."""

    def __init__(self, server: RedisClient) -> None:
        self._server = server

    async def read_lease(self, name: str) -> LeaseHolder:
        """Return who holds a lease, and for how long unless it is renewed."""
        owner = await self._server.execute_slow("GET", keys.lease(name))
        remaining = await self._server.execute_slow("PTTL", keys.lease(name))
        return LeaseHolder(name, "" if owner is None else text_of(owner), max(0, int(remaining)))

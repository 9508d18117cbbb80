"""Read the processes of an installation from Redis: leases held."""

from __future__ import annotations

from dataclasses import dataclass

from cluster.store import keys
from cluster.store.redis.client import RedisClient
from cluster.store.redis.multiplexer import text_of

LEASES = ("intake", "engines", "trainer", "tracker")
"The leases that one process of the installation holds at every time."


@dataclass(frozen=True, slots=True)
class LeaseHolder:
    """Who holds a lease."""

    name: str
    owner: str
    "Empty when no process holds it."
    remaining_ms: int


class RedisClusterOverview:
    """Reads it all; writes nothing."""

    def __init__(self, server: RedisClient) -> None:
        self._server = server

    async def read_lease(self, name: str) -> LeaseHolder:
        """Return who holds a lease, and for how long unless it is renewed."""
        owner = await self._server.execute_slow("GET", keys.lease(name))
        remaining = await self._server.execute_slow("PTTL", keys.lease(name))
        return LeaseHolder(name, "" if owner is None else text_of(owner), max(0, int(remaining)))

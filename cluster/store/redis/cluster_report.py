"""Read the processes of an installation from Redis: leases held, and followers of the change log."""

from __future__ import annotations

from dataclasses import dataclass

import orjson

from cluster.store import keys
from cluster.store.redis.client import RedisClient
from cluster.store.redis.multiplexer import text_of

LEASES = ("intake", "engines", "trainer", "tracker")
"The leases that one process of the installation holds at every time."
FOLLOWING_MS = 60_000
"A follower that was silent for longer has ended."


@dataclass(frozen=True, slots=True)
class LeaseHolder:
    """Who holds a lease."""

    name: str
    owner: str
    "Empty when no process holds it."
    remaining_ms: int


@dataclass(frozen=True, slots=True)
class Follower:
    """A process that follows the change log of an app."""

    name: str
    at_ms: int
    "When the follower last recorded its offsets."
    offsets: dict[str, str]


class RedisClusterOverview:
    """Reads it all; writes nothing."""

    def __init__(self, server: RedisClient) -> None:
        self._server = server

    async def read_lease(self, name: str) -> LeaseHolder:
        """Return who holds a lease, and for how long unless it is renewed."""
        owner = await self._server.execute_slow("GET", keys.lease(name))
        remaining = await self._server.execute_slow("PTTL", keys.lease(name))
        return LeaseHolder(name, "" if owner is None else text_of(owner), max(0, int(remaining)))

    async def list_followers(self, app_id: str) -> list[Follower]:
        """Return the followers of an app by name, those that ended too; damaged entries are left out."""
        flat = await self._server.execute_slow("HGETALL", keys.follower(app_id))
        found = []
        for name, value in zip(flat[::2], flat[1::2], strict=True):
            try:
                told = orjson.loads(value)
                offsets = {noun: str(offset) for noun, offset in told.items() if noun != "at"}
                found.append(Follower(text_of(name), int(told["at"]), offsets))
            except (ValueError, KeyError, TypeError, AttributeError):
                continue
        return sorted(found, key=lambda one: one.name)

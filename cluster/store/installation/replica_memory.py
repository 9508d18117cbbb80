"""What the loaded apps of each API replica take of its memory budget, for `kiosk status` and `kiosk doctor`."""

from __future__ import annotations

from dataclasses import asdict

import orjson

from cluster.records.replica_memory import ReplicaMemory
from cluster.store import keys
from cluster.store.client.redis_client import RedisClient
from cluster.store.client.replies import split_pairs, text_of

SEEN_MS = 30_000
"A replica that reported nothing for so long does not run."
FORGOTTEN_MS = 30 * 60_000


class ReplicaMemoryStore:
    """The reports of all API replicas."""

    def __init__(self, server: RedisClient) -> None:
        self._server = server

    async def record(self, memory: ReplicaMemory) -> None:
        """Replace the report of a replica."""
        value = orjson.dumps(asdict(memory))
        await self._server.execute_slow("HSET", keys.replica_memory(), memory.replica, value)

    async def delete(self, replica: str) -> None:
        """Remove the report of a replica that stops."""
        await self._server.execute_slow("HDEL", keys.replica_memory(), replica)

    async def read(self, now_ms: int) -> list[ReplicaMemory]:
        """Return the reports of the replicas that run, by name; old ones are removed."""
        flat = await self._server.execute_slow("HGETALL", keys.replica_memory())
        reports = []
        for name, value in split_pairs(flat):
            memory = ReplicaMemory(**orjson.loads(value))
            # The clock of a replica may be ahead of this one.
            if abs(now_ms - memory.at_ms) <= SEEN_MS:
                reports.append(memory)
            elif now_ms - memory.at_ms > FORGOTTEN_MS:
                await self.delete(text_of(name))
        return sorted(reports, key=lambda memory: memory.replica)

"""What the loaded apps of each API replica take of its memory budget, for `kiosk status` and `kiosk doctor`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import orjson

from cluster.records.json_row import JsonRow
from cluster.store import keys
from cluster.store.client.redis_client import RedisClient
from cluster.store.client.replies import split_pairs, text_of

ABOVE_BUDGET_MB = 256
"""MiB that Ray reserves for a full replica above its empty process and its budget. The budget bounds an estimate of the
apps' arrays; the process also has the state that a renewal loads beside the old one, and memory that the allocator
returns late. Measured: 983 to 1,093 MiB resident with 13 apps of 20,000 products and a budget of 512."""
SEEN_MS = 30_000
"A replica that reported nothing for so long does not run."
FORGOTTEN_MS = 30 * 60_000


@dataclass(frozen=True, slots=True)
class ReplicaMemory(JsonRow):
    """The memory of one API replica."""

    replica: str
    at_ms: int
    budget_bytes: int
    counted_bytes: int
    "Estimate for all loaded engines and archives."
    apps: int
    large_apps: Mapping[str, int] = field(default_factory=dict)
    "App -> bytes, of apps that alone take more than the budget."
    reloads: Mapping[str, int] = field(default_factory=dict)
    "App -> loads in the last ten minutes that followed an unloading within ten minutes."


class ReplicaMemoryStore:
    """The reports of all API replicas."""

    def __init__(self, server: RedisClient) -> None:
        self._server = server

    async def record(self, memory: ReplicaMemory) -> None:
        """Replace the report of a replica."""
        value = orjson.dumps(memory.to_dict())
        await self._server.execute_slow("HSET", keys.replica_memory(), memory.replica, value)

    async def delete(self, replica: str) -> None:
        """Remove the report of a replica that stops."""
        await self._server.execute_slow("HDEL", keys.replica_memory(), replica)

    async def read(self, now_ms: int) -> list[ReplicaMemory]:
        """Return the reports of the replicas that run, by name; old ones are removed."""
        flat = await self._server.execute_slow("HGETALL", keys.replica_memory())
        reports = []
        for name, value in split_pairs(flat):
            memory = ReplicaMemory.from_dict(orjson.loads(value))
            if memory is None:
                continue
            # The clock of a replica may be ahead of this one.
            if abs(now_ms - memory.at_ms) <= SEEN_MS:
                reports.append(memory)
            elif now_ms - memory.at_ms > FORGOTTEN_MS:
                await self.delete(text_of(name))
        return sorted(reports, key=lambda memory: memory.replica)

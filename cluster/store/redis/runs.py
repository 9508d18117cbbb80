"""Runs of an app: one hash, their revisions, an index by time, and the set of open runs."""

from __future__ import annotations

from collections.abc import Sequence

from cluster.records.run import Run
from cluster.store import keys
from cluster.store.redis.client import RedisClient
from cluster.store.redis.multiplexer import name_of
from cluster.store.redis.quarantine import Quarantine
from cluster.store.redis.record_seal import SealedRecords, seal_record
from cluster.store.redis.script import Script

MOST_KEPT = 500
"Runs stored for each app; the oldest ended ones are deleted first."

_SWAP = Script.load("swap_run")


class RedisRuns:
    """`RunStore` over Redis."""

    def __init__(self, server: RedisClient, quarantine: Quarantine) -> None:
        self._server = server
        self._records = SealedRecords(quarantine)

    async def get(self, app_id: str, run_id: str) -> Run | None:
        key = keys.run(app_id)
        sealed: bytes | None = await self._server.execute_slow("HGET", key, run_id)
        return None if sealed is None else await self._records.get(Run, app_id, key, run_id, sealed)

    async def compare_and_set(self, run: Run) -> Run | None:
        app_id, run_id = run.app_id, run.run_id
        after = run.model_copy(update={"revision": run.revision + 1})
        sealed = seal_record(after, keys.run(app_id), run_id)
        names = [keys.run(app_id), keys.run_revision(app_id), keys.run_ids(app_id), keys.run_open(app_id)]
        args: list[str | int | bytes] = [
            run_id, run.revision, sealed, run.created_at, int(not run.has_ended), MOST_KEPT,
        ]  # fmt: skip
        return after if await self._server.run(_SWAP, names, args) else None

    async def newest(self, app_id: str, limit: int = 50) -> list[Run]:
        members = await self._server.execute_slow("ZREVRANGE", keys.run_ids(app_id), 0, limit - 1)
        return await self._many(app_id, [name_of(member) for member in members])

    async def open(self, app_id: str) -> list[Run]:
        members = await self._server.execute_slow("SMEMBERS", keys.run_open(app_id))
        found = await self._many(app_id, sorted(name_of(member) for member in members))
        return sorted(found, key=lambda run: (run.created_at, run.run_id))

    async def _many(self, app_id: str, run_ids: Sequence[str]) -> list[Run]:
        if not run_ids:
            return []
        key = keys.run(app_id)
        bodies = await self._server.execute_slow("HMGET", key, *run_ids)
        found = []
        for run_id, sealed in zip(run_ids, bodies, strict=True):
            run = None if sealed is None else await self._records.open(Run, app_id, key, run_id, sealed)
            if run is not None:
                found.append(run)
        return found

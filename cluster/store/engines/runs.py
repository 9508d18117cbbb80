"""Runs of an app: one hash, their revisions, an index by time, and the set of open runs."""

from __future__ import annotations

from collections.abc import Sequence

from cluster.records.run import Run, Schedule
from cluster.store import keys
from cluster.store.client.multiplexer import name_of
from cluster.store.client.redis_client import RedisClient
from cluster.store.client.script import Script
from cluster.store.seals.quarantine import Quarantine
from cluster.store.seals.record_seal import SealedRecords, seal_record

MOST_KEPT = 500
"Runs stored for each app; the oldest ended ones are deleted first."

_SWAP = Script.load("swap_run")


class RunStore:
    """Training runs and their progress (`cluster.records.run` defines the steps)."""

    def __init__(self, server: RedisClient, quarantine: Quarantine) -> None:
        self._server = server
        self._records = SealedRecords(quarantine)

    async def get(self, app_id: str, run_id: str) -> Run | None:
        key = keys.run(app_id)
        sealed: bytes | None = await self._server.execute_slow("HGET", key, run_id)
        return None if sealed is None else await self._records.get(Run, app_id, key, run_id, sealed)

    async def compare_and_set(self, run: Run) -> Run | None:
        """Write a run if its stored revision is unchanged (0: none is stored), and return it with the next
        revision; else write nothing and return None. This is the only way to write runs."""
        app_id, run_id = run.app_id, run.run_id
        after = run.model_copy(update={"revision": run.revision + 1})
        sealed = seal_record(after, keys.run(app_id), run_id)
        names = [keys.run(app_id), keys.run_revision(app_id), keys.run_ids(app_id), keys.run_open(app_id)]
        args: list[str | int | bytes] = [
            run_id, run.revision, sealed, run.created_at, int(not run.has_ended), MOST_KEPT,
        ]  # fmt: skip
        return after if await self._server.run(_SWAP, names, args) else None

    async def newest(self, app_id: str, limit: int = 50) -> list[Run]:
        """Return the newest runs, newest first."""
        members = await self._server.execute_slow("ZREVRANGE", keys.run_ids(app_id), 0, limit - 1)
        return await self._many(app_id, [name_of(member) for member in members])

    async def open(self, app_id: str) -> list[Run]:
        """Return the runs that have not ended, oldest first."""
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


class ScheduleStore:
    """The schedules of automatic training runs."""

    def __init__(self, server: RedisClient, quarantine: Quarantine) -> None:
        self._server = server
        self._records = SealedRecords(quarantine)

    async def put(self, schedule: Schedule) -> None:
        key = keys.schedule(schedule.app_id)
        stored: bytes | None = await self._server.execute_slow("HGET", key, schedule.name)
        schedule = await self._records.replacing(schedule, schedule.app_id, key, schedule.name, stored)
        await self._server.execute_slow("HSET", key, schedule.name, seal_record(schedule, key, schedule.name))

    async def remove(self, app_id: str, name: str) -> bool:
        """Remove a schedule; return False when it was absent."""
        return bool(await self._server.execute_slow("HDEL", keys.schedule(app_id), name))

    async def all(self, app_id: str) -> list[Schedule]:
        key = keys.schedule(app_id)
        flat = await self._server.execute_slow("HGETALL", key)
        found = []
        for field, sealed in sorted(zip(flat[::2], flat[1::2], strict=True)):
            schedule = await self._records.open(Schedule, app_id, key, name_of(field), sealed)
            if schedule is not None:
                found.append(schedule)
        return found

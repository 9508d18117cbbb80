"""Runs of an app: one hash, their revisions, an index by time, and the set of open runs."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from cluster.records.run import Run, Schedule
from cluster.store import keys
from cluster.store.client.redis_client import RedisClient
from cluster.store.client.replies import name_of
from cluster.store.client.script import Script
from cluster.store.seals.quarantine import Quarantine
from cluster.store.seals.sealed_hash import SealedHash

MOST_KEPT = 500
"Runs stored for each app; the oldest ended ones are deleted first."

_SWAP = Script.load("swap_run")


class RunStore:
    """Training runs and their progress (`cluster.records.run` defines the steps)."""

    def __init__(self, server: RedisClient, quarantine: Quarantine) -> None:
        self._server = server
        self._runs = SealedHash(server, quarantine, Run, keys.run)

    async def get(self, app_id: str, run_id: str) -> Run | None:
        return await self._runs.get(app_id, run_id)

    async def compare_and_set(self, run: Run) -> Run | None:
        """Write a run if its stored revision is unchanged (0: none is stored), and return it with the next
        revision; else write nothing and return None. This is the only way to write runs."""
        app_id = run.app_id
        run_id = run.run_id
        after = run.model_copy(update={"revision": run.revision + 1})
        sealed = self._runs.seal(app_id, run_id, after)
        names = [keys.run(app_id), keys.run_revision(app_id), keys.run_ids(app_id), keys.run_open(app_id)]
        args: list[str | int | bytes] = [
            run_id,
            run.revision,
            sealed,
            run.created_at,
            int(not run.has_ended),
            MOST_KEPT,
        ]
        return after if await self._server.run(_SWAP, names, args) else None

    async def newest(self, app_id: str, limit: int = 50) -> list[Run]:
        """Return the newest runs, newest first."""
        members = await self._server.execute_slow("ZREVRANGE", keys.run_ids(app_id), 0, limit - 1)
        return await self._many(app_id, [name_of(member) for member in members])

    async def list_open(self, app_id: str) -> list[Run]:
        """Return the runs that have not ended, oldest first."""
        members = await self._server.execute_slow("SMEMBERS", keys.run_open(app_id))
        runs = await self._many(app_id, [name_of(member) for member in members])
        return sorted(runs, key=lambda run: (run.created_at, run.run_id))

    async def _many(self, app_id: str, run_ids: Sequence[str]) -> list[Run]:
        if not run_ids:
            return []
        runs = await self._runs.get_many(app_id, run_ids)
        return [run for run in runs if run is not None]


class ScheduleStore:
    """The schedules of automatic training runs."""

    def __init__(self, server: RedisClient, quarantine: Quarantine) -> None:
        self._schedules = SealedHash(server, quarantine, Schedule, keys.schedule)

    async def add(self, schedule: Schedule) -> bool:
        """Write a schedule whose name is free; return False when it is taken."""
        return await self._schedules.add(schedule.app_id, schedule.name, schedule)

    async def update(self, app_id: str, name: str, change: Callable[[Schedule], Schedule]) -> Schedule | None:
        """Replace a schedule by what `change` makes of it, and return it; None when it is absent.

        Of concurrent changes none is lost: `change` is called again with what the other one wrote.
        """
        return await self._schedules.update(app_id, name, change)

    async def remove(self, app_id: str, name: str) -> bool:
        """Remove a schedule; return False when it was absent."""
        return bool(await self._schedules.remove(app_id, [name]))

    async def all(self, app_id: str) -> list[Schedule]:
        return list((await self._schedules.all(app_id)).values())

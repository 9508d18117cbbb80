"""Bounds of an app on records, storage, engines and trainings; 0 is no bound and asks no store.

Each check reads the state of this moment. Two callers at the same moment may pass a bound together, by what they add.
The fact `bound` of an error names the bound.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Iterable

from cluster.clock import Clock
from cluster.errors import Conflict, Forbidden
from cluster.records.apps import App, AppSettings
from cluster.records.intake import Noun
from cluster.store import keys
from cluster.store.client.redis_client import RedisClient
from cluster.store.data.records import RecordStore
from cluster.store.engines.engines import EngineStore
from cluster.store.engines.runs import RunStore
from cluster.store.refreshing_cache import RefreshingCache

MEASURE_KEEP_S = 30.0
"Largest age of a cached measurement of storage, in seconds."


async def check_new_records(records: RecordStore, app: App, noun: Noun, record_ids: Iterable[str]) -> None:
    """Check that the records of an upload fit into the app; updates of existing records always fit.

    Errors:
        Forbidden: the app would hold more users and products than its bound
    Cost:
        two counts; near the bound also a read of the records of the upload
    """
    most = app.settings.max_records
    if not most:
        return
    users, products = await asyncio.gather(
        records.count(app.app_id, "user"), records.count(app.app_id, "product")
    )
    stored = users + products
    # An id that comes twice in an upload is one record.
    named = list(dict.fromkeys(record_ids))
    # Counts decide nearly always; the records themselves are read only near the bound.
    if stored + len(named) <= most:
        return
    new = (await records.get_many(app.app_id, noun, named)).count(None)
    if new and stored + new > most:
        raise Forbidden(
            f"the app holds {stored} of at most {most} records, and {new} more do not fit; "
            "delete some or ask the administrator",
            bound="max_records",
        )


def check_stored_bytes(app: App, size: int) -> None:
    """Check that an app's measured storage is below its bound.

    Errors:
        Forbidden: it is not
    """
    most = app.settings.max_storage_mb
    if most and size >= most << 20:
        raise Forbidden(
            f"the app stores {size >> 20} of at most {most} MB; delete some data or ask the administrator",
            bound="max_storage_mb",
        )


class StorageBounds:
    """Checks the bound on storage at each write of an API replica."""

    def __init__(self, usage: UsageStore, clock: Clock) -> None:
        self._clock = clock
        self._cache = RefreshingCache[int](
            lambda app_id, _: usage.stored_bytes(app_id), clock, keep_s=MEASURE_KEEP_S
        )
        self._passed: dict[str, tuple[AppSettings, float]] = {}
        "App -> the settings with which it passed the check, and until when that holds, in seconds of the clock."

    def has_valid_check(self, app: App, now_s: float) -> bool:
        """Return whether an app passed the check with these settings, and its measurement is not too old.

        Units:
            now_s: seconds of the clock
        """
        passed = self._passed.get(app.app_id)
        # `is`: changed settings are another object, so a new bound counts at once.
        return passed is not None and passed[0] is app.settings and now_s < passed[1]

    async def check(self, app: App) -> None:
        """Check that an app may store more.

        Errors:
            Forbidden: the app's storage reached its bound
            Unavailable: the store is unreachable and was never read
        """
        until_s = math.inf
        if app.settings.max_storage_mb:
            check_stored_bytes(app, await self._cache.read(app.app_id))
            until_s = self._clock.monotonic_s() + MEASURE_KEEP_S - self._cache.age_s(app.app_id)
        self._passed[app.app_id] = app.settings, until_s


async def check_new_engine(engines: EngineStore, app: App, engine_id: str) -> None:
    """Check that an app may have one more engine.

    Errors:
        Conflict: it has as many as its bound
    """
    most = app.settings.max_engines
    if not most:
        return
    there = [engine.engine_id for engine in await engines.all(app.app_id)]
    if len(there) >= most and engine_id not in there:
        raise Conflict(
            f"{app.app_id} has {len(there)} of at most {most} engines; delete one with `kiosk engines delete` "
            f"or raise the bound: kiosk apps switch {app.app_id} max_engines={most + 1}",
            bound="max_engines",
        )


async def check_new_training(runs: RunStore, usage: UsageStore, app: App) -> None:
    """Check that an app may have one more queued or running training and store its result.

    Errors:
        Conflict: it has as many as its bound
        Forbidden: the app's storage reached its bound
    """
    most = app.settings.max_trainings
    if most:
        there = len(await runs.list_open(app.app_id))
        if there >= most:
            raise Conflict(
                f"{app.app_id} has {there} of at most {most} trainings queued or running; wait for one to end, "
                "or cancel one with `kiosk runs cancel`",
                bound="max_trainings",
            )
    if app.settings.max_storage_mb:
        check_stored_bytes(app, await usage.stored_bytes(app.app_id))


class UsageStore:
    """Bytes of each app in the artifact store, as the intake measured them last."""

    def __init__(self, server: RedisClient) -> None:
        self._server = server

    async def set_stored_bytes(self, app_id: str, size: int) -> None:
        await self._server.execute_slow("SET", keys.stored_bytes(app_id), size)

    async def stored_bytes(self, app_id: str) -> int:
        """Return the bytes that the intake measured last; 0 before the first measurement."""
        return int(await self._server.execute_slow("GET", keys.stored_bytes(app_id)) or 0)

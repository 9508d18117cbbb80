"""Loads the engines in use before a new replica takes requests, so that no request waits for the load."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence

import structlog

from actors.recommender.messages import UserQuery
from actors.serving.client import RecommenderClient
from cluster.clock import Clock
from cluster.deadline import run_within
from cluster.errors import KioskError, Unavailable
from cluster.ids import DEFAULT_ENGINE
from cluster.store.stores import Stores

LATELY_MS = 10 * 60_000
WITHIN_S = 10.0
"Seconds to wait in any case; what is not loaded by then loads on the first query."
WHILE_OTHERS_S = 120.0
"Seconds to wait while other replicas answer: a replica that opens too early makes some requests wait."
RETRY_S = 0.5
EVERY_S = 2.0
MOST_WATCHED = 16
"Apps that a replica checks for writes; with more apps, requests load the others."

_log = structlog.get_logger()


async def load_busy_engines(
    stores: Stores,
    client: RecommenderClient,
    clock: Clock,
    *,
    within_s: float = WITHIN_S,
    while_others_s: float = WHILE_OTHERS_S,
    retry_s: float = RETRY_S,
) -> int:
    """Send a small query to every recently queried engine, the busiest first; return how many answered.

    An engine that refuses the query is loaded; it is not asked again.
    """
    begun_s = clock.monotonic_s()
    begun_ms = clock.now_ms()
    warm = 0
    try:
        busy_engines = await _recently_queried(stores, clock)
        for app_id, engine_id in busy_engines:
            query = UserQuery(kind="user_to_trending", app_id=app_id, engine_id=engine_id, rows=1)
            limit_s = within_s
            while (left_s := limit_s - (clock.monotonic_s() - begun_s)) > 0:
                try:
                    await run_within(client.answer(query), min(left_s, within_s))
                    warm += 1
                    break
                except (Unavailable, asyncio.TimeoutError):
                    pass
                except KioskError:
                    break
                # No other replica answers for this engine, so its requests need this replica now, loaded or
                # not.
                if not await _is_answered_elsewhere(stores, clock, app_id, engine_id, begun_ms):
                    break
                limit_s = while_others_s
                await asyncio.sleep(retry_s)
        took_ms = round((clock.monotonic_s() - begun_s) * 1000)
        _log.info("replica_warmed", engines=warm, wanted=len(busy_engines), took_ms=took_ms)
    except KioskError as error:
        _log.warning("replica_not_warmed", reason=error.message)
    return warm


async def preload_newly_written_apps(
    stores: Stores,
    client: RecommenderClient,
    app_ids: Callable[[], Sequence[str]],
    *,
    every_s: float = EVERY_S,
) -> None:
    """Load each app once when its products are written while this replica runs; never return.

    So the first search after a first upload does not wait for the load.

    Cost:
        one read of the store for each app that is not loaded, every two seconds, for 16 apps at most
    """
    begun: dict[str, str] = {}
    loaded: set[str] = set()
    while True:
        try:
            for app_id in [candidate for candidate in app_ids() if candidate not in loaded][:MOST_WATCHED]:
                offset = await stores.changes.last(app_id, "product")
                # Later than at the first look means that products were written since.
                if offset == begun.setdefault(app_id, offset):
                    continue
                query = UserQuery(kind="user_to_trending", app_id=app_id, engine_id=DEFAULT_ENGINE, rows=1)
                if await _is_answering(client, query, WITHIN_S):
                    loaded.add(app_id)
                    _log.info("app_loaded_ahead", app=app_id)
        except KioskError as error:
            _log.debug("apps_not_watched", reason=error.message)
        except Exception:  # noqa: BLE001 - a loop goes on; whatever is not loaded ahead loads when it is asked for
            _log.exception("app_not_loaded_ahead")
        await asyncio.sleep(every_s)


async def _is_answering(client: RecommenderClient, query: UserQuery, within_s: float) -> bool:
    try:
        await run_within(client.answer(query), within_s)
    except (KioskError, asyncio.TimeoutError):
        return False
    return True


async def _is_answered_elsewhere(
    stores: Stores, clock: Clock, app_id: str, engine_id: str, since_ms: int
) -> bool:
    """Return whether API replicas queried the engine since a time: then another replica answers."""
    engine_traffic = (await stores.engine_activity.read_traffic(app_id, clock.now_ms())).get(
        ("door", engine_id)
    )
    return engine_traffic is not None and engine_traffic.last_ms > since_ms


async def _recently_queried(stores: Stores, clock: Clock) -> list[tuple[str, str]]:
    now_ms = clock.now_ms()
    busy: dict[tuple[str, str], float] = {}
    for app_id in (await stores.access.read_all()).apps:
        for (_, engine_id), engine_traffic in (
            await stores.engine_activity.read_traffic(app_id, now_ms)
        ).items():
            if now_ms - engine_traffic.last_ms < LATELY_MS:
                busy[app_id, engine_id] = busy.get((app_id, engine_id), 0.0) + engine_traffic.per_s
    return sorted(busy, key=lambda name: -busy[name])

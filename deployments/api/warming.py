"""A new replica loads what is being asked before it takes its first request, so that nobody waits for that."""

from __future__ import annotations

import asyncio

import structlog

from actors.recommender.client import RecommenderClient
from actors.recommender.messages import ReaderQuery
from cluster.clock import Clock
from cluster.errors import HouseError
from cluster.store.ports import Stores

LATELY_MS = 10 * 60_000
WITHIN_S = 10.0
"A replica that is late helps nobody; what is not loaded by then loads when it is asked for."

_log = structlog.get_logger()


async def warm_up(
    stores: Stores, client: RecommenderClient, clock: Clock, *, within_s: float = WITHIN_S
) -> int:
    """Ask every engine that was asked lately something small, the busiest first; return how many answered."""
    begun_s, warm = clock.monotonic_s(), 0
    try:
        wanted = await _asked_lately(stores, clock)
        for app_id, engine_id in wanted:
            left_s = within_s - (clock.monotonic_s() - begun_s)
            if left_s <= 0:
                break
            query = ReaderQuery(kind="user_to_trending", app_id=app_id, engine_id=engine_id, rows=1)
            try:
                await asyncio.wait_for(client.answer(query), left_s)
                warm += 1
            except (HouseError, asyncio.TimeoutError):
                continue
        took_ms = round((clock.monotonic_s() - begun_s) * 1000)
        _log.info("replica_warmed", engines=warm, wanted=len(wanted), took_ms=took_ms)
    except HouseError as error:
        _log.warning("replica_not_warmed", reason=error.message)
    return warm


async def _asked_lately(stores: Stores, clock: Clock) -> list[tuple[str, str]]:
    now_ms = clock.now_ms()
    busy: dict[tuple[str, str], float] = {}
    for app_id in (await stores.access.book()).apps:
        for (_, engine_id), asked in (await stores.engine_watch.asked(app_id, now_ms)).items():
            if now_ms - asked.last_ms < LATELY_MS:
                busy[app_id, engine_id] = busy.get((app_id, engine_id), 0.0) + asked.per_s
    return sorted(busy, key=lambda name: -busy[name])

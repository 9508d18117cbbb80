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
"So long it waits in any case; what is not loaded by then loads when it is asked for."
WHILE_OTHERS_S = 120.0
"So long it waits while others answer: a replica that opens before it is loaded makes a part of the requests wait."

_log = structlog.get_logger()


async def warm_up(
    stores: Stores,
    client: RecommenderClient,
    clock: Clock,
    *,
    within_s: float = WITHIN_S,
    while_others_s: float = WHILE_OTHERS_S,
) -> int:
    """Ask every engine that was asked lately something small, the busiest first; return how many answered."""
    begun_s, begun_ms, warm = clock.monotonic_s(), clock.now_ms(), 0
    try:
        wanted = await _asked_lately(stores, clock)
        for app_id, engine_id in wanted:
            query = ReaderQuery(kind="user_to_trending", app_id=app_id, engine_id=engine_id, rows=1)
            limit_s = within_s
            while (left_s := limit_s - (clock.monotonic_s() - begun_s)) > 0:
                if await _answers(client, query, min(left_s, within_s)):
                    warm += 1
                    break
                if not await _others_answer(stores, clock, app_id, engine_id, begun_ms):
                    break
                limit_s = while_others_s
        took_ms = round((clock.monotonic_s() - begun_s) * 1000)
        _log.info("replica_warmed", engines=warm, wanted=len(wanted), took_ms=took_ms)
    except HouseError as error:
        _log.warning("replica_not_warmed", reason=error.message)
    return warm


async def _answers(client: RecommenderClient, query: ReaderQuery, within_s: float) -> bool:
    try:
        await asyncio.wait_for(client.answer(query), within_s)
    except (HouseError, asyncio.TimeoutError):
        return False
    return True


async def _others_answer(stores: Stores, clock: Clock, app_id: str, engine_id: str, since_ms: int) -> bool:
    """Was the engine asked in the doors since a moment? Then another replica answers."""
    asked = (await stores.engine_watch.asked(app_id, clock.now_ms())).get(("door", engine_id))
    return asked is not None and asked.last_ms > since_ms


async def _asked_lately(stores: Stores, clock: Clock) -> list[tuple[str, str]]:
    now_ms = clock.now_ms()
    busy: dict[tuple[str, str], float] = {}
    for app_id in (await stores.access.book()).apps:
        for (_, engine_id), asked in (await stores.engine_watch.asked(app_id, now_ms)).items():
            if now_ms - asked.last_ms < LATELY_MS:
                busy[app_id, engine_id] = busy.get((app_id, engine_id), 0.0) + asked.per_s
    return sorted(busy, key=lambda name: -busy[name])

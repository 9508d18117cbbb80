"""Observations of serving engines: request rates, and the state of dedicated deployments."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from pydantic import ValidationError

from cluster.records.engine import EngineStatus, Placement
from cluster.store import keys
from cluster.store.client.redis_client import RedisClient
from cluster.store.client.replies import split_pairs, text_of
from cluster.store.client.script import Script


@dataclass(frozen=True, slots=True)
class EngineTraffic:
    """The requests to an engine in one of its placements."""

    per_s: float
    "Over the last minute."
    last_ms: int


MINUTE_MS = 60_000
DAY_MS = 86_400_000
FAILURES_MS = 30 * DAY_MS

_COUNT = Script.load("count_asked")
_PLACES: tuple[Placement, ...] = ("door", "own")


def estimate_rate(before: int, now: int, now_ms: int) -> float:
    """Estimate requests per second over the last minute from the counts of the last and of this minute."""
    passed = now_ms % MINUTE_MS / MINUTE_MS
    # The last minute counts by the part of it that lies within 60 s of now.
    return (before * (1 - passed) + now) * 1000 / MINUTE_MS


class EngineActivityStore:
    """Traffic and status of engines while they serve; may be lost at any time."""

    def __init__(self, server: RedisClient) -> None:
        self._server = server

    async def add_requests(
        self, app_id: str, requests: Mapping[tuple[Placement, str], int], now_ms: int
    ) -> None:
        """Add requests by placement and engine id."""
        names = [keys.engine_request_count(app_id, now_ms // MINUTE_MS), keys.engine_last_request(app_id)]
        counts: list[str | int] = []
        for (place, engine_id), count in requests.items():
            counts += [f"{place}:{engine_id}", count]
        await self._server.run(_COUNT, names, [3 * MINUTE_MS, DAY_MS, now_ms, *counts])

    async def read_traffic(self, app_id: str, now_ms: int) -> dict[tuple[Placement, str], EngineTraffic]:
        """Return the recent traffic of each engine in each of its placements."""
        minute = now_ms // MINUTE_MS
        before = await self._numbers(keys.engine_request_count(app_id, minute - 1))
        now = await self._numbers(keys.engine_request_count(app_id, minute))
        by_engine: dict[tuple[Placement, str], EngineTraffic] = {}
        for name, last_ms in (await self._numbers(keys.engine_last_request(app_id))).items():
            word, _, engine_id = name.partition(":")
            for place in _PLACES:
                if place == word:
                    per_s = estimate_rate(before.get(name, 0), now.get(name, 0), now_ms)
                    by_engine[place, engine_id] = EngineTraffic(per_s, last_ms)
        return by_engine

    async def add_failures(self, app_id: str, trial_id: str, version: str, count: int) -> None:
        """Count answers of a version that failed in a trial of snapshots."""
        key = keys.trial_failures(app_id, trial_id)
        await self._server.execute_slow("HINCRBY", key, version, count)
        await self._server.execute_slow("PEXPIRE", key, FAILURES_MS)

    async def read_failures(self, app_id: str, trial_id: str) -> dict[str, int]:
        """Return version -> failed answers of a trial."""
        return await self._numbers(keys.trial_failures(app_id, trial_id))

    async def record(self, status: EngineStatus) -> None:
        key = keys.engine_status(status.app_id)
        await self._server.execute_slow("HSET", key, status.engine_id, status.model_dump_json().encode())

    async def list_statuses(self, app_id: str) -> dict[str, EngineStatus]:
        flat = await self._server.execute_slow("HGETALL", keys.engine_status(app_id))
        statuses = {}
        for name, body in split_pairs(flat):
            try:
                statuses[text_of(name)] = EngineStatus.model_validate_json(body)
            except ValidationError:
                # the next round of the engine operator writes the value again
                continue
        return statuses

    async def delete(self, app_id: str, engine_id: str) -> None:
        """Delete the status of an engine without a deployment."""
        await self._server.execute_slow("HDEL", keys.engine_status(app_id), engine_id)

    async def _numbers(self, key: str) -> dict[str, int]:
        flat = await self._server.execute_slow("HGETALL", key)
        return {text_of(name): int(count) for name, count in split_pairs(flat)}

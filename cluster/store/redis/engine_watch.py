"""What is seen of engines while they serve: how much they are asked, how their own deployments are."""

from __future__ import annotations

from collections.abc import Mapping

from pydantic import ValidationError

from cluster.records.engine import EngineStatus, Placement
from cluster.store import keys
from cluster.store.ports.stores import Asked
from cluster.store.redis.client import Server
from cluster.store.redis.multiplexer import text_of
from cluster.store.redis.script import Script

MINUTE_MS = 60_000
DAY_MS = 86_400_000

_COUNT = Script.load("count_asked")
_PLACES: tuple[Placement, ...] = ("door", "own")


def rate(before: int, now: int, now_ms: int) -> float:
    """Estimate requests a second over the last minute from the counts of the last and of this minute."""
    passed = now_ms % MINUTE_MS / MINUTE_MS
    return (before * (1 - passed) + now) * 1000 / MINUTE_MS


class RedisEngineWatch:
    """`EngineWatch` over Redis."""

    def __init__(self, server: Server) -> None:
        self._server = server

    async def count(self, app_id: str, asked: Mapping[tuple[Placement, str], int], now_ms: int) -> None:
        names = [keys.engine_asked(app_id, now_ms // MINUTE_MS), keys.engine_asked_last(app_id)]
        counts: list[str | int] = []
        for (place, engine_id), count in asked.items():
            counts += [f"{place}:{engine_id}", count]
        await self._server.run(_COUNT, names, [3 * MINUTE_MS, DAY_MS, now_ms, *counts])

    async def asked(self, app_id: str, now_ms: int) -> dict[tuple[Placement, str], Asked]:
        minute = now_ms // MINUTE_MS
        before = await self._numbers(keys.engine_asked(app_id, minute - 1))
        now = await self._numbers(keys.engine_asked(app_id, minute))
        found: dict[tuple[Placement, str], Asked] = {}
        for name, last_ms in (await self._numbers(keys.engine_asked_last(app_id))).items():
            word, _, engine_id = name.partition(":")
            for place in _PLACES:
                if place == word:
                    per_s = rate(before.get(name, 0), now.get(name, 0), now_ms)
                    found[place, engine_id] = Asked(per_s, last_ms)
        return found

    async def note(self, status: EngineStatus) -> None:
        key = keys.engine_status(status.app_id)
        await self._server.ask_slow("HSET", key, status.engine_id, status.model_dump_json().encode())

    async def statuses(self, app_id: str) -> dict[str, EngineStatus]:
        flat = await self._server.ask_slow("HGETALL", keys.engine_status(app_id))
        found = {}
        for name, body in zip(flat[::2], flat[1::2], strict=True):
            try:
                found[text_of(name)] = EngineStatus.model_validate_json(body)
            except ValidationError:
                # the next look writes it anew
                continue
        return found

    async def forget(self, app_id: str, engine_id: str) -> None:
        await self._server.ask_slow("HDEL", keys.engine_status(app_id), engine_id)

    async def _numbers(self, key: str) -> dict[str, int]:
        flat = await self._server.ask_slow("HGETALL", key)
        return {text_of(name): int(count) for name, count in zip(flat[::2], flat[1::2], strict=True)}

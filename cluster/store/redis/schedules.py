"""Schedules of an app, in one hash."""

from __future__ import annotations

from cluster.records.schedule import Schedule
from cluster.store import keys
from cluster.store.redis.client import RedisClient
from cluster.store.redis.multiplexer import name_of
from cluster.store.redis.quarantine import Quarantine
from cluster.store.redis.record_seal import SealedRecords, seal_record


class RedisSchedules:
    """`ScheduleStore` over Redis."""

    def __init__(self, server: RedisClient, quarantine: Quarantine) -> None:
        self._server = server
        self._records = SealedRecords(quarantine)

    async def put(self, schedule: Schedule) -> None:
        key = keys.schedule(schedule.app_id)
        stored: bytes | None = await self._server.execute_slow("HGET", key, schedule.name)
        schedule = await self._records.replacing(schedule, schedule.app_id, key, schedule.name, stored)
        await self._server.execute_slow("HSET", key, schedule.name, seal_record(schedule, key, schedule.name))

    async def remove(self, app_id: str, name: str) -> bool:
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

"""Schedules of an app, in one hash."""

from __future__ import annotations

from pydantic import ValidationError

from cluster.records.run import Schedule
from cluster.store import keys
from cluster.store.redis.client import RedisClient
from cluster.store.redis.multiplexer import name_of
from cluster.store.redis.quarantine import Quarantine
from cluster.store.redis.seal import salt_from_key, seal, unseal


class RedisSchedules:
    """`ScheduleStore` over Redis."""

    def __init__(self, server: RedisClient, quarantine: Quarantine) -> None:
        self._server = server
        self._quarantine = quarantine

    async def put(self, schedule: Schedule) -> None:
        key = keys.schedule(schedule.app_id)
        sealed = seal(schedule.model_dump_json().encode(), salt_from_key(key, schedule.name))
        await self._server.execute_slow("HSET", key, schedule.name, sealed)

    async def remove(self, app_id: str, name: str) -> bool:
        return bool(await self._server.execute_slow("HDEL", keys.schedule(app_id), name))

    async def all(self, app_id: str) -> list[Schedule]:
        key = keys.schedule(app_id)
        flat = await self._server.execute_slow("HGETALL", key)
        found = []
        for field, sealed in sorted(zip(flat[::2], flat[1::2], strict=True)):
            name = name_of(field)
            body = unseal(sealed, salt_from_key(key, name))
            try:
                if body is not None:
                    found.append(Schedule.model_validate_json(body))
                    continue
            except ValidationError:
                pass
            await self._quarantine.field(app_id, key, keys.quarantine(app_id), name, sealed)
        return found

"""Engines, a few for each app, in one hash."""

from __future__ import annotations

from collections.abc import Callable

from cluster.errors import Unavailable
from cluster.records.engine import Engine
from cluster.store import keys
from cluster.store.client.multiplexer import name_of
from cluster.store.client.redis_client import RedisClient
from cluster.store.client.script import Script
from cluster.store.seals.quarantine import Quarantine
from cluster.store.seals.record_seal import SealedRecords, seal_record

_CHANGE = Script.load("change_engine")
_TRIES = 20


class EngineStore:
    """The engines of an app: few, small, read when an engine is opened."""

    def __init__(self, server: RedisClient, quarantine: Quarantine) -> None:
        self._server = server
        self._records = SealedRecords(quarantine)

    async def get(self, app_id: str, engine_id: str) -> Engine | None:
        sealed: bytes | None = await self._server.execute("HGET", keys.engine(app_id), engine_id)
        return None if sealed is None else await self._get(app_id, engine_id, sealed)

    async def put(self, engine: Engine) -> None:
        key, engine_id = keys.engine(engine.app_id), engine.engine_id
        stored: bytes | None = await self._server.execute_slow("HGET", key, engine_id)
        engine = await self._records.replacing(engine, engine.app_id, key, engine_id, stored)
        await self._server.execute_slow("HSET", key, engine_id, _sealed(engine))

    async def add(self, engine: Engine) -> bool:
        """Add an engine; return False when the name is taken."""
        key = keys.engine(engine.app_id)
        return bool(await self._server.execute_slow("HSETNX", key, engine.engine_id, _sealed(engine)))

    async def change(self, app_id: str, engine_id: str, change: Callable[[Engine], Engine]) -> Engine | None:
        """Change an engine atomically and return it; None when it is absent.

        `change` may be called more than once.

        Errors:
            Unavailable: too many concurrent changes of the engine
        """
        key = keys.engine(app_id)
        for _ in range(_TRIES):
            sealed: bytes | None = await self._server.execute_slow("HGET", key, engine_id)
            engine = None if sealed is None else await self._get(app_id, engine_id, sealed)
            if engine is None or sealed is None:
                return None
            changed = change(engine)
            if await self._server.run(_CHANGE, [key], [engine_id, sealed, _sealed(changed)]):
                return changed
        raise Unavailable("the engine is being changed by many at once", retry_after_s=1)

    async def remove(self, app_id: str, engine_id: str) -> bool:
        """Remove an engine; return False when it was absent."""
        return bool(await self._server.execute_slow("HDEL", keys.engine(app_id), engine_id))

    async def all(self, app_id: str) -> list[Engine]:
        flat = await self._server.execute_slow("HGETALL", keys.engine(app_id))
        named = sorted(zip(flat[::2], flat[1::2], strict=True))
        key = keys.engine(app_id)
        engines = [await self._records.open(Engine, app_id, key, name_of(name), one) for name, one in named]
        return [engine for engine in engines if engine is not None]

    async def _get(self, app_id: str, engine_id: str, sealed: bytes) -> Engine | None:
        return await self._records.get(Engine, app_id, keys.engine(app_id), engine_id, sealed)


def _sealed(engine: Engine) -> bytes:
    return seal_record(engine, keys.engine(engine.app_id), engine.engine_id)

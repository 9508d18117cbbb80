"""Engines, a few for each app, in one hash."""

from __future__ import annotations

from collections.abc import Callable

from cluster.records.engine import Engine
from cluster.store import keys
from cluster.store.client.redis_client import RedisClient
from cluster.store.seals.quarantine import Quarantine
from cluster.store.seals.sealed_hash import SealedHash


class EngineStore:
    """The engines of an app: few, small, read when an engine is opened."""

    def __init__(self, server: RedisClient, quarantine: Quarantine) -> None:
        self._engines = SealedHash(server, quarantine, Engine, keys.engine)

    async def get(self, app_id: str, engine_id: str) -> Engine | None:
        return await self._engines.get(app_id, engine_id, hot=True)

    async def put(self, engine: Engine) -> None:
        await self._engines.put(engine.app_id, engine.engine_id, engine)

    async def add(self, engine: Engine) -> bool:
        """Add an engine; return False when the name is taken."""
        return await self._engines.add(engine.app_id, engine.engine_id, engine)

    async def change(self, app_id: str, engine_id: str, change: Callable[[Engine], Engine]) -> Engine | None:
        """Change an engine atomically and return it; None when it is absent.

        `change` may be called more than once.
        """
        return await self._engines.update(app_id, engine_id, change)

    async def remove(self, app_id: str, engine_id: str) -> bool:
        """Remove an engine; return False when it was absent."""
        return bool(await self._engines.remove(app_id, [engine_id]))

    async def all(self, app_id: str) -> list[Engine]:
        return list((await self._engines.all(app_id)).values())

"""Engines, a few an app, in one hash."""

from __future__ import annotations

from pydantic import ValidationError

from cluster.records.engine import Engine
from cluster.store import keys
from cluster.store.quarantine import Quarantine
from cluster.store.seal import salt_of, seal, unseal
from cluster.store.server import Server
from cluster.store.wire import name_of


class RedisEngines:
    """`EngineStore` over Redis."""

    def __init__(self, server: Server, quarantine: Quarantine) -> None:
        self._server = server
        self._quarantine = quarantine

    async def get(self, app_id: str, engine_id: str) -> Engine | None:
        sealed: bytes | None = await self._server.ask("HGET", keys.engine(app_id), engine_id)
        return None if sealed is None else await self._open(app_id, engine_id, sealed)

    async def put(self, engine: Engine) -> None:
        key = keys.engine(engine.app_id)
        sealed = seal(engine.model_dump_json().encode(), salt_of(key, engine.engine_id))
        await self._server.ask_slow("HSET", key, engine.engine_id, sealed)

    async def all(self, app_id: str) -> list[Engine]:
        flat = await self._server.ask_slow("HGETALL", keys.engine(app_id))
        named = sorted(zip(flat[::2], flat[1::2], strict=True))
        engines = [await self._open(app_id, name_of(name), sealed) for name, sealed in named]
        return [engine for engine in engines if engine is not None]

    async def _open(self, app_id: str, engine_id: str, sealed: bytes) -> Engine | None:
        key = keys.engine(app_id)
        body = unseal(sealed, salt_of(key, engine_id))
        try:
            if body is not None:
                return Engine.model_validate_json(body)
        except ValidationError:
            pass
        await self._quarantine.field(app_id, key, keys.quarantine(app_id), engine_id, sealed)
        return None

"""Promotions: the engine's snapshot and its history change in one step."""

from __future__ import annotations

from cluster.errors import NewerRelease, Unavailable
from cluster.records.engine import Engine, Promotion, SnapshotTrial
from cluster.store import keys
from cluster.store.client.redis_client import RedisClient
from cluster.store.client.script import Script
from cluster.store.seals.record_seal import parse_record, seal_record
from cluster.store.seals.seal import salt_from_key, unseal

_PROMOTE = Script.load("promote")
_TRIES = 20


class PromotionStore:
    """The version each engine serves, and the history of promotions."""

    def __init__(self, server: RedisClient) -> None:
        self._server = server

    async def promote(self, entry: Promotion, trial: SnapshotTrial | None = None) -> bool:
        """Set the engine's serving version to `entry.version` and append the entry to the history, in one
        step. The trial of the engine ends, and `trial` begins.

        Returns False, and writes nothing, when the engine does not exist or no longer serves
        `entry.before`.

        Errors:
            Unavailable: too many concurrent changes of the engine
        """
        app_id = entry.app_id
        engine_id = entry.engine_id
        key = keys.engine(app_id)
        history = keys.engine_history(app_id, engine_id)
        sealed_entry = seal_record(entry, history)
        for _ in range(_TRIES):
            sealed: bytes | None = await self._server.execute_slow("HGET", key, engine_id)
            body = None if sealed is None else unseal(sealed, salt_from_key(key, engine_id))
            engine = None if body is None else parse_record(Engine, body)
            if sealed is None or engine is None or engine.snapshot != entry.before:
                return False
            after = engine.model_copy(update={"snapshot": entry.version, "trial": trial})
            args: list[str | bytes] = [engine_id, sealed, seal_record(after, key, engine_id), sealed_entry]
            # The script compares the stored bytes, so that a change in between is never overwritten.
            if await self._server.run(_PROMOTE, [key, history], args):
                return True
        raise Unavailable("the engine is being changed by many at once", retry_after_s=1)

    async def history(self, app_id: str, engine_id: str, limit: int = 100) -> list[Promotion]:
        """Return the promotions of an engine, newest first."""
        key = keys.engine_history(app_id, engine_id)
        promotions = []
        for sealed in await self._server.execute_slow("LRANGE", key, -limit, -1):
            body = unseal(sealed, salt_from_key(key))
            try:
                if body is not None:
                    promotions.append(parse_record(Promotion, body))
            except NewerRelease:
                continue  # the history is append-only; an unreadable entry is skipped
        return promotions[::-1]

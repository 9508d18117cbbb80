"""Personal tokens of the administration over Redis."""

from __future__ import annotations

from cluster.records.administration import AdminToken
from cluster.store import keys
from cluster.store.redis.client import RedisClient
from cluster.store.redis.multiplexer import name_of
from cluster.store.redis.quarantine import Quarantine
from cluster.store.redis.record_seal import SealedRecords, seal_record


class RedisAdminTokens:
    """`AdminTokenStore` over Redis."""

    def __init__(self, server: RedisClient, quarantine: Quarantine) -> None:
        self._server = server
        self._records = SealedRecords(quarantine)

    async def add(self, token: AdminToken, *, now_ms: int) -> None:
        key = keys.admin_token()
        over = [one.sha256 for one in await self.all() if one.expires_at <= now_ms]
        await self._server.execute_slow("HSET", key, token.sha256, seal_record(token, key, token.sha256))
        if over:
            await self._server.execute_slow("HDEL", key, *over)

    async def find(self, sha256: str) -> AdminToken | None:
        key = keys.admin_token()
        sealed = await self._server.execute_slow("HGET", key, sha256)
        token = None if sealed is None else await self._records.get(AdminToken, "", key, sha256, sealed)
        # The hash inside the record counts: a record that was copied to another hash is none.
        return token if token is not None and token.sha256 == sha256 else None

    async def all(self) -> list[AdminToken]:
        key = keys.admin_token()
        flat = await self._server.execute_slow("HGETALL", key)
        found = [
            await self._records.open(AdminToken, "", key, name_of(name), sealed)
            for name, sealed in zip(flat[::2], flat[1::2], strict=True)
        ]
        return sorted(filter(None, found), key=lambda token: (token.created_at, token.token_id))

    async def of_user(self, user_id: str) -> list[AdminToken]:
        return [token for token in await self.all() if token.user_id == user_id]

    async def remove(self, token_id: str) -> bool:
        return bool(await self._delete([token for token in await self.all() if token.token_id == token_id]))

    async def remove_user(self, user_id: str) -> int:
        return await self._delete(await self.of_user(user_id))

    async def _delete(self, tokens: list[AdminToken]) -> int:
        if not tokens:
            return 0
        names = [token.sha256 for token in tokens]
        return int(await self._server.execute_slow("HDEL", keys.admin_token(), *names))

"""The secret salt of an app's user pseudonyms, read once by each process."""

from __future__ import annotations

import secrets

from cluster.records.logged_query import pseudonym
from cluster.store import keys
from cluster.store.client.redis_client import RedisClient
from cluster.store.client.script import Script

SALT_BYTES = 16
_GET_SALT = Script.load("get_salt")


class Salts:
    """Salts of apps; the first call for an app creates its salt."""

    def __init__(self, server: RedisClient) -> None:
        self._server = server
        self._read: dict[str, bytes] = {}

    async def get(self, app_id: str) -> bytes:
        """Return the salt of an app."""
        salt = self._read.get(app_id)
        if salt is None:
            new = secrets.token_bytes(SALT_BYTES)
            salt = self._read[app_id] = bytes(
                await self._server.run(_GET_SALT, [keys.query_salt(app_id)], [new])
            )
        return salt

    async def pseudonym(self, app_id: str, user_key: str) -> str:
        """Return a user's pseudonym for the name of a key."""
        return pseudonym(await self.get(app_id), user_key)

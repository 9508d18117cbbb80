"""The products already shown to a user under one `pagination_id`."""

from __future__ import annotations

from collections.abc import Sequence

from cluster.store import keys
from cluster.store.client.redis_client import RedisClient
from cluster.store.client.replies import text_of
from cluster.store.client.script import Script
from cluster.store.data.salts import Salts

IDLE_MS = 30 * 60 * 1000
MOST = 10_000
"Products remembered as shown; the oldest are deleted first."
STRANGERS_MOST = 200
"The same for an unverified user,"
STRANGERS_PAGES = 5_000
"of whom an app remembers so many in half an hour: at most about 20 MB. Pages of further ones may repeat a product."

_SHOW = Script.load("show")


class ShownProductStore:
    """The products already shown under a `pagination_id`."""

    def __init__(self, server: RedisClient) -> None:
        self._server = server
        self._salts = Salts(server)

    async def read(self, app_id: str, user_key: str, pagination_id: str) -> list[str]:
        name = await self._name(app_id, user_key, pagination_id)
        members = await self._server.execute("LRANGE", name, 0, -1)
        return [text_of(member) for member in members]

    async def record(
        self,
        app_id: str,
        user_key: str,
        pagination_id: str,
        product_ids: Sequence[str],
        *,
        is_strangers: bool = False,
    ) -> None:
        """Record shown products; fewer for unverified users, and for a bounded number of these."""
        name = await self._name(app_id, user_key, pagination_id)
        names = [name, keys.page_count(app_id)]
        most, pages = (STRANGERS_MOST, STRANGERS_PAGES) if is_strangers else (MOST, 0)
        await self._server.run(_SHOW, names, [IDLE_MS, most, pages, *product_ids[-most:]], hot=True)

    async def _name(self, app_id: str, user_key: str, pagination_id: str) -> str:
        """Return the list's key, which reveals neither the user nor the caller's `pagination_id`."""
        mark = await self._salts.pseudonym(app_id, user_key)
        return keys.page(app_id, mark, await self._salts.pseudonym(app_id, pagination_id))

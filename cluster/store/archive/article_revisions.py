"""The newest revision of each article that its publisher corrected or withdrew."""

from __future__ import annotations

from collections.abc import Mapping

from cluster.records.archive.article_revision import ArticleRevision
from cluster.store import keys
from cluster.store.client.redis_client import RedisClient
from cluster.store.seals.quarantine import Quarantine
from cluster.store.seals.sealed_hash import SealedHash


class ArticleRevisionStore:
    """The newest revision of each article that was corrected or withdrawn: as many as archives keep, read whole."""

    def __init__(self, server: RedisClient, quarantine: Quarantine) -> None:
        self._revisions = SealedHash(server, quarantine, ArticleRevision, keys.article_revision)

    async def all(self, app_id: str) -> Mapping[str, ArticleRevision]:
        """Return all revisions by product."""
        return await self._revisions.all(app_id)

    async def put(self, app_id: str, revisions: Mapping[str, ArticleRevision | None]) -> None:
        """Write the revisions of products; None removes one."""
        for product_id, revision in revisions.items():
            if revision is not None:
                await self._revisions.put(app_id, product_id, revision)
        await self._revisions.remove(
            app_id, [name for name, revision in revisions.items() if revision is None]
        )

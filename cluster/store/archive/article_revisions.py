"""What publishers and agents know of articles: revisions, notes of reading, and the keys of statements."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from cluster.records.archive.article_revision import ArticleRead, ArticleRevision, PublisherKey
from cluster.store import keys
from cluster.store.client.redis_client import RedisClient
from cluster.store.client.replies import text_of
from cluster.store.client.script import Script
from cluster.store.seals.quarantine import Quarantine
from cluster.store.seals.seal import salt_from_key, seal, unseal
from cluster.store.seals.sealed_hash import SealedHash

MOST_READS = 100_000
"Notes of reading of one app; the oldest go first. About 150 bytes each."
READ_LIFE_MS = 30 * 86_400_000
"A grant without use ends after that time."
_PAGE = 2_000

_NOTE = Script.load("note_calls")


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


class ArticleReadStore:
    """Notes of what agents read, in order."""

    def __init__(self, server: RedisClient) -> None:
        self._server = server

    async def append(self, app_id: str, reads: Sequence[ArticleRead]) -> None:
        name = keys.article_read(app_id)
        sealed = [seal(read.to_bytes(), salt_from_key(name)) for read in reads]
        await self._server.run(_NOTE, [name], [MOST_READS, *sealed])

    async def read_after(self, app_id: str, offset: str, now_ms: int) -> tuple[str, list[ArticleRead]]:
        """Return the offset of the last of the next notes after an offset (`"0"`: from the start), and the notes.

        Notes older than a grant lives are passed over.
        """
        name = keys.article_read(app_id)
        start = f"({offset}" if offset != "0" else str(max(0, now_ms - READ_LIFE_MS))
        entries = await self._server.execute_slow("XRANGE", name, start, "+", "COUNT", _PAGE)
        bodies = (unseal(pairs[1], salt_from_key(name)) for _, pairs in entries)
        reads = (ArticleRead.from_bytes(body) for body in bodies if body is not None)
        return (text_of(entries[-1][0]) if entries else offset), [read for read in reads if read is not None]


class PublisherKeyStore:
    """Public keys of publishers, old ones included, so that old statements can be verified."""

    def __init__(self, server: RedisClient, quarantine: Quarantine) -> None:
        self._keys = SealedHash(server, quarantine, PublisherKey, keys.publisher_key)

    async def all(self, app_id: str) -> Mapping[str, PublisherKey]:
        """Return all keys of an app by id."""
        return await self._keys.all(app_id)

    async def add(self, app_id: str, key: PublisherKey) -> None:
        """Write a key unless it is there."""
        await self._keys.add(app_id, key.key_id, key)

    async def remove(self, app_id: str, key_id: str) -> bool:
        """Remove a key; return False when there was none."""
        return bool(await self._keys.remove(app_id, [key_id]))

"""Notes of what agents read of articles, in order."""

from __future__ import annotations

from collections.abc import Sequence

from cluster.records.archive.article_revision import ArticleRead
from cluster.store import keys
from cluster.store.client.redis_client import RedisClient
from cluster.store.client.replies import text_of
from cluster.store.client.script import Script
from cluster.store.seals.seal import salt_from_key, seal, unseal

MOST_READS = 100_000
"Notes of reading of one app; the oldest go first. About 150 bytes each."
READ_LIFE_MS = 30 * 86_400_000
"A grant without use ends after that time."
_PAGE = 2_000

_NOTE = Script.load("note_calls")


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

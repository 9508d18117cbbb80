"""Which articles agents read, so that an agent is informed when one of them is corrected or withdrawn.

Each replica follows the notes of all replicas, so the memory outlives each of them. A killed replica loses the notes of
its last half second. An agent is a keyed digest of account and client.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping, Sequence

from cluster.access_tier import may_read
from cluster.clock import Clock
from cluster.errors import KioskError
from cluster.records.archive.article_revision import ArticleRead, ArticleRevision
from cluster.store.archive.article_reads import ArticleReadStore
from deployments.archive.admission import ArchiveCaller
from deployments.edge.batch_writer import BatchWriter

PURPOSE = "archive readers"
"Purpose of the derived key."
MOST_AGENTS = 10_000
MOST_ARTICLES = 200
"Articles of one agent that are remembered; the one read longest ago goes first."
MOST_NEWS = 10
"Revisions in one answer; the rest is in the next one."
FOLLOW_EVERY_S = 0.5
_AT_ONCE = 500


class ArticleReads(BatchWriter[ArticleRead]):
    """Remembers what agents read, in a bounded memory that all replicas share."""

    def __init__(
        self, store: ArticleReadStore, find_app: Callable[[], str], key: bytes, clock: Clock
    ) -> None:
        super().__init__("article_reads")
        self._store = store
        self._find_app = find_app
        self._key = key
        self._clock = clock
        self._app_id = ""
        self._offset = "0"
        self._read: OrderedDict[str, OrderedDict[str, str]] = OrderedDict()
        self._following: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Start to write notes, and to follow those of other replicas."""
        await super().start()
        self._following = asyncio.get_running_loop().create_task(self._follow_forever())

    async def close(self) -> None:
        """Stop, and write the remaining notes."""
        if self._following is not None:
            self._following.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._following
            self._following = None
        await super().close()

    def record(self, person: ArchiveCaller, product_id: str, revision: str) -> None:
        """Record that an agent has an article in some revision. Cost: 3 microseconds."""
        read = ArticleRead(self._agent_of(person), product_id, revision)
        # This replica must not wait until its note comes back from the store: the next call may come sooner.
        self._remember(read)
        self.put(read)

    def has_read(self, person: ArchiveCaller) -> bool:
        """Return whether an agent read anything lately. Cost: 1 microsecond."""
        return self._agent_of(person) in self._read

    def list_corrections(
        self, person: ArchiveCaller, revisions: Mapping[str, ArticleRevision]
    ) -> list[tuple[str, ArticleRevision]]:
        """Return revisions of articles that an agent read before them, and may know."""
        read: Mapping[str, str] = self._read.get(self._agent_of(person), {})
        news = [
            (product_id, revision)
            for product_id, before in read.items()
            if (revision := revisions.get(product_id)) is not None
            and revision.revision != before
            and may_read(revision.access, person.tiers)
        ]
        return news[:MOST_NEWS]

    async def follow(self) -> None:
        """Read the notes of all replicas since the last call."""
        app_id = self._find_app()
        # The publisher chose another app as the archive. Reads of the old one say nothing about its articles.
        if app_id != self._app_id:
            self._app_id = app_id
            self._offset = "0"
            self._read.clear()
        before = ""
        # Page by page, until one brings nothing new.
        while before != self._offset:
            before = self._offset
            self._offset, reads = await self._store.read_after(app_id, before, self._clock.now_ms())
            for read in reads:
                self._remember(read)

    def split(self, entries: Sequence[ArticleRead]) -> Iterable[Sequence[ArticleRead]]:
        return (entries[start : start + _AT_ONCE] for start in range(0, len(entries), _AT_ONCE))

    async def write_batch(self, batch: Sequence[ArticleRead]) -> None:
        await self._store.append(self._find_app(), batch)

    def _remember(self, read: ArticleRead) -> None:
        articles = self._read.setdefault(read.agent, OrderedDict())
        articles[read.product_id] = read.revision
        articles.move_to_end(read.product_id)
        self._read.move_to_end(read.agent)
        if len(articles) > MOST_ARTICLES:
            articles.popitem(last=False)
        if len(self._read) > MOST_AGENTS:
            self._read.popitem(last=False)

    def _agent_of(self, person: ArchiveCaller) -> str:
        # Hashed with a key, so that the store does not tell who reads what.
        name = f"{person.user_id}\0{person.client_id}".encode("utf-8", "surrogatepass")
        return hashlib.blake2b(name, digest_size=12, key=self._key).hexdigest()

    async def _follow_forever(self) -> None:
        while True:
            # The store is away: the offset is unchanged, so the next round reads on from there.
            with contextlib.suppress(KioskError):
                await self.follow()
            await asyncio.sleep(FOLLOW_EVERY_S)

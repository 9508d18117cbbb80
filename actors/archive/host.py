"""Load the archives of apps on demand, within a memory budget, in the process of an API replica."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial

from actors.archive.citations import check_citations
from actors.archive.follower import ArchiveFollower, LibraryAtOffset
from actors.archive.messages import ArchiveArticle, ArchiveQuery, ArchiveResult, Citation, CitationState
from actors.archive.passage_index import PassageIndex
from actors.archive.retrieve import get_article, resize_snippets, search_passages
from actors.archive.snapshot_store import PassageSnapshotStore
from actors.archive.teasers import list_teasers
from actors.hosting.loaded_apps import LoadedAppLabels, LoadedApps
from actors.hosting.memory_budget import DEFAULT_MB, MemoryBudget
from actors.language.hashing_embedder import HashingEmbedder
from cluster.access_tier import NOBODY
from cluster.artifacts.segments import SegmentStore
from cluster.clock import Clock
from cluster.ids import new_request_id
from cluster.meter import Meter
from cluster.records.archive.article_revision import ArticleRevision
from cluster.store.stores import Stores

_WORDS = LoadedAppLabels("the archive is still loading", "archive_left", "kiosk_archive_memory_bytes")
_HASHING_SHARE = 0.1
"Weight of meaning with hashed words, which learn nothing from a corpus: they only break ties and match parts of words."


class ArchiveHost:
    """An `ArchiveClient` for every app; the first request loads an app's archive."""

    def __init__(
        self,
        stores: Stores,
        segments: SegmentStore | None,
        snapshots: PassageSnapshotStore | None,
        clock: Clock,
        meter: Meter,
        budget: MemoryBudget | None = None,
    ) -> None:
        self._stores = stores
        self._segments = segments
        self._snapshots = snapshots
        self._clock = clock
        self._meter = meter
        self._name = f"archive-{new_request_id()}"
        budget = MemoryBudget(DEFAULT_MB << 20, meter, clock) if budget is None else budget
        self._followers = LoadedApps(self._create_follower, budget, _WORDS, clock)

    async def close(self) -> None:
        await self._followers.close()

    async def ask(self, query: ArchiveQuery) -> ArchiveResult:
        follower = await self._followers.get(query.app_id)
        # Teasers search what the user may not read.
        tiers = None if query.teasers else query.tiers
        return await follower.query(partial(_search, query, self._clock.now_ms()), tiers)

    async def article(
        self, app_id: str, product_id: str, position: int, tiers: frozenset[str] = NOBODY
    ) -> ArchiveArticle | None:
        follower = await self._followers.get(app_id)
        return await follower.query(lambda library: get_article(library, product_id, position, tiers), tiers)

    async def check(
        self, app_id: str, citations: Sequence[Citation], tiers: frozenset[str] = NOBODY
    ) -> tuple[CitationState, ...]:
        follower = await self._followers.get(app_id)
        revisions = follower.revisions
        # In a thread: one call may compare many passages.
        return await follower.query(
            lambda library: check_citations(library, revisions, citations, tiers), tiers, in_thread=True
        )

    async def get_article_revisions(self, app_id: str) -> Mapping[str, ArticleRevision]:
        return (await self._followers.get(app_id)).revisions

    def locked_accesses(self, app_id: str) -> frozenset[str] | None:
        follower = self._followers.find(app_id)
        return None if follower is None else follower.locked_accesses

    def _create_follower(self, app_id: str) -> ArchiveFollower:
        return ArchiveFollower(
            app_id,
            self._name,
            self._stores,
            self._segments,
            self._clock,
            self._meter,
            self._open_library,
            self._newest_sequence,
        )

    def _newest_sequence(self, app_id: str) -> int:
        return 0 if self._snapshots is None else self._snapshots.newest_sequence(app_id)

    def _open_library(self, app_id: str) -> LibraryAtOffset:
        """Open the newest snapshot, or an empty library."""
        if self._snapshots is not None:
            opened = self._snapshots.open(app_id)
            if opened is not None:
                return opened
        # Offset 0: the follower then fills the empty library from the whole change log.
        return PassageIndex(HashingEmbedder(), share=_HASHING_SHARE), "0"


def _search(query: ArchiveQuery, now_ms: int, library: PassageIndex) -> ArchiveResult:
    if query.teasers:
        return list_teasers(library, query, now_ms)
    result = search_passages(library, query, now_ms)
    if not query.snippet_words:
        return result
    return resize_snippets(library, result, query.snippet_words, query.tiers)

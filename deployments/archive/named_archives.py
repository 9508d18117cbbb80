"""The archives of one replica. A named archive is opened at its first call, and closed at the first call after its end.

All archives share the endpoint with its bound of concurrent calls, the token checks, and the keys of offsets. Each
has its own rules for clients, rate limits, log of calls, tools and citation.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass

from cluster.records.archive.named_archive import NamedArchive
from deployments.archive.admission import ClientAdmission
from deployments.archive.archive_apps import ArchiveApps
from deployments.archive.citations.article_reads import ArticleReads
from deployments.archive.mcp.endpoint import McpArchive
from deployments.archive.usage_log import UsageLog


@dataclass(frozen=True, slots=True)
class ArchiveWorkers:
    """The parts of an archive with background tasks."""

    gate: ClientAdmission
    usage: UsageLog
    reads: ArticleReads

    async def start(self) -> None:
        """Start to follow the rules for clients and what agents read, and to write the log of calls."""
        await self.gate.start()
        await self.usage.start()
        await self.reads.start()

    async def close(self) -> None:
        """Stop, and write the remaining calls."""
        await self.gate.close()
        await self.usage.close()
        await self.reads.close()


@dataclass(frozen=True, slots=True)
class _OpenedArchive:
    settings: NamedArchive
    workers: ArchiveWorkers
    archive: McpArchive


class NamedArchives:
    """Finds the archive of a request."""

    def __init__(
        self,
        find_default: Callable[[], McpArchive],
        apps: ArchiveApps,
        open_workers: Callable[[str], ArchiveWorkers],
        build: Callable[[str, NamedArchive, ArchiveWorkers], McpArchive],
    ) -> None:
        """`open_workers` gets an app, `build` the app, its settings and its workers."""
        self._find_default = find_default
        self._apps = apps
        self._open_workers = open_workers
        self._build = build
        self._opened: dict[str, _OpenedArchive] = {}
        self._lock = asyncio.Lock()

    async def find(self, archive_id: str) -> McpArchive | None:
        """Return an archive, the default one for an empty name; None if there is none of this name."""
        if not archive_id:
            return self._find_default()
        opened = self._opened.get(archive_id)
        settings = self._apps.find_archive(archive_id)
        if opened is None and settings is None:
            return None
        # By identity, which costs each request nothing; equal copies are noticed under the lock.
        if opened is None or settings is not opened.settings:
            async with self._lock:
                # Another request may have opened it in the meantime, so both are looked up again.
                return await self._reopen(archive_id)
        return opened.archive

    async def close(self) -> None:
        """Close all named archives."""
        async with self._lock:
            for opened in self._opened.values():
                await opened.workers.close()
            self._opened.clear()

    async def _reopen(self, archive_id: str) -> McpArchive | None:
        """Follow a change of the settings; rules and log of an open archive go on."""
        settings = self._apps.find_archive(archive_id)
        opened = self._opened.get(archive_id)
        if settings is None:
            if opened is not None:
                # Removed before the wait: a request that comes meanwhile must not get an archive whose log is
                # closed.
                del self._opened[archive_id]
                await opened.workers.close()
            return None
        workers = None if opened is None else opened.workers
        if workers is None:
            workers = self._open_workers(archive_id)
            await workers.start()
        # Every change of a key reads all apps anew, mostly with equal settings.
        is_same = opened is not None and settings == opened.settings
        archive = opened.archive if opened and is_same else self._build(archive_id, settings, workers)
        self._opened[archive_id] = _OpenedArchive(settings, workers, archive)
        return archive

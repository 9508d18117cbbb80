"""Imports of uploaded files, in hashes of an app: records, progress, requests to stop."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

from cluster.records.file_import import FileImport, ImportProgress
from cluster.store import keys
from cluster.store.client.redis_client import RedisClient
from cluster.store.client.replies import name_of
from cluster.store.seals.quarantine import Quarantine
from cluster.store.seals.sealed_hash import SealedHash


@dataclass(frozen=True, slots=True)
class StoredImport:
    """An import, and the progress of its newest attempt that wrote any."""

    record: FileImport
    progress: ImportProgress | None
    is_stopping: bool = False
    "An operator asked its process to stop."


class ImportStore:
    """Imports of uploaded files: records, progress, and requests to stop."""

    def __init__(self, server: RedisClient, quarantine: Quarantine) -> None:
        self._server = server
        self._imports = SealedHash(server, quarantine, FileImport, keys.file_import)
        self._progress = SealedHash(server, quarantine, ImportProgress, keys.import_progress)

    async def put(self, record: FileImport) -> None:
        await self._imports.put(record.app_id, record.import_id, record)

    async def get(self, app_id: str, import_id: str) -> StoredImport | None:
        (record,), (progress,), stop = await asyncio.gather(
            self._imports.get_many(app_id, [import_id]),
            self._progress.get_many(app_id, [import_id]),
            self._server.execute_slow("SISMEMBER", keys.import_stop(app_id), import_id),
        )
        return None if record is None else StoredImport(record, progress, bool(stop))

    async def all(self, app_id: str) -> list[StoredImport]:
        """Return the imports of an app, newest first."""
        records, progress, stops = await asyncio.gather(
            self._imports.all(app_id),
            self._progress.all(app_id),
            self._server.execute_slow("SMEMBERS", keys.import_stop(app_id)),
        )
        stopping = set(map(name_of, stops))
        newest_first = sorted(records.items(), key=lambda item: (-item[1].created_at, item[0]))
        return [StoredImport(record, progress.get(name), name in stopping) for name, record in newest_first]

    async def remove(self, app_id: str, import_id: str) -> bool:
        """Remove an import with its progress; return False when it was absent."""
        # The record first: a crash leaves progress that no list shows.
        removed = await self._imports.remove(app_id, [import_id])
        await self._progress.remove(app_id, [import_id])
        await self.clear_stop(app_id, import_id)
        return bool(removed)

    async def put_progress(self, app_id: str, import_id: str, progress: ImportProgress) -> None:
        sealed = self._progress.seal(app_id, import_id, progress)
        await self._server.execute_slow("HSET", keys.import_progress(app_id), import_id, sealed)

    async def request_stop(self, app_id: str, import_id: str) -> None:
        """Ask the process of an import to stop."""
        await self._server.execute_slow("SADD", keys.import_stop(app_id), import_id)

    async def clear_stop(self, app_id: str, import_id: str) -> None:
        """Take such a request back, before a new attempt."""
        await self._server.execute_slow("SREM", keys.import_stop(app_id), import_id)

"""Imports of uploaded files, in hashes of an app: records, progress, requests to stop."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Any

from cluster.records.file_import import FileImport, ImportProgress
from cluster.store import keys
from cluster.store.client.multiplexer import name_of
from cluster.store.client.redis_client import RedisClient
from cluster.store.seals.quarantine import Quarantine
from cluster.store.seals.record_seal import SealedRecords, seal_record


@dataclass(frozen=True, slots=True)
class StoredImport:
    """An import, and the progress of its newest attempt that wrote any."""

    record: FileImport
    progress: ImportProgress | None
    is_stopping: bool = False
    "Somebody asked its process to stop."


class ImportStore:
    """Imports of uploaded files: records, progress, and requests to stop."""

    def __init__(self, server: RedisClient, quarantine: Quarantine) -> None:
        self._server = server
        self._records = SealedRecords(quarantine)

    async def put(self, record: FileImport) -> None:
        key = keys.file_import(record.app_id)
        stored: bytes | None = await self._server.execute_slow("HGET", key, record.import_id)
        record = await self._records.replacing(record, record.app_id, key, record.import_id, stored)
        await self._server.execute_slow(
            "HSET", key, record.import_id, seal_record(record, key, record.import_id)
        )

    async def get(self, app_id: str, import_id: str) -> StoredImport | None:
        sealed, progress, stop = await asyncio.gather(
            self._server.execute_slow("HGET", keys.file_import(app_id), import_id),
            self._server.execute_slow("HGET", keys.import_progress(app_id), import_id),
            self._server.execute_slow("SISMEMBER", keys.import_stop(app_id), import_id),
        )
        if sealed is None:
            return None
        return await self._open(app_id, import_id, sealed, progress, is_stopping=bool(stop))

    async def all(self, app_id: str) -> list[StoredImport]:
        """Return the imports of an app, newest first."""
        flat, progress, stopping = await asyncio.gather(
            self._server.execute_slow("HGETALL", keys.file_import(app_id)),
            self._server.execute_slow("HGETALL", keys.import_progress(app_id)),
            self._server.execute_slow("SMEMBERS", keys.import_stop(app_id)),
        )
        written = {name_of(name): body for name, body in _pairs(progress)}
        asked = set(map(name_of, stopping))
        found = []
        for field, sealed in _pairs(flat):
            name = name_of(field)
            one = await self._open(app_id, name, sealed, written.get(name), is_stopping=name in asked)
            if one is not None:
                found.append(one)
        return sorted(found, key=lambda one: (-one.record.created_at, one.record.import_id))

    async def remove(self, app_id: str, import_id: str) -> bool:
        """Remove an import with its progress; return False when it was absent."""
        removed = await self._server.execute_slow("HDEL", keys.file_import(app_id), import_id)
        await self._server.execute_slow("HDEL", keys.import_progress(app_id), import_id)
        await self.clear_stop(app_id, import_id)
        return bool(removed)

    async def put_progress(self, app_id: str, import_id: str, progress: ImportProgress) -> None:
        key = keys.import_progress(app_id)
        await self._server.execute_slow("HSET", key, import_id, seal_record(progress, key, import_id))

    async def request_stop(self, app_id: str, import_id: str) -> None:
        """Ask the process of an import to stop."""
        await self._server.execute_slow("SADD", keys.import_stop(app_id), import_id)

    async def clear_stop(self, app_id: str, import_id: str) -> None:
        """Take such a request back, before a new attempt."""
        await self._server.execute_slow("SREM", keys.import_stop(app_id), import_id)

    async def _open(
        self, app_id: str, import_id: str, sealed: bytes, progress: bytes | None, *, is_stopping: bool
    ) -> StoredImport | None:
        record = await self._records.open(FileImport, app_id, keys.file_import(app_id), import_id, sealed)
        if record is None:
            return None
        opened = None
        if progress is not None:
            key = keys.import_progress(app_id)
            opened = await self._records.open(ImportProgress, app_id, key, import_id, progress)
        return StoredImport(record, opened, is_stopping)


def _pairs(flat: list[Any]) -> list[tuple[bytes, bytes]]:
    return list(zip(flat[::2], flat[1::2], strict=True))

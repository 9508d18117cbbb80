"""Imports of uploaded files in dictionaries."""

from __future__ import annotations

from cluster.records.file_import import FileImport, ImportProgress
from cluster.store.data.imports import ImportStore, StoredImport


class MemoryImports(ImportStore):
    """`ImportStore` in dictionaries."""

    def __init__(self) -> None:
        self._stored_imports: dict[tuple[str, str], FileImport] = {}
        self._stored_progress: dict[tuple[str, str], ImportProgress] = {}
        self._stopping: set[tuple[str, str]] = set()

    async def put(self, record: FileImport) -> None:
        self._stored_imports[record.app_id, record.import_id] = record

    async def get(self, app_id: str, import_id: str) -> StoredImport | None:
        key = (app_id, import_id)
        if key not in self._stored_imports:
            return None
        return StoredImport(self._stored_imports[key], self._stored_progress.get(key), key in self._stopping)

    async def all(self, app_id: str) -> list[StoredImport]:
        stored = [await self.get(*key) for key in self._stored_imports if key[0] == app_id]
        whole = [stored_import for stored_import in stored if stored_import is not None]
        return sorted(
            whole,
            key=lambda stored_import: (-stored_import.record.created_at, stored_import.record.import_id),
        )

    async def remove(self, app_id: str, import_id: str) -> bool:
        self._stored_progress.pop((app_id, import_id), None)
        self._stopping.discard((app_id, import_id))
        return self._stored_imports.pop((app_id, import_id), None) is not None

    async def put_progress(self, app_id: str, import_id: str, progress: ImportProgress) -> None:
        self._stored_progress[app_id, import_id] = progress

    async def request_stop(self, app_id: str, import_id: str) -> None:
        self._stopping.add((app_id, import_id))

    async def clear_stop(self, app_id: str, import_id: str) -> None:
        self._stopping.discard((app_id, import_id))

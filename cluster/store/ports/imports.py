"""The protocol of the store of imports of uploaded files."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from cluster.records.file_import import FileImport, ImportProgress


@dataclass(frozen=True, slots=True)
class StoredImport:
    """An import, and the progress of its newest attempt that wrote any."""

    record: FileImport
    progress: ImportProgress | None
    is_stopping: bool = False
    "Somebody asked its process to stop."


class ImportStore(Protocol):
    """Imports of uploaded files: records, progress, and requests to stop."""

    async def put(self, record: FileImport) -> None: ...

    async def get(self, app_id: str, import_id: str) -> StoredImport | None: ...

    async def all(self, app_id: str) -> list[StoredImport]:
        """Return the imports of an app, newest first."""
        ...

    async def remove(self, app_id: str, import_id: str) -> bool:
        """Remove an import with its progress; return False when it was absent."""
        ...

    async def put_progress(self, app_id: str, import_id: str, progress: ImportProgress) -> None: ...

    async def request_stop(self, app_id: str, import_id: str) -> None:
        """Ask the process of an import to stop."""
        ...

    async def clear_stop(self, app_id: str, import_id: str) -> None:
        """Take such a request back, before a new attempt."""
        ...

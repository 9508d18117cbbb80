"""The schema number in memory."""

from __future__ import annotations

from dataclasses import replace

from cluster.store.installation.schema_version import RunningRelease, SchemaStore, StoredSchema


class MemorySchema(SchemaStore):
    """`SchemaStore` in a dictionary."""

    def __init__(self) -> None:
        self._stored = StoredSchema()
        self._running: dict[tuple[str, str], RunningRelease] = {}

    async def read(self) -> StoredSchema:
        return self._stored

    async def write(self, schema: StoredSchema) -> None:
        self._stored = schema

    async def mark_restoring(self, backup_id: str) -> None:
        self._stored = replace(self._stored, restoring=backup_id)

    async def record_release(self, running: RunningRelease) -> None:
        self._running[running.release, running.build] = running

    async def list_releases(self, now_ms: int) -> list[RunningRelease]:
        return sorted(
            (running for running in self._running.values() if abs(now_ms - running.at_ms) <= 30_000),
            key=lambda running: (running.release, running.build),
        )

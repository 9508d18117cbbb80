"""What was set aside, in a dictionary."""

from __future__ import annotations

from collections.abc import Sequence

from cluster.records.intake import QuarantineEntry
from cluster.store.installation.quarantine_store import QuarantineStore


class MemoryQuarantine(QuarantineStore):
    """`QuarantineStore` in a dictionary; tests put entries into it."""

    def __init__(self) -> None:
        self.entries: dict[str, list[QuarantineEntry]] = {}

    async def read(self, app_id: str) -> list[QuarantineEntry]:
        return list(self.entries.get(app_id, ()))

    async def remove(self, app_id: str, entry_ids: Sequence[str]) -> None:
        kept = [entry for entry in self.entries.get(app_id, ()) if entry.entry_id not in entry_ids]
        self.entries[app_id] = kept

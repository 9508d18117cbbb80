"""The protocol of the store of what was set aside."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from cluster.records.intake import QuarantineEntry


class QuarantineStore(Protocol):
    """Damaged values, and uploads that could not be applied."""

    async def read(self, app_id: str) -> list[QuarantineEntry]:
        """Return the newest entries of an app, or without an id those of no app, within a bound on bytes."""
        ...

    async def remove(self, app_id: str, entry_ids: Sequence[str]) -> None:
        """Delete entries for good."""
        ...

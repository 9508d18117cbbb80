"""The protocols of the stores of archive administration: the log of calls, and the rules for clients."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

from cluster.records.archive_client import ArchiveCall, ClientRule


class ArchiveCallStore(Protocol):
    """Calls of the archive's tools, for the publisher's report. The latest 200,000 of an app are kept."""

    async def append(self, app_id: str, calls: Sequence[ArchiveCall]) -> None: ...

    async def read_since(self, app_id: str, at_ms: int) -> list[ArchiveCall]:
        """Return the calls recorded at a time or later, oldest first."""
        ...


class ClientRuleStore(Protocol):
    """The publisher's rules for the clients of an archive: few, read whole."""

    async def all(self, app_id: str) -> Mapping[str, ClientRule]:
        """Return all rules under their folded names."""
        ...

    async def put(self, app_id: str, rule: ClientRule) -> None: ...

    async def remove(self, app_id: str, client: str) -> bool:
        """Remove a rule; return False when it was absent."""
        ...

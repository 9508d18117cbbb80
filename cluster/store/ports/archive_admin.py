"""What the stores promise to a publisher: the book of calls of the archive, and the rules for its clients."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

from cluster.records.archive_call import ArchiveCall
from cluster.records.client_rule import ClientRule


class ArchiveCallStore(Protocol):
    """Calls of the archive's tools, for the publisher's report. The latest 200,000 of an app are kept."""

    async def append(self, app_id: str, calls: Sequence[ArchiveCall]) -> None: ...

    async def read_since(self, app_id: str, at_ms: int) -> list[ArchiveCall]:
        """Calls noted at a time or later, oldest first."""
        ...


class ClientRuleStore(Protocol):
    """What a publisher allows the clients of an archive: few rules, read whole."""

    async def all(self, app_id: str) -> Mapping[str, ClientRule]:
        """All rules under their folded names."""
        ...

    async def put(self, app_id: str, rule: ClientRule) -> None: ...

    async def remove(self, app_id: str, client: str) -> bool:
        """Remove a rule; False when it was not there."""
        ...

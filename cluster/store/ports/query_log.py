"""The protocol of the query log between API replicas and the artifact store."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from cluster.records.logged_query import LoggedQuery


@dataclass(frozen=True, slots=True)
class QueryBatch:
    """Queries that one API replica wrote at once."""

    offset: str
    queries: tuple[LoggedQuery, ...]
    "Empty when the stored batch is damaged, so that the consumer can skip it."


class QueryStore(Protocol):
    """Queries on their way to the artifact store: a bounded queue that drops the oldest batches."""

    async def append(self, app_id: str, queries: Sequence[LoggedQuery]) -> None:
        """Append one batch."""
        ...

    async def read(self, app_id: str, after: str, *, count: int) -> list[QueryBatch]:
        """Return batches after an offset (`"0"`: from the start), oldest first."""
        ...

    async def trim(self, app_id: str, upto: str) -> None:
        """Delete batches up to an offset: the artifact store holds them."""
        ...

    async def salt(self, app_id: str) -> bytes:
        """Return the salt of the app's pseudonyms; the first call creates it, and it never changes."""
        ...

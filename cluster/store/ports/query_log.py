"""What the stores promise to search: the road of the query log to the shelf, and question banks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from cluster.records.logged_query import LoggedQuery


@dataclass(frozen=True, slots=True)
class QueryBatch:
    """Queries one door wrote at once."""

    offset: str
    queries: tuple[LoggedQuery, ...]
    "Empty when what was written is damaged, so that its reader gets past it."


class QueryStore(Protocol):
    """Queries between the doors that noted them and the shelf: a bounded queue, the oldest lots go first."""

    async def append(self, app_id: str, queries: Sequence[LoggedQuery]) -> None:
        """Write a lot."""
        ...

    async def read(self, app_id: str, after: str, *, count: int) -> list[QueryBatch]:
        """Lots behind an offset (`"0"`: from the start), oldest first."""
        ...

    async def trim(self, app_id: str, upto: str) -> None:
        """Forget lots up to an offset: they stand on the shelf."""
        ...

    async def salt(self, app_id: str) -> bytes:
        """What pseudonyms of the app's readers are made with: made by the first who asks, the same for ever."""
        ...

"""The protocol of the store of users and products."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from cluster.store.ports.changes import Noun


class RecordStore(Protocol):
    """Stored users and products, as JSON bytes. A record whose checksum fails is moved to quarantine and
    reads as absent."""

    async def get(self, app_id: str, noun: Noun, record_id: str) -> bytes | None: ...

    async def get_many(self, app_id: str, noun: Noun, record_ids: Sequence[str]) -> list[bytes | None]: ...

    async def ids(self, app_id: str, noun: Noun, product_type: str | None = None) -> list[str]:
        """Return all ids, sorted."""
        ...

    async def page(
        self, app_id: str, noun: Noun, *, prefix: str = "", after: str = "", limit: int = 100
    ) -> list[str]:
        """Return the first ids, in their order, that begin with a prefix and stand behind an id."""
        ...

    async def count(self, app_id: str, noun: Noun) -> int:
        """Return the number of records."""
        ...

    async def seen(self, app_id: str, noun: Noun) -> bool:
        """Return whether the app ever received a record of this noun."""
        ...

    async def attribute_types(self, app_id: str, noun: Noun) -> dict[str, str]:
        """Return custom attribute name -> scalar type registered so far."""
        ...

"""The protocol of the products already shown under a `pagination_id`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol


class PageStore(Protocol):
    """The products already shown under a `pagination_id`."""

    async def shown(self, app_id: str, reader_id: str, pagination_id: str) -> list[str]: ...

    async def show(
        self,
        app_id: str,
        reader_id: str,
        pagination_id: str,
        product_ids: Sequence[str],
        *,
        is_strangers: bool = False,
    ) -> None:
        """Record shown products; fewer for unverified users, and for a bounded number of these."""
        ...

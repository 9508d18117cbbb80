"""What an app uses, in a dictionary."""

from __future__ import annotations

from cluster.store.app_quotas import UsageStore


class MemoryUsage(UsageStore):
    """`UsageStore` in a dictionary."""

    def __init__(self) -> None:
        self._sizes: dict[str, int] = {}

    async def set_stored_bytes(self, app_id: str, size: int) -> None:
        self._sizes[app_id] = size

    async def stored_bytes(self, app_id: str) -> int:
        return self._sizes.get(app_id, 0)

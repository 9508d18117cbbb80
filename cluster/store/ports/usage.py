"""The protocol of the store of what an app uses; only apps with a bound have an entry."""

from __future__ import annotations

from typing import Protocol


class UsageStore(Protocol):
    """Bytes of each app in the artifact store, as the intake measured them last."""

    async def set_stored_bytes(self, app_id: str, size: int) -> None: ...

    async def stored_bytes(self, app_id: str) -> int:
        """Return the bytes that the intake measured last; 0 before the first measurement."""
        ...

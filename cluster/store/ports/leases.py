"""The protocol of leases: exclusive rights to do a job, with an expiry."""

from __future__ import annotations

from typing import Protocol


class LeaseStore(Protocol):
    """Exclusive rights to do a job."""

    async def hold(self, name: str, owner: str, ttl_ms: int) -> bool:
        """Take or renew a lease; return False when another owner holds it."""
        ...

    async def release(self, name: str, owner: str) -> None: ...

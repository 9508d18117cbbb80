"""The protocol of the token buckets that all API replicas share."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True, slots=True)
class TokenGrant:
    """Tokens granted by a shared token bucket."""

    granted: int
    retry_after_ms: int


class LimitStore(Protocol):
    """Token buckets that all API replicas share."""

    async def take(
        self, app_id: str, key_id: str, bucket: str, *, rate: float, burst: int, want: int, now_ms: int
    ) -> TokenGrant:
        """Take up to `want` tokens from a shared bucket that refills at `rate` per second, and return the grant.

        `retry_after_ms` is 0 unless nothing was granted."""
        ...

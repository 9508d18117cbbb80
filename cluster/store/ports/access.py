"""The protocol of the store of apps and API keys."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

from cluster.records.access import ApiKey, App


@dataclass(frozen=True, slots=True)
class AccessBook:
    """All apps and keys, which an API replica keeps in memory to check keys."""

    version: int
    apps: Mapping[str, App]
    keys: Mapping[str, ApiKey]
    "SHA-256 hex of the key -> the key's record. Revoked keys are absent."
    unreadable_apps: frozenset[str] = frozenset()
    "Apps that only a newer release can read; they exist and must not be created again."
    unreadable_keys: frozenset[str] = frozenset()
    "SHA-256 hex of keys whose records only a newer release can read."


class AccessStore(Protocol):
    """Apps and API keys."""

    async def version(self) -> int:
        """Return the counter that every change increments."""
        ...

    async def read_all(self) -> AccessBook: ...

    async def put_app(self, app: App) -> None: ...

    async def put_key(self, key: ApiKey) -> None: ...

    async def replace_key(self, before: ApiKey, after: ApiKey) -> bool:
        """Replace a record whose key, labels and right stay the same; the counter stays.

        Returns False when the key was revoked or its record changed since it was read.
        """
        ...

    async def revoke_key(self, sha256: str) -> bool:
        """Remove a key; return False when it was absent."""
        ...

    async def put_exposed(self, key_id: str, at_ms: int) -> None:
        """Record that a secret key came in a URL, or (`IN_BROWSER` and the id) from a page."""
        ...

    async def exposed(self) -> dict[str, int]:
        """Return the last time that `put_exposed` recorded for each name; revoked keys are included."""
        ...

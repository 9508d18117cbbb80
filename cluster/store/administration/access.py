"""Apps and API keys: few records, read whole, with a counter that changes with every write."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeVar

from pydantic import BaseModel

from cluster.errors import NewerRelease
from cluster.records.access import ApiKey, App
from cluster.store import keys
from cluster.store.client.multiplexer import name_of
from cluster.store.client.redis_client import RedisClient
from cluster.store.client.script import Script
from cluster.store.seals.quarantine import Quarantine
from cluster.store.seals.record_seal import SealedRecords, seal_record


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


_PUT = Script.load("put_access")
_DROP = Script.load("drop_access")
_READ = Script.load("read_access")
_SWAP = Script.load("swap_account")

_Record = TypeVar("_Record", bound=BaseModel)


class AccessStore:
    """Apps and API keys."""

    def __init__(self, server: RedisClient, quarantine: Quarantine) -> None:
        self._server = server
        self._records = SealedRecords(quarantine)

    async def version(self) -> int:
        """Return the counter that every change increments."""
        return int(await self._server.execute("GET", keys.access_version()) or 0)

    async def read_all(self) -> AccessBook:
        names = [keys.access_version(), keys.access_app(), keys.access_key()]
        version, apps, api_keys = await self._server.run(_READ, names, [])
        found, unreadable_apps = await self._open_all(keys.access_app(), apps, App)
        found_keys, unreadable_keys = await self._open_all(keys.access_key(), api_keys, ApiKey)
        return AccessBook(int(version), found, found_keys, unreadable_apps, unreadable_keys)

    async def put_app(self, app: App) -> None:
        await self._put(keys.access_app(), app.app_id, app)

    async def put_key(self, key: ApiKey) -> None:
        await self._put(keys.access_key(), key.sha256, key)

    async def replace_key(self, before: ApiKey, after: ApiKey) -> bool:
        """Replace a record whose key, labels and right stay the same; the counter stays.

        Returns False when the key was revoked or its record changed since it was read.
        """
        key, name = keys.access_key(), before.sha256
        stored: bytes | None = await self._server.execute_slow("HGET", key, name)
        found = None if stored is None else await self._records.get(ApiKey, "", key, name, stored)
        if stored is None or found != before:
            return False
        return bool(await self._server.run(_SWAP, [key], [name, stored, seal_record(after, key, name)]))

    async def revoke_key(self, sha256: str) -> bool:
        """Remove a key; return False when it was absent."""
        return bool(await self._server.run(_DROP, [keys.access_key(), keys.access_version()], [sha256]))

    async def put_exposed(self, key_id: str, at_ms: int) -> None:
        """Record that a secret key came in a URL, or (`IN_BROWSER` and the id) from a page."""
        await self._server.execute("HSET", keys.access_exposed(), key_id, at_ms)

    async def exposed(self) -> dict[str, int]:
        """Return the last time that `put_exposed` recorded for each name; revoked keys are included."""
        flat = await self._server.execute("HGETALL", keys.access_exposed())
        found = zip(flat[::2], flat[1::2], strict=True)
        return {name_of(key_id): int(at_ms) for key_id, at_ms in found if at_ms.isdigit()}

    async def _put(self, hash_key: str, name: str, record: BaseModel) -> None:
        stored: bytes | None = await self._server.execute_slow("HGET", hash_key, name)
        record = await self._records.replacing(record, "", hash_key, name, stored)
        sealed = seal_record(record, hash_key, name)
        await self._server.run(_PUT, [hash_key, keys.access_version()], [name, sealed])

    async def _open_all(
        self, hash_key: str, flat: list[bytes], kind: type[_Record]
    ) -> tuple[dict[str, _Record], frozenset[str]]:
        """Read a hash of records, and the names of those that only a newer release can read."""
        found: dict[str, _Record] = {}
        unreadable = set()
        for name, sealed in zip(flat[::2], flat[1::2], strict=True):
            field = name_of(name)
            try:
                record = await self._records.get(kind, "", hash_key, field, sealed)
            except NewerRelease:
                unreadable.add(field)
                continue
            if record is not None:
                found[field] = record
        return found, frozenset(unreadable)

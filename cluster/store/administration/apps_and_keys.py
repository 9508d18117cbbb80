"""Apps, API keys and ended user tokens, each with a counter that changes with every write."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from cluster.ids import user_key_from_id
from cluster.records.api_keys import ApiKey
from cluster.records.apps import App
from cluster.store import keys
from cluster.store.client.redis_client import RedisClient
from cluster.store.client.replies import name_of, split_pairs, text_of
from cluster.store.client.script import Script
from cluster.store.data.salts import Salts
from cluster.store.seals.quarantine import Quarantine
from cluster.store.seals.sealed_hash import SealedHash


@dataclass(frozen=True, slots=True)
class AppsAndKeys:
    """All apps and keys, which an API replica keeps in memory to check keys."""

    version: int
    apps: Mapping[str, App]
    keys: Mapping[str, ApiKey]
    "SHA-256 hex of the key -> the key's record. Revoked keys are absent."
    unreadable_apps: frozenset[str] = frozenset()
    "Apps that only a newer release can read; they exist and must not be created again."
    unreadable_keys: frozenset[str] = frozenset()
    "SHA-256 hex of keys whose records only a newer release can read."


@dataclass(frozen=True, slots=True)
class EndedTokens:
    """Users of an app whose tokens ended."""

    salt: bytes = field(repr=False)
    "Salt of the pseudonyms."
    size: int
    "Number of all entries."
    times: Mapping[str, int]
    "Pseudonym, or `ALL_USERS` -> ms until which issued tokens have ended; those from the requested time on."


ALL_USERS = "*"
"Entry of all users: the time of the newest one that was removed."
MOST_ENDED = 100_000
"Users of an app whose tokens ended; an API replica takes 11 MB for them."
_REMOVED_AT_ONCE = 1_000
"Entries above the bound, so that replicas read all of them seldom."

_PUT = Script.load("put_access")
_DROP = Script.load("drop_access")
_READ = Script.load("read_access")
_END_TOKENS = Script.load("end_tokens")
_READ_ENDED = Script.load("read_ended")


class AppAndKeyStore:
    """Apps and API keys, and until when the tokens of users have ended."""

    def __init__(self, server: RedisClient, quarantine: Quarantine) -> None:
        self._server = server
        self._salts = Salts(server)
        self._apps = SealedHash(server, quarantine, App, lambda _: keys.access_app(), keys.access_version())
        self._keys = SealedHash(server, quarantine, ApiKey, lambda _: keys.access_key())

    async def version(self) -> int:
        """Return the counter that every change increments."""
        return int(await self._server.execute("GET", keys.access_version()) or 0)

    async def read_all(self) -> AppsAndKeys:
        names = [keys.access_version(), keys.access_app(), keys.access_key()]
        version, apps, api_keys = await self._server.run(_READ, names, [])
        apps_by_id, unreadable_apps = await self._apps.open_reporting("", apps)
        keys_by_sha256, unreadable_keys = await self._keys.open_reporting("", api_keys)
        return AppsAndKeys(int(version), apps_by_id, keys_by_sha256, unreadable_apps, unreadable_keys)

    async def add_app(self, app: App) -> bool:
        """Write an app whose id is free; return False when it is taken."""
        return await self._apps.swap("", app.app_id, b"", app)

    async def put_app(self, app: App) -> None:
        sealed = await self._apps.seal_update("", app.app_id, app)
        await self._put(keys.access_app(), app.app_id, sealed)

    async def update_app(self, app_id: str, change: Callable[[App], App]) -> App | None:
        """Replace an app by what `change` makes of it, and return it; None when it is absent.

        Of concurrent changes none is lost: `change` is called again with what the other one wrote.

        Errors:
            NewerRelease: only a newer release can read the app
        """
        return await self._apps.update("", app_id, change)

    async def put_key(self, key: ApiKey) -> None:
        sealed = await self._keys.seal_update("", key.sha256, key)
        await self._put(keys.access_key(), key.sha256, sealed)

    async def replace_key(self, before: ApiKey, after: ApiKey) -> bool:
        """Replace a record whose key, labels and right stay the same; the counter stays.

        Returns False when the key was revoked or its record changed since it was read.
        """
        sealed = await self._keys.read("", before.sha256)
        if sealed is None or await self._keys.unseal("", before.sha256, sealed) != before:
            return False
        return await self._keys.swap("", before.sha256, sealed, after)

    async def revoke_key(self, sha256: str) -> bool:
        """Remove a key; return False when it was absent."""
        return bool(await self._server.run(_DROP, [keys.access_key(), keys.access_version()], [sha256]))

    async def record_exposed_key(self, key_id: str, at_ms: int) -> None:
        """Record that a secret key came in a URL, or (`IN_BROWSER` and the id) from a page."""
        await self._server.execute("HSET", keys.access_exposed(), key_id, at_ms)

    async def list_exposed_keys(self) -> dict[str, int]:
        """Return the last time that `record_exposed_key` recorded for each name; revoked keys are included."""
        flat = await self._server.execute("HGETALL", keys.access_exposed())
        return {name_of(key_id): int(at_ms) for key_id, at_ms in split_pairs(flat) if at_ms.isdigit()}

    async def end_tokens(self, app_id: str, user_id: str, now_ms: int) -> None:
        """End the tokens of a user that were issued until now; each replica knows it after its next poll."""
        mark = await self._salts.pseudonym(app_id, user_key_from_id(user_id))
        names = [keys.ended_tokens(app_id), keys.ended_tokens_version()]
        # One script: a process that dies between entry and number would leave the replicas unaware.
        await self._server.run(_END_TOKENS, names, [mark, now_ms, MOST_ENDED, _REMOVED_AT_ONCE, app_id])

    async def ended_counts(self) -> dict[str, int]:
        """Return a number for each app with ended tokens, which changes with them."""
        flat = await self._server.execute("HGETALL", keys.ended_tokens_version())
        return {name_of(app_id): int(count) for app_id, count in split_pairs(flat)}

    async def ended_tokens(self, app_id: str, since_ms: int) -> EndedTokens:
        """Return the ended tokens of an app from a time on."""
        sizes = 0
        times: dict[str, int] = {}
        for name in (keys.former_ended_tokens(app_id), keys.ended_tokens(app_id)):
            size, flat = await self._server.run(_READ_ENDED, [name], [since_ms])
            sizes += int(size)
            for mark, at_ms in split_pairs(flat):
                times[text_of(mark)] = max(int(float(at_ms)), times.get(text_of(mark), 0))
        return EndedTokens(await self._salts.get(app_id), sizes, times)

    async def read_token_end(self, app_id: str, user_id: str) -> int | None:
        """Return until when, in ms, issued tokens of a user have ended; None if they were never ended."""
        mark = await self._salts.pseudonym(app_id, user_key_from_id(user_id))
        names = (keys.former_ended_tokens(app_id), keys.ended_tokens(app_id))
        stored = [await self._server.execute_slow("ZSCORE", name, mark) for name in names]
        return max((int(float(at_ms)) for at_ms in stored if at_ms is not None), default=None)

    async def _put(self, hash_key: str, field: str, sealed: bytes) -> None:
        await self._server.run(_PUT, [hash_key, keys.access_version()], [field, sealed])

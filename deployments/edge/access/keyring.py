"""All live keys in memory, refreshed in the background, so that no request reads its key from the store.

Every replica refuses a revoked key within one poll (a quarter of a second). An unknown key costs one hash and no
round trip, so guessed keys do not load the store.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping

import structlog

from cluster.crypto import Vault, derive_token_key, key_sha256
from cluster.errors import Fault, NewerRelease
from cluster.records.api_keys import ApiKey, reveal_key
from cluster.records.apps import IN_BROWSER, App, AppSettings, find_archive_app
from cluster.records.archive.archive_terms import ArchiveTerms
from cluster.records.archive.named_archive import NamedArchive
from cluster.store.administration.apps_and_keys import AppAndKeyStore, AppsAndKeys
from cluster.store.refreshing_cache import RefreshingCache
from deployments.edge.access.token_revocation import EndedTokenCache
from deployments.edge.http.credentials import Credential

EXPOSED_EVERY_MS = 3_600_000
_ALL = "all"
"The only entry of the cache."

_DEFAULT_SETTINGS = AppSettings()
_log = structlog.get_logger()


class Keyring:
    """Looks keys up by hash and follows the version counter in the store."""

    def __init__(self, store: AppAndKeyStore, vault: Vault, *, poll_s: float = 0.25) -> None:
        self._store = store
        self._vault = vault
        self.ended_tokens = EndedTokenCache(store)
        # It bounds how long a revoked key still works.
        self._poll_s = poll_s
        self._version = -1
        self._credentials: dict[str, Credential] = {}
        self._apps: Mapping[str, App] = {}
        self._terms: Mapping[str, Mapping[str, ArchiveTerms]] = {}
        self._unreadable: frozenset[str] = frozenset()
        self._cache = RefreshingCache(self._load)
        self._listeners: list[Callable[[frozenset[str]], None]] = []
        self._exposed: dict[str, int] = {}
        self._unwritten: dict[str, int] = {}
        self.ready = False
        "False until keys were first read; until then an API replica answers 503 instead of 401."

    def find(self, key: str) -> Credential | None:
        """Return the credential of a key; None for an unknown one.

        Cost: 1 microsecond. Every key is hashed, and the look-up compares hashes, so its time discloses nothing about
        a key.

        Errors:
            NewerRelease: only a newer release can read the record of the key or of its app
        """
        digest = key_sha256(key)
        credential = self._credentials.get(digest)
        # During a rolling upgrade another replica can read it; a 401 would say that the key is wrong.
        if credential is None and digest in self._unreadable:
            raise NewerRelease(
                "a newer release of kiosk wrote the record of this key or app", retry_after_s=1
            )
        return credential

    def on_change(self, listener: Callable[[frozenset[str]], None]) -> None:
        """Call `listener` with the ids of all live keys after every change."""
        self._listeners.append(listener)

    def record_exposed(self, credential: Credential, now_ms: int, *, in_browser: bool = False) -> None:
        """Record that a secret key was sent in an address, which proxies log, or from a page of another origin.

        It records each key and way at most once an hour.

        Cost:
            0.2 microseconds if it was recorded within the hour
        """
        name = IN_BROWSER + credential.key_id if in_browser else credential.key_id
        if now_ms - self._exposed.get(name, -EXPOSED_EVERY_MS) < EXPOSED_EVERY_MS:
            return
        self._exposed[name] = self._unwritten[name] = now_ms
        event = "secret_key_in_browser" if in_browser else "secret_key_in_address"
        _log.warning(event, key_id=credential.key_id, app=credential.app.app_id)

    @property
    def app_ids(self) -> tuple[str, ...]:
        """App ids with at least one live key."""
        return tuple(sorted({credential.app.app_id for credential in self._credentials.values()}))

    def display_name_of(self, app_id: str) -> str:
        """Return the name that people read for an app; its id if it has none."""
        app = self._apps.get(app_id)
        return app_id if app is None else app.display_name or app_id

    def find_publishable(self, app_id: str) -> Credential | None:
        """Return a live publishable key of an app; None without one."""
        credentials = [
            credential
            for credential in self._credentials.values()
            if credential.app.app_id == app_id and not credential.is_secret and credential.text
        ]
        return min(credentials, key=lambda credential: credential.key_id, default=None)

    def default_archive_app(self, default: str) -> str:
        """Return the app that agents read; the default before one was chosen."""
        return find_archive_app(self._apps, default)

    def find_archive(self, app_id: str) -> NamedArchive | None:
        """Return how agents read an app at an address of its own; None without such an address."""
        app = self._apps.get(app_id)
        return None if app is None else app.archive

    def list_archives(self) -> dict[str, NamedArchive]:
        """Return the apps that have an address of their own for agents, by app."""
        return {app_id: app.archive for app_id, app in sorted(self._apps.items()) if app.archive is not None}

    def list_archive_terms(self) -> Mapping[str, Mapping[str, ArchiveTerms]]:
        """Return the terms that machines read, by app and name; apps without any are absent. Cost: 0.1 microseconds."""
        return self._terms

    def settings_of(self, app_id: str) -> AppSettings:
        """Return the switches of an app; the default ones of an unknown app."""
        app = self._apps.get(app_id)
        return _DEFAULT_SETTINGS if app is None else app.settings

    def llm_token_limit(self, app_id: str) -> int:
        """Return how many language-model tokens the answers of an app may use per day; 0: no limit."""
        for credential in self._credentials.values():
            if credential.app.app_id == app_id:
                return credential.app.settings.provider_tokens_per_day
        return 0

    def served_log_of(self, app_id: str) -> str:
        """Return the mode of an app's log of answers; `off` for an unknown app."""
        for credential in self._credentials.values():
            if credential.app.app_id == app_id:
                return credential.app.settings.served_log
        return "off"

    def affiliation_of(self, app_id: str) -> tuple[str, tuple[str, ...]]:
        """Return an app's filter of partners' products, and the fields that browsers can't read."""
        for credential in self._credentials.values():
            if credential.app.app_id == app_id:
                return credential.app.settings.affiliation_fq, credential.app.settings.confidential_fields
        return "", ()

    def secret_of(self, app_id: str) -> str:
        """Return the newest live secret key of an app as text; empty without one."""
        for credential in self._credentials.values():
            if credential.app.app_id == app_id and credential.secrets:
                return credential.secrets[0].decode()
        return ""

    def address_key(self, app_id: str) -> bytes:
        """Return the key of digests of client addresses in an app without a secret key; equal on all replicas."""
        return self._vault.derive(f"client addresses {app_id}")

    @property
    def is_following(self) -> bool:
        """Whether the background task is running."""
        return self._cache.is_following(_ALL)

    async def start(self) -> None:
        """Read all keys once, if the store answers, and start to follow changes."""
        await self._cache.follow(
            _ALL,
            self._poll_s,
            away_event="keys_not_followed",
            back_event="keys_followed_again",
            after=self._write_exposed,
        )

    async def wait_until_read(self, within_s: float) -> bool:
        """Wait until keys were read once; return False if the store did not answer meanwhile.

        A process that starts on a busy machine may miss the short deadline of the first read.
        """
        tries = round(within_s / self._poll_s)
        while not self.ready and tries > 0:
            tries -= 1
            await asyncio.sleep(self._poll_s)
        return self.ready

    async def close(self) -> None:
        """Stop following changes."""
        await self._cache.close()

    async def refresh(self) -> None:
        """Read all keys again if their version changed.

        Errors:
            Unavailable: the store is unavailable; the keys read last stay valid
        """
        await self._cache.refresh(_ALL)

    async def _load(self, _key: str, last: dict[str, Credential] | None) -> dict[str, Credential]:
        # Two small reads each poll; the book itself is read only when its version changed. Ended tokens come first:
        # without them, `ready` would let ended ones pass.
        await self.ended_tokens.refresh()
        version = await self._store.version()
        if last is not None and version == self._version:
            return last
        book = await self._store.read_all()
        self._credentials = self._open(book)
        self._apps = book.apps
        self._terms = {app_id: app.terms for app_id, app in book.apps.items() if app.terms}
        blocked = {key.sha256 for key in book.keys.values() if key.app_id in book.unreadable_apps}
        self._unreadable = book.unreadable_keys | blocked
        # The version that came with the book: the one read above may be older already.
        self._version = book.version
        self.ready = True
        live = frozenset(credential.key_id for credential in self._credentials.values())
        for listener in self._listeners:
            # After the new keys serve: a listener drops what belongs to keys that are gone.
            listener(live)
        self._exposed = {
            name: at_ms for name, at_ms in self._exposed.items() if name.removeprefix(IN_BROWSER) in live
        }
        _log.info("keys_loaded", keys=len(live), version=book.version)
        return self._credentials

    def _open(self, book: AppsAndKeys) -> dict[str, Credential]:
        opened = [(key, self._reveal(key)) for key in book.keys.values() if key.app_id in book.apps]
        secrets: dict[str, list[tuple[int, bytes]]] = {}
        for key, text in opened:
            if key.kind == "secret" and text:
                secrets.setdefault(key.app_id, []).append((key.created_at, text.encode()))
        signing = {
            # The newest first: new signatures use it, and the older ones still verify what is in
            # circulation.
            app_id: tuple(secret for _, secret in sorted(app_secrets, reverse=True))
            for app_id, app_secrets in secrets.items()
        }
        token_keys = {
            app_id: tuple(map(derive_token_key, app_secrets)) for app_id, app_secrets in signing.items()
        }
        return {
            # use the hash inside the record, not the hash it was stored under: otherwise a copied record would
            # accept another key
            key.sha256: Credential(
                app=book.apps[key.app_id],
                key_id=key.key_id,
                kind=key.kind,
                text=text,
                secrets=signing.get(key.app_id, ()),
                token_keys=token_keys.get(key.app_id, ()),
            )
            for key, text in opened
            if text
        }

    def _reveal(self, key: ApiKey) -> str:
        try:
            return reveal_key(self._vault, key)
        except Fault as error:
            # One damaged key must not keep all others from being loaded; `_open` leaves out keys without a
            # text.
            _log.error("key_unreadable", key_id=key.key_id, app=key.app_id, reason=error.message)
            return ""

    async def _write_exposed(self) -> None:
        # Deleted one by one after the write, so that a failure keeps the rest for the next poll.
        # From a copy, because requests add keys while this method waits for the store.
        for key_id, at_ms in list(self._unwritten.items()):
            await self._store.record_exposed_key(key_id, at_ms)
            del self._unwritten[key_id]

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest
import structlog

from cluster.crypto import Vault, key_sha256
from cluster.errors import Unavailable
from cluster.records.api_keys import IssuedKey, KeyKind, issue_key
from cluster.records.apps import App
from cluster.store.administration.apps_and_keys import AppAndKeyStore, AppsAndKeys
from deployments.edge.access.keyring import Keyring
from tests.fakes.request_handler import MASTER, StillClock, open_corner
from tests.fakes.stores.memory import memory_stores
from tests.suites.waiting import until

VAULT = Vault(MASTER)
APP = App(app_id="shop", environment="development", created_at=0)


class Counted:
    """An access store that counts reads of the book and can be away."""

    def __init__(self, store: AppAndKeyStore) -> None:
        self._store = store
        self.books = 0
        self.away = False

    async def version(self) -> int:
        if self.away:
            raise Unavailable("away")
        return await self._store.version()

    async def ended_counts(self) -> dict[str, int]:
        if self.away:
            raise Unavailable("away")
        return await self._store.ended_counts()

    async def read_all(self) -> AppsAndKeys:
        self.books += 1
        return await self._store.read_all()


@pytest.fixture
async def store() -> AppAndKeyStore:
    store = memory_stores(StillClock()).access
    await store.put_app(APP)
    return store


async def put_key(store: AppAndKeyStore, kind: KeyKind = "secret", /, **changes: str) -> IssuedKey:
    """Store a new key of the app, with a record that was changed afterwards."""
    issued = issue_key(VAULT, APP, kind, now_ms=1)
    await store.put_key(issued.record.model_copy(update=changes))
    return issued


async def test_a_key_gives_its_app_and_the_secrets_of_the_app(store: AppAndKeyStore) -> None:
    secret, public = await put_key(store), await put_key(store, "publishable")
    ring = Keyring(store, VAULT)
    await ring.refresh()
    credential = ring.find(public.text)
    assert credential is not None
    assert (credential.app, credential.kind) == (APP, "publishable")
    assert credential.secrets == (secret.text.encode(),)
    assert secret.text not in repr(credential)
    assert public.text not in repr(credential)
    assert ring.find(secret.text[:-1]) is None
    assert ring.find("") is None
    assert ring.app_ids == ("shop",)


async def test_unknown_keys_never_reach_the_store(store: AppAndKeyStore) -> None:
    counted = Counted(store)
    ring = Keyring(counted, VAULT)  # type: ignore[arg-type]
    await ring.refresh()
    for guess in range(100):
        assert ring.find(f"ksk_dev_{guess}") is None
    await ring.refresh()
    assert counted.books == 1


async def test_a_revoked_key_is_refused_within_a_second(store: AppAndKeyStore) -> None:
    issued = await put_key(store)
    ring = Keyring(store, VAULT, poll_s=0.02)
    await ring.start()
    try:
        assert ring.find(issued.text) is not None
        await store.revoke_key(issued.record.sha256)
        assert await until(lambda: ring.find(issued.text) is None) < 0.5
        assert Keyring(store, VAULT)._poll_s <= 0.25
    finally:
        await ring.close()
    assert not ring.is_following


async def test_an_absent_store_leaves_cached_keys_valid_and_is_followed_again(store: AppAndKeyStore) -> None:
    first = await put_key(store)
    counted = Counted(store)
    ring = Keyring(counted, VAULT, poll_s=0.01)  # type: ignore[arg-type]
    with structlog.testing.capture_logs() as lines:
        await ring.start()
        counted.away = True
        await until(lambda: "keys_not_followed" in [line["event"] for line in lines])
        assert ring.find(first.text) is not None
        counted.away = False
        second = await put_key(store, "publishable")
        await until(lambda: ring.find(second.text) is not None)
        await ring.close()
    events = [line["event"] for line in lines]
    assert events.count("keys_not_followed") == 1
    assert first.text not in str(lines)


async def test_a_door_that_started_without_its_store_is_not_ready_until_it_comes(
    store: AppAndKeyStore,
) -> None:
    counted = Counted(store)
    counted.away = True
    ring = Keyring(counted, VAULT, poll_s=0.01)  # type: ignore[arg-type]
    await ring.start()
    assert not ring.ready
    counted.away = False
    await until(lambda: ring.ready)
    await ring.close()


async def test_a_replica_waits_for_its_first_keys_and_no_longer(store: AppAndKeyStore) -> None:
    counted = Counted(store)
    counted.away = True
    ring = Keyring(counted, VAULT, poll_s=0.005)
    await ring.start()
    assert not await ring.wait_until_read(0.02)
    waiting = asyncio.create_task(ring.wait_until_read(10.0))
    await asyncio.sleep(0)
    assert not waiting.done()
    counted.away = False
    assert await waiting
    assert await ring.wait_until_read(10.0)
    await ring.close()


async def test_a_key_sealed_under_another_master_key_is_skipped_and_logged(store: AppAndKeyStore) -> None:
    readable, other = await put_key(store), issue_key(Vault(bytes(32)), APP, "publishable", now_ms=1)
    await store.put_key(other.record)
    ring = Keyring(store, VAULT)
    with structlog.testing.capture_logs() as lines:
        await ring.refresh()
    assert ring.find(readable.text) is not None
    assert ring.find(other.text) is None
    assert [line["event"] for line in lines] == ["key_unreadable", "keys_loaded"]


async def test_listeners_hear_which_keys_are_alive(store: AppAndKeyStore) -> None:
    issued = await put_key(store)
    ring = Keyring(store, VAULT)
    heard: list[frozenset[str]] = []
    ring.on_change(heard.append)
    await ring.refresh()
    await store.revoke_key(issued.record.sha256)
    await ring.refresh()
    assert heard == [frozenset({issued.record.key_id}), frozenset()]


async def test_an_exposed_secret_key_is_logged_once_an_hour_without_the_key(store: AppAndKeyStore) -> None:
    issued = await put_key(store)
    ring = Keyring(store, VAULT, poll_s=0.01)
    await ring.start()
    credential = ring.find(issued.text)
    assert credential is not None
    with structlog.testing.capture_logs() as lines:
        for at_ms in (0, 1, 3_599_999, 3_600_000, 3_600_001):
            ring.record_exposed(credential, at_ms)
            ring.record_exposed(credential, at_ms, in_browser=True)
            await until(lambda: not ring._unwritten)
    await ring.close()
    for event in ("secret_key_in_address", "secret_key_in_browser"):
        warnings = [line for line in lines if line["event"] == event]
        assert [line["key_id"] for line in warnings] == [credential.key_id] * 2
    assert issued.text not in str(lines)
    assert await store.list_exposed_keys() == {
        credential.key_id: 3_600_000,
        "browser:" + credential.key_id: 3_600_000,
    }


@pytest.mark.parametrize(
    "change", [{"kind": "secret"}, {"app_id": "other"}, {"key_id": "key-1"}, {"mac": ""}]
)
async def test_a_relabelled_key_is_skipped_and_logged(store: AppAndKeyStore, change: dict[str, str]) -> None:
    """Who writes Redis makes no browser key a secret one, and moves it to no other app."""
    await store.put_app(APP.model_copy(update={"app_id": "other"}))
    issued = await put_key(store, "publishable", **change)
    ring = Keyring(store, VAULT)
    with structlog.testing.capture_logs() as logs:
        await ring.refresh()
    assert ring.find(issued.text) is None
    assert [line["event"] for line in logs if line["log_level"] == "error"] == ["key_unreadable"]
    assert ring.ready


class Copied:
    """An access store in which a key's record stands under the hash of another text as well."""

    def __init__(self, store: AppAndKeyStore, sha256: str) -> None:
        self._store = store
        self._sha256 = sha256

    async def version(self) -> int:
        return await self._store.version()

    async def ended_counts(self) -> dict[str, int]:
        return await self._store.ended_counts()

    async def read_all(self) -> AppsAndKeys:
        book = await self._store.read_all()
        (record,) = book.keys.values()
        return replace(book, keys={**book.keys, self._sha256: record})


async def test_a_record_under_the_hash_of_another_text_opens_for_its_key_only(store: AppAndKeyStore) -> None:
    issued = await put_key(store)
    ring = Keyring(Copied(store, key_sha256("chosen by somebody")), VAULT)  # type: ignore[arg-type]
    await ring.refresh()
    assert ring.find(issued.text) is not None
    assert ring.find("chosen by somebody") is None


async def test_the_keyring_finds_the_publishable_key_of_an_app_and_never_a_secret_one() -> None:
    corner = await open_corner()
    publishable = corner.keyring.find_publishable("shop")
    assert publishable is not None
    assert (publishable.text, publishable.kind) == (corner.publishable(), "publishable")
    assert corner.keyring.find_publishable("nobody") is None

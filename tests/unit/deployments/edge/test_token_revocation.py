"""Which tokens have ended: by user, by time of issue, and by the time of entries that were removed."""

from __future__ import annotations

from typing import Any

import pytest

from cluster.errors import Unauthenticated
from cluster.store.administration.apps_and_keys import ALL_USERS, AppAndKeyStore, EndedTokens
from deployments.edge.access.token_revocation import EndedTokenCache
from deployments.edge.http.credentials import UserToken
from tests.fakes.request_handler import StillClock
from tests.fakes.stores.memory import memory_stores

AT = 1_800_000_000
"When tokens end, in seconds."


class CountedReads:
    """An access store that counts how many entries were read, and may hide some."""

    def __init__(self, store: AppAndKeyStore) -> None:
        self._store = store
        self.entries = 0
        self.more: dict[str, int] = {}
        self.removed: frozenset[str] = frozenset()

    async def ended_counts(self) -> dict[str, int]:
        return await self._store.ended_counts()

    async def ended_tokens(self, app_id: str, since_ms: int) -> EndedTokens:
        ended = await self._store.ended_tokens(app_id, since_ms)
        times = {mark: at_ms for mark, at_ms in {**ended.times, **self.more}.items() if at_ms >= since_ms}
        for mark in self.removed:
            times.pop(mark, None)
        self.entries += len(times)
        return EndedTokens(ended.salt, ended.size + len(self.more) - len(self.removed), times)


@pytest.fixture
def store() -> AppAndKeyStore:
    return memory_stores(StillClock()).access


def has_ended(cache: EndedTokenCache, user_id: str = "ada", app_id: str = "shop", **claims: Any) -> bool:
    try:
        cache.check(app_id, UserToken(user_id, "", claims), (AT + 60) * 1_000)
    except Unauthenticated:
        return True
    return False


@pytest.mark.parametrize(
    ("issued", "ended"),
    [
        (AT - 1, True),
        (AT, True),
        (AT + 0.2, True),
        (AT + 0.3, False),
        (AT + 1, False),
        (AT + 300, False),
        (AT + 361, True),
        (AT * 1_000, True),
        (-1, True),
        ("1800000001", True),
        (True, True),
        (None, True),
    ],
)
async def test_tokens_of_a_user_end_by_their_time_of_issue(
    store: AppAndKeyStore, issued: Any, ended: bool
) -> None:
    await store.end_tokens("shop", "ada", AT * 1_000 + 250)
    cache = EndedTokenCache(store)
    await cache.refresh()
    assert has_ended(cache, iat=issued) is ended
    assert has_ended(cache), "without `iat` nothing says that the token is newer"
    assert not has_ended(cache, "bob", iat=issued)
    assert not has_ended(cache, app_id="other", iat=issued)
    assert not has_ended(cache, "", iat=issued), "a token that names nobody"


async def test_a_later_end_counts_and_an_earlier_one_changes_nothing(store: AppAndKeyStore) -> None:
    cache = EndedTokenCache(store)
    for at_s, ended in ((AT, False), (AT + 20, True), (AT + 5, True)):
        await store.end_tokens("shop", "ada", at_s * 1_000)
        await cache.refresh()
        assert has_ended(cache, iat=AT + 10) is ended


async def test_removed_entries_end_the_tokens_of_all_users_that_have_a_time(store: AppAndKeyStore) -> None:
    counted = CountedReads(store)
    counted.more = {ALL_USERS: (AT - 100) * 1_000}
    await store.end_tokens("shop", "ada", AT * 1_000)
    cache = EndedTokenCache(counted)  # type: ignore[arg-type]
    await cache.refresh()
    assert has_ended(cache, "bob", iat=AT - 100)
    assert not has_ended(cache, "bob", iat=AT - 99)
    assert not has_ended(cache, "bob"), "only an entry of the user ends it"


async def test_a_poll_reads_the_newest_entries_alone_and_all_where_some_are_missing(
    store: AppAndKeyStore,
) -> None:
    counted = CountedReads(store)
    cache = EndedTokenCache(counted)  # type: ignore[arg-type]
    for number in range(50):
        await store.end_tokens("shop", f"user-{number}", (AT - 10_000 + number) * 1_000)
    await cache.refresh()
    await cache.refresh()
    assert counted.entries == 50
    await store.end_tokens("shop", "ada", AT * 1_000)
    await cache.refresh()
    assert counted.entries == 50 + 51, "the newest of all was within the overlap of the others"
    await store.end_tokens("shop", "bob", (AT + 1) * 1_000)
    await cache.refresh()
    assert counted.entries == 50 + 51 + 2
    assert has_ended(cache, "user-0", iat=0)
    # The clock of the other machine is an hour behind.
    await store.end_tokens("shop", "eve", (AT - 3_600) * 1_000)
    await cache.refresh()
    assert has_ended(cache, "eve", iat=AT - 3_600)
    counted.removed = frozenset(list((await store.ended_tokens("shop", 0)).times)[:50])
    await store.end_tokens("shop", "bob", (AT + 2) * 1_000)
    await cache.refresh()
    assert not has_ended(cache, "user-0", iat=0)

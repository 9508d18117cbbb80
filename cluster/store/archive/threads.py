"""Threads of an app in one hash by user, with their revisions, the set of new ones, and the watched ones."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from cluster.errors import NewerRelease
from cluster.records.thread import UserThreads
from cluster.store import keys
from cluster.store.client.multiplexer import Argument
from cluster.store.client.redis_client import RedisClient
from cluster.store.client.replies import name_of, split_pairs, text_of
from cluster.store.client.script import Script
from cluster.store.seals.quarantine import Quarantine
from cluster.store.seals.record_seal import SealedRecords, record_json
from cluster.store.seals.seal import salt_from_key, seal


@dataclass(frozen=True, slots=True)
class ThreadWatcher:
    """A user with threads that ask for notifications."""

    user_id: str
    version: int
    "The app's thread version when this user's watched threads last changed."


_SWAP = Script.load("swap_threads")
_READ = Script.load("read_threads")
_ERASE = Script.load("erase_threads")
_PAGE = 100
_DERIVED = {"revision"}
"Stored beside the value, not in it."


class ThreadStore:
    """Users' threads, one value for each user. Reads see every acknowledged write."""

    def __init__(self, server: RedisClient, quarantine: Quarantine) -> None:
        self._server = server
        self._records = SealedRecords(quarantine)

    async def read(self, app_id: str, user_id: str) -> UserThreads:
        """Return a user's threads; an empty value of revision 0 for a user without threads."""
        return (await self._read_all(app_id, [user_id]))[0]

    async def read_many(self, app_id: str, user_ids: Sequence[str]) -> list[UserThreads]:
        """Read several; a value that only a newer release can read is empty in the result, and `read`
        refuses it.
        """
        return await self._read_all(app_id, user_ids, skips_unreadable=True)

    async def _read_all(
        self, app_id: str, user_ids: Sequence[str], *, skips_unreadable: bool = False
    ) -> list[UserThreads]:
        names = [keys.threads(app_id), keys.thread_revision(app_id)]
        histories = []
        for page in _pages(user_ids):
            bodies, revisions = await self._server.run(_READ, names, page)
            for user_id, sealed, revision in zip(page, bodies, revisions, strict=True):
                try:
                    threads = await self._open(app_id, user_id, sealed)
                except NewerRelease:
                    if not skips_unreadable:
                        raise
                    threads = UserThreads()
                histories.append(threads.model_copy(update={"revision": int(revision or 0)}))
        return histories

    async def compare_and_set(
        self, app_id: str, user_id: str, before: UserThreads, after: UserThreads
    ) -> bool:
        """Write a user's threads if they are unchanged since `before`; else write nothing and return False.

        A value without threads is not stored. No revision ever repeats, even after an erasure.
        """
        sealed = b""
        # Unknown fields of a newer release are kept also without threads.
        if after.threads or after.model_extra:
            body = record_json(after, exclude=_DERIVED, exclude_defaults=True)
            sealed = seal(body, salt_from_key(keys.threads(app_id), user_id))
        watching = (
            "nothing" if not after.watched else "same" if after.watched == before.watched else "changed"
        )
        args: list[Argument] = [user_id, before.revision, sealed, int(after.has_new), watching]
        return bool(await self._server.run(_SWAP, _names(app_id), args))

    async def has_new(self, app_id: str, user_id: str) -> bool:
        """Return whether the account's indicator is on; a short read at any number of threads."""
        return bool(await self._server.execute("SISMEMBER", keys.thread_new(app_id), user_id))

    async def erase(self, app_id: str, user_ids: Sequence[str]) -> int:
        """Erase all threads of users; return how many users had some."""
        return await erase_threads(self._server, app_id, user_ids)

    async def watchers(self, app_id: str, after: int, limit: int) -> list[ThreadWatcher]:
        """Return users who watch threads and changed them after a version, the longest unchanged first.

        Users who no longer watch anything are absent.
        """
        flat = await self._server.execute_slow(
            "ZRANGEBYSCORE",
            keys.thread_watch(app_id),
            f"({after}",
            "+inf",
            "WITHSCORES",
            "LIMIT",
            0,
            limit,
        )
        # A score is a double: Redis may write it with an exponent, which `int` refuses.
        return [ThreadWatcher(name_of(name), int(float(score))) for name, score in split_pairs(flat)]

    async def judged_offset(self, app_id: str) -> str:
        """Return the product offset up to which the app's threads were judged; empty before the first time."""
        return text_of(await self._server.execute_slow("GET", keys.thread_judged(app_id)) or b"")

    async def record_judged_offset(self, app_id: str, offset: str) -> None:
        """Record the product offset up to which the app's threads were judged."""
        await self._server.execute_slow("SET", keys.thread_judged(app_id), offset)

    async def _open(self, app_id: str, user_id: str, sealed: bytes | None) -> UserThreads:
        if sealed is None:
            return UserThreads()
        key = keys.threads(app_id)
        threads = await self._records.get(UserThreads, app_id, key, user_id, sealed)
        if threads is not None:
            return threads
        # a thread that can't be returned must not be announced
        await self._server.execute_slow("SREM", keys.thread_new(app_id), user_id)
        return UserThreads()


async def erase_threads(server: RedisClient, app_id: str, user_ids: Sequence[str]) -> int:
    """Erase all threads of users and return how many had some; see `ThreadStore`."""
    gone = 0
    for page in _pages(list(dict.fromkeys(user_ids))):
        gone += int(await server.run(_ERASE, _names(app_id), page))
    return gone


def _names(app_id: str) -> list[str]:
    of = keys
    return [
        name(app_id)
        for name in (of.threads, of.thread_revision, of.thread_new, of.thread_watch, of.thread_version)
    ]


def _pages(user_ids: Sequence[str]) -> Iterator[list[str]]:
    for start in range(0, len(user_ids), _PAGE):
        yield list(user_ids[start : start + _PAGE])

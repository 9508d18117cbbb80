"""The protocol of the store of history threads."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from cluster.records.thread import ReaderThreads


@dataclass(frozen=True, slots=True)
class ThreadWatcher:
    """A user with threads that ask for notifications."""

    user_id: str
    version: int
    "The app's thread version when this user's watched threads last changed."


class ThreadStore(Protocol):
    """Users' threads, one value for each user. Reads see every acknowledged write."""

    async def read(self, app_id: str, user_id: str) -> ReaderThreads:
        """Return a user's threads; an empty value of revision 0 for a user without threads."""
        ...

    async def read_many(self, app_id: str, user_ids: Sequence[str]) -> list[ReaderThreads]:
        """Read several; a value that only a newer release can read is empty in the result, and `read`
        refuses it.
        """
        ...

    async def compare_and_set(
        self, app_id: str, user_id: str, before: ReaderThreads, after: ReaderThreads
    ) -> bool:
        """Write a user's threads if they are unchanged since `before`; else write nothing and return False.

        A value without threads is not stored. No revision ever repeats, even after an erasure.
        """
        ...

    async def has_new(self, app_id: str, user_id: str) -> bool:
        """Return whether the account's indicator is on; a short read at any number of threads."""
        ...

    async def erase(self, app_id: str, user_ids: Sequence[str]) -> int:
        """Erase all threads of users; return how many users had some."""
        ...

    async def watchers(self, app_id: str, after: int, limit: int) -> list[ThreadWatcher]:
        """Return users who watch threads and changed them after a version, the longest unchanged first.

        Users who no longer watch anything are absent.
        """
        ...

    async def judged_offset(self, app_id: str) -> str:
        """Return the product offset up to which the app's threads were judged; empty before the first time."""
        ...

    async def record_judged_offset(self, app_id: str, offset: str) -> None:
        """Record the product offset up to which the app's threads were judged."""
        ...

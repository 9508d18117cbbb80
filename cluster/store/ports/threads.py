"""What the store of history threads promises; part of `ports`, and kept to the same rules."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from cluster.records.thread import ReaderThreads


@dataclass(frozen=True, slots=True)
class ThreadWatcher:
    """A reader with threads that want to be told of news."""

    user_id: str
    version: int
    "Of the app's threads when what this reader watches last changed."


class ThreadStore(Protocol):
    """Readers' threads, one value a reader. Reads see every write that was answered before."""

    async def read(self, app_id: str, user_id: str) -> ReaderThreads:
        """Read a reader's threads; one who has none has an empty value of revision 0."""
        ...

    async def read_many(self, app_id: str, user_ids: Sequence[str]) -> list[ReaderThreads]: ...

    async def compare_and_set(
        self, app_id: str, user_id: str, before: ReaderThreads, after: ReaderThreads
    ) -> bool:
        """Write a reader's threads if nobody wrote them since `before` was read; False, and nothing is written, else.

        A value without threads is not stored at all. No revision ever comes twice, also not after an erasure.
        """
        ...

    async def has_new(self, app_id: str, user_id: str) -> bool:
        """Is the account's indicator on? A short read, whatever the number of threads."""
        ...

    async def erase(self, app_id: str, user_ids: Sequence[str]) -> int:
        """Forget all threads of readers; return how many readers had some."""
        ...

    async def watchers(self, app_id: str, after: int, limit: int) -> list[ThreadWatcher]:
        """List readers who watch something and changed what since a version, the longest unchanged first.

        One who watches nothing any more is absent.
        """
        ...

    async def judged_offset(self, app_id: str) -> str:
        """Read up to which product change the app's threads were judged; empty when they never were."""
        ...

    async def record_judged_offset(self, app_id: str, offset: str) -> None:
        """Say up to which product change they were judged."""
        ...

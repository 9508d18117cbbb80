"""The protocol of the store of erasures."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, Protocol

from cluster.records.erasure import ErasedReaders, Erasure, Person

PROFILE, RECENTS, LINKS = "profile", "recent list", "links to visitors"
THREADS, QUESTIONS, POPULAR_QUESTIONS = "threads", "questions and answers", "question statistics"
EXPOSURES, REPLIES, COUNTERS = "exposures of experiments", "replies kept for retries", "counters and pages"
TASKS, QUARANTINE, LOG = "task messages", "quarantine", "change log"
IMPORTS = "imports of files"
REDIS_PLACES = (
    PROFILE, RECENTS, LINKS, THREADS, QUESTIONS, POPULAR_QUESTIONS, EXPOSURES, REPLIES, COUNTERS, TASKS,
    QUARANTINE, LOG, IMPORTS,
)  # fmt: skip
"All places in Redis, in the order of the receipts."

LogNoun = Literal["user", "interaction"]
PersonData = dict[str, list[Any]]
"Place -> the person's data in it, as JSON values."


@dataclass(frozen=True, slots=True)
class AppendOnlyFileStatus:
    """The state of the append-only file of Redis."""

    is_kept: bool
    "Whether the append-only file is on."
    is_rewriting: bool
    requested_ms: int = 0
    "When an erasure last requested a new file,"
    done_ms: int = 0
    "and when Redis last began one for that request."


class ErasureStore(Protocol):
    """Orders to erase a person, their receipts, and the person's data in Redis."""

    async def person(self, app_id: str, user_id: str, anonymous_id: str) -> Person:
        """Return a person with all linked visitors.

        Errors:
            Conflict: the visitor is linked to a user: erase the user
        """
        ...

    async def subject(self, person: Person) -> str:
        """Return the keyed hash of a person."""
        ...

    async def subjects(self, person: Person) -> tuple[str, ...]:
        """Return the keyed hash of each id of a person."""
        ...

    async def erased_since(self, app_id: str, since_ms: int) -> ErasedReaders:
        """Return whom the app erased from a time on."""
        ...

    async def order(self, erasure: Erasure, person: Person) -> None:
        """Store an order until it is carried out; durable when it returns."""
        ...

    async def list_orders(self) -> list[tuple[Erasure, Person]]:
        """Return the unfinished orders of all apps, oldest first."""
        ...

    async def write(self, erasure: Erasure, *, done: bool = False) -> None:
        """Write the receipt; with `done`, delete the order and the person's id with it."""
        ...

    async def read(self, app_id: str, erasure_id: str) -> Erasure | None: ...

    async def newest(self, app_id: str, count: int = 100) -> list[Erasure]:
        """Return the receipts, newest first."""
        ...

    async def find(self, person: Person) -> PersonData:
        """Return all data of a person in Redis; compacted rows are not included.

        Cost:
            goes through all keys of the app: about 2 s for 1,000,000
        """
        ...

    async def erase(self, person: Person) -> None:
        """Remove everything that `find` returns, except profile and change log; idempotent."""
        ...

    async def clean_logs(self, app_id: str, settled: Mapping[LogNoun, str], now_ms: int) -> dict[str, str]:
        """Trim the change logs and free the memory of trimmed entries.

        Returns noun -> time until which a follower prevents that; empty: nothing prevents it.
        """
        ...

    async def delete_followers(self, app_id: str) -> None:
        """Delete all followers, so that none prevents trimming; only for a stopped installation."""
        ...

    async def list_lost(self, app_id: str) -> list[str]:
        """Return the times (ISO 8601) of unreadable erasures in the change log."""
        ...

    async def log_file(self) -> AppendOnlyFileStatus: ...

    async def request_log_rewrite(self, now_ms: int) -> None: ...

    async def rewrite_log_file(self, now_ms: int) -> bool:
        """Start writing a new append-only file; return False when the server refuses for now."""
        ...

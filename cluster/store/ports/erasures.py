"""What the store promises about people who are to be forgotten; part of `ports`, and kept to the same rules."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, Protocol

from cluster.records.erasure import Erasure, Person

PROFILE, RECENTS, LINKS = "profile", "recent list", "links to visitors"
THREADS, QUESTIONS, POPULAR_QUESTIONS = "threads", "questions and answers", "question statistics"
EXPOSURES, REPLIES, COUNTERS = "exposures of experiments", "replies kept for retries", "counters and pages"
TASKS, QUARANTINE, LOG = "task messages", "quarantine", "change log"
REDIS_PLACES = (
    PROFILE, RECENTS, LINKS, THREADS, QUESTIONS, POPULAR_QUESTIONS, EXPOSURES, REPLIES, COUNTERS, TASKS,
    QUARANTINE, LOG,
)  # fmt: skip
"All places in Redis, in the order receipts name them."

LogNoun = Literal["user", "interaction"]
PersonData = dict[str, list[Any]]
"Place -> what of a person stands there, as JSON values."


@dataclass(frozen=True, slots=True)
class AppendOnlyFileStatus:
    """How the file stands in which Redis keeps what was written."""

    is_kept: bool
    "Is the append-only file on?"
    is_rewriting: bool
    requested_ms: int = 0
    "When an erasure last asked for a new file,"
    done_ms: int = 0
    "and when the last one was begun for that."


class ErasureStore(Protocol):
    """Orders to forget a person, their receipts, and all that Redis knows of a person."""

    async def person(self, app_id: str, user_id: str, anonymous_id: str) -> Person:
        """Name a person with all linked visitors.

        Errors:
            Conflict: the visitor is linked to a user: forget the user
        """
        ...

    async def subject(self, person: Person) -> str:
        """Name a person by a keyed hash."""
        ...

    async def order(self, erasure: Erasure, person: Person) -> None:
        """Keep an order until it is carried out; durable when it returns."""
        ...

    async def list_orders(self) -> list[tuple[Erasure, Person]]:
        """Orders of all apps that are not carried out, oldest first."""
        ...

    async def write(self, erasure: Erasure, *, done: bool = False) -> None:
        """Write the receipt; with `done` the order, and with it the person's id, goes."""
        ...

    async def read(self, app_id: str, erasure_id: str) -> Erasure | None: ...

    async def newest(self, app_id: str, count: int = 100) -> list[Erasure]:
        """Receipts, newest first."""
        ...

    async def find(self, person: Person) -> PersonData:
        """Read everything the store knows of a person. The settled rows are not here.

        Cost:
            goes through all keys of the app: about 2 s for 1,000,000
        """
        ...

    async def erase(self, person: Person) -> None:
        """Remove what `find` finds, but for profile and change log. Doing it again is harmless."""
        ...

    async def clean_logs(self, app_id: str, settled: Mapping[LogNoun, str], now_ms: int) -> dict[str, str]:
        """Cut the change logs and give back what Redis keeps of entries that were cut off.

        Returns noun -> until when a follower holds entries up to those offsets back; empty: nothing is held.
        """
        ...

    async def delete_followers(self, app_id: str) -> None:
        """Let nobody hold the change logs back: the installation stands still, so nobody follows them."""
        ...

    async def list_lost(self, app_id: str) -> list[str]:
        """Name the times (ISO 8601) of erasures in the change log that nobody could read any more."""
        ...

    async def log_file(self) -> AppendOnlyFileStatus: ...

    async def request_log_rewrite(self, now_ms: int) -> None: ...

    async def rewrite_log_file(self, now_ms: int) -> bool:
        """Begin to write a new append-only file; False when the server does not do that now."""
        ...

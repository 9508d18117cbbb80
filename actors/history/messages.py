"""Requests and replies about a user's threads, as frozen values."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, Protocol

from cluster.records.thread import ThreadAnswer

ThreadVerb = Literal[
    "asked",
    "rename",
    "delete",
    "delete_all",
    "subscribe",
    "unsubscribe",
    "dismiss_thread",
    "dismiss_overall",
    "touch",
]


@dataclass(frozen=True, slots=True)
class ThreadChange:
    """A change of one user's threads; repeating it changes nothing more."""

    app_id: str
    user_id: str
    verb: ThreadVerb
    thread_ids: tuple[str, ...] = ()
    "Threads, named by any question of theirs; `delete` takes roots only. Empty when the change concerns all threads."
    text: str = ""
    "The title of a `rename`, the question of an `asked`."
    question_id: str = ""
    "Only `asked`."
    parent_id: str | None = None
    "Only `asked`: the question it follows."
    at_ms: int = 0
    "Time of the request."


@dataclass(frozen=True, slots=True)
class ThreadChangeResult:
    """The result of a change."""

    thread_id: str = ""
    "The changed thread, by its root; empty when it was none or several."
    title: str = ""
    count: int = 0
    "Threads that were deleted or touched."


@dataclass(frozen=True, slots=True)
class GenerateUpdate:
    """Ask a thread's question again now and append the answer, significant or not: for tests and operations."""

    app_id: str
    user_id: str
    thread_id: str


@dataclass(frozen=True, slots=True)
class GenerateUpdateResult:
    """The result of `GenerateUpdate`."""

    thread_id: str
    question_id: str
    "The appended question; empty when none was appended."
    appended: bool = True
    "A thread without a subscription takes no updates, so no answer is generated for it."


class AnswerService(Protocol):
    """Asks questions for a user."""

    async def ask(self, app_id: str, user_id: str, text: str, parent_id: str, question_id: str) -> None:
        """Accept a question under a given id; asking it again changes nothing.

        Errors:
            Unavailable, TooMany: not now
        """
        ...

    async def get_progress(self, app_id: str, question_id: str) -> ThreadAnswer | None:
        """Return the progress of an answer; None when there is no such question."""
        ...

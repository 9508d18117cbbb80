"""What is asked of a reader's threads and what comes back: frozen values made for the crossing."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

ThreadVerb = Literal[
    "asked", "rename", "delete", "delete_all", "subscribe", "unsubscribe", "dismiss_thread", "dismiss_overall",
    "touch",
]  # fmt: skip


@dataclass(frozen=True, slots=True)
class ThreadChange:
    """One change of one reader's threads; making it again changes nothing more."""

    app_id: str
    user_id: str
    verb: ThreadVerb
    thread_ids: tuple[str, ...] = ()
    "Which threads, by any question of theirs; `delete` takes roots only. Empty for what concerns all of them."
    text: str = ""
    "The title of a `rename`, the question of an `asked`."
    question_id: str = ""
    "Only `asked`."
    parent_id: str | None = None
    "Only `asked`: the question it follows."
    at_ms: int = 0
    "When it was asked for."


@dataclass(frozen=True, slots=True)
class ThreadChangeResult:
    """What a change came to."""

    thread_id: str = ""
    "The thread that was meant, by its root; empty when it was none or several."
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
    """What came of it."""

    thread_id: str
    question_id: str
    "The question that stands in the thread now; empty when none was appended."
    appended: bool = True
    "A thread that is not subscribed (any more) takes no updates, and nothing is generated for it."

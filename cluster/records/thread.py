"""Define history threads: the questions of a user in order, and whether significant new content came since.

Published in `docs/reference/rest.md`, section History.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field


class News(BaseModel):
    """Content that is significant for a thread, and the state of the answer about it."""

    model_config = ConfigDict(frozen=True)

    question_id: str
    """Id of the question about the content; fixed before the question is asked, so that asking twice has
    no effect."""
    offset: str
    "Offset of its newest content."
    product_ids: tuple[str, ...]
    "The new content, most significant first."
    score: float
    "0 to 1: how significant the best of it is."
    reason: str
    "Text for people."
    sketch: str = ""
    "Of the best of it, so that the same content in other words is no news."
    found_ms: int = 0
    due_ms: int = 0
    "When the question is due."
    state: Literal["waiting", "asked", "told", "dropped"] = "waiting"
    "In state `asked` it accepts no more content; later content becomes `later` of its thread."


class Thread(BaseModel):
    """One thread of one user; its id is the id of its first question."""

    model_config = ConfigDict(frozen=True)

    thread_id: str
    title: str
    time_ms: int
    "Last activity."
    question_ids: tuple[str, ...]
    "In the order in which they were asked or added; the first is the root."
    question: str = ""
    "The user's first question, even if the title has changed; empty: the title."
    subscribed: bool = False
    has_new: bool = False
    new_at_ms: int = 0
    "When the indicator was last raised."
    judged: str = ""
    "Offset of the newest content against which this thread was judged; older content is no news."
    news: News | None = None
    "The last content that was significant, waiting or answered."
    later: News | None = None
    "Content that was found while the answer about `news` was being composed."
    sketches: tuple[str, ...] = ()
    "Sketches of the newest content that the user already saw."

    @property
    def subject(self) -> str:
        return self.question or self.title

    @property
    def waits(self) -> bool:
        """Return whether significant content waits for its notification."""
        return self.news is not None and self.news.state in ("waiting", "asked")


class UserThreads(BaseModel):
    """All threads of one user, and the state of acknowledgements for all of them."""

    model_config = ConfigDict(frozen=True)

    threads: Mapping[str, Thread] = Field(default_factory=dict)
    dismissed_at_ms: int = 0
    "When the account's indicator was last dismissed."
    revision: int = 0
    "Changes with every write; each write names the revision that it read. 0: nothing is stored."

    @property
    def has_new(self) -> bool:
        """Return whether the account's indicator is on."""
        return any(
            thread.has_new and thread.new_at_ms > self.dismissed_at_ms for thread in self.threads.values()
        )

    @property
    def watched(self) -> tuple[Thread, ...]:
        """Return the threads that are watched for news."""
        return tuple(thread for thread in self.threads.values() if thread.subscribed)


@dataclass(frozen=True, slots=True)
class ThreadAnswer:
    """The progress of an answer."""

    finished: bool
    has_answer: bool = False
    "The answer rests on passages of the archive."
    sources: tuple[str, ...] = ()
    "Product ids it cites."
    text: str = ""

"""History threads: what a reader asked, in the order asked, and whether something new was said since.

Published in `docs/reference/rest.md`, section History.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field


class News(BaseModel):
    """Content that was judged significant for a thread, and what is being made of it."""

    model_config = ConfigDict(frozen=True)

    question_id: str
    "The question that is asked about it; known before it is asked, so that asking twice is asking once."
    offset: str
    "Newest content it speaks of."
    product_ids: tuple[str, ...]
    "What is new, most significant first."
    score: float
    "0 to 1: how significant the best of it is."
    reason: str
    "In words for people."
    sketch: str = ""
    "Of the best of it, so that the same in other words is no news."
    found_ms: int = 0
    due_ms: int = 0
    "When it shall be asked."
    state: Literal["waiting", "asked", "told", "dropped"] = "waiting"
    "`asked` takes nothing more in; what comes then is `later` of its thread."


class Thread(BaseModel):
    """One thread of one reader; its id is the id of its first question."""

    model_config = ConfigDict(frozen=True)

    thread_id: str
    title: str
    time_ms: int
    "Last activity."
    question_ids: tuple[str, ...]
    "In the order they were asked or added; the first is the root."
    question: str = ""
    "What the reader asked first, whatever the title says by now; empty: the title."
    subscribed: bool = False
    has_new: bool = False
    new_at_ms: int = 0
    "When the indicator was last raised."
    judged: str = ""
    "Offset of the newest content this thread was judged against; older content is no news."
    news: News | None = None
    "The last content that was significant, waiting or dealt with."
    later: News | None = None
    "What was found while the answer about `news` was being made."
    sketches: tuple[str, ...] = ()
    "Of the newest content the reader was told of."

    @property
    def subject(self) -> str:
        """Return the subject."""
        return self.question or self.title

    @property
    def waits(self) -> bool:
        """Return whether significant content waits for its notification."""
        return self.news is not None and self.news.state in ("waiting", "asked")


class ReaderThreads(BaseModel):
    """All threads of one reader, and what of them was acknowledged as a whole."""

    model_config = ConfigDict(frozen=True)

    threads: Mapping[str, Thread] = Field(default_factory=dict)
    dismissed_at_ms: int = 0
    "When the account's indicator was last dismissed."
    revision: int = 0
    "Changes with every write; whoever writes names the one it read. 0: nothing is stored."

    @property
    def has_new(self) -> bool:
        """Is the account's indicator on?"""
        return any(
            thread.has_new and thread.new_at_ms > self.dismissed_at_ms for thread in self.threads.values()
        )

    @property
    def watched(self) -> tuple[Thread, ...]:
        """The threads that want to be told of news."""
        return tuple(thread for thread in self.threads.values() if thread.subscribed)

"""History threads: what a reader asked, in the order asked, and whether something new was said since.

Source: reference sections 5.7 and 8.9
"""

from __future__ import annotations

from collections.abc import Mapping

from pydantic import BaseModel, ConfigDict, Field


class Thread(BaseModel):
    """One thread of one reader; its id is the id of its first question."""

    model_config = ConfigDict(frozen=True)

    thread_id: str
    title: str
    time_ms: int
    "Last activity."
    question_ids: tuple[str, ...]
    "In the order they were asked or added; the first is the root."
    subscribed: bool = False
    has_new: bool = False
    new_at_ms: int = 0
    "When the indicator was last raised."
    judged: str = ""
    "Offset of the newest content this thread was judged against; older content is no news."


class ReaderThreads(BaseModel):
    """All threads of one reader, and what of them was acknowledged as a whole."""

    model_config = ConfigDict(frozen=True)

    threads: Mapping[str, Thread] = Field(default_factory=dict)
    dismissed_at_ms: int = 0
    "When the account's indicator was last dismissed."
    revision: int = 0
    "Grows with every change; whoever writes names the one it read."

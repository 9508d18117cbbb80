"""The port through which the monitor asks questions; a composition root supplies the implementation."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True, slots=True)
class ThreadAnswer:
    """The progress of an answer."""

    finished: bool
    has_answer: bool = False
    "The answer rests on passages of the archive."
    sources: tuple[str, ...] = ()
    "Product ids it cites."
    text: str = ""


class AnswerService(Protocol):
    """Asks questions for a user."""

    async def ask(self, app_id: str, user_id: str, text: str, parent_id: str, question_id: str) -> None:
        """Accept a question under a given id; asking it again changes nothing.

        Errors:
            Unavailable, TooMany: not now
        """
        ...

    async def answer(self, app_id: str, question_id: str) -> ThreadAnswer | None:
        """Return the progress of an answer; None when there is no such question."""
        ...

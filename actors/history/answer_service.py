"""What the monitor needs of whoever answers questions; a composition root brings the two together."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True, slots=True)
class ThreadAnswer:
    """How far an answer is."""

    finished: bool
    has_answer: bool = False
    "It answers the question out of the archive."
    sources: tuple[str, ...] = ()
    "Product ids it cites."
    text: str = ""


class AnswerService(Protocol):
    """Asks questions on a reader's behalf."""

    async def ask(self, app_id: str, user_id: str, text: str, parent_id: str, question_id: str) -> None:
        """Accept a question under a given id; asking it again changes nothing.

        Errors:
            Unavailable, TooMany: not now
        """
        ...

    async def answer(self, app_id: str, question_id: str) -> ThreadAnswer | None:
        """Say how far an answer is; None when there is no such question."""
        ...

"""Asking a question on a reader's behalf: how the history's monitor gets a new answer for a thread."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

UPDATE_MONITOR = "answer_update_monitor"
"What `metadata.service_generated_by` says of a question the monitor asked."


@dataclass(frozen=True, slots=True)
class AskedAgain:
    """A reader's question, asked once more because something new arrived."""

    app_id: str
    user_id: str
    text: str
    parent_question_id: str
    question_id: str = ""
    """UUID the new question shall have; asking it again changes nothing, so a retry is harmless. Empty: a new
    one."""
    generated_by: str = UPDATE_MONITOR


@dataclass(frozen=True, slots=True)
class Outcome:
    """How far an answer is."""

    finished: bool
    finish_reason: str
    "`not_finished`, `success`, `error` or `forbidden`."
    sources: tuple[str, ...] = ()
    "Product ids the answer cites; empty when the archive does not hold the answer."
    answer: str = ""


class Asking(Protocol):
    """Puts questions; their answers are made in the background by whoever answers."""

    async def ask(self, asked: AskedAgain) -> str:
        """Accept a question and return its id at once.

        Errors:
            Unavailable: the store is away; nothing was asked, or it was and asking again is harmless
            TooMany: more questions wait than may
        """
        ...

    async def outcome(self, app_id: str, question_id: str) -> Outcome | None:
        """Say how far the answer is; None when there is no such question."""
        ...

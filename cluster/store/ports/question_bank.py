"""The protocol of the store of question banks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from cluster.records.question import BankQuestion


@dataclass(frozen=True, slots=True)
class QuestionBankContents:
    """All questions of an app, and their version."""

    version: int
    questions: tuple[BankQuestion, ...]


class QuestionBankStore(Protocol):
    """Question banks, one for each app, written and read whole."""

    async def replace(self, app_id: str, questions: Sequence[BankQuestion]) -> int:
        """Replace all questions of an app; return the new version."""
        ...

    async def version(self, app_id: str) -> int:
        """Return the counter that every replacement increments; 0 before the first."""
        ...

    async def load(self, app_id: str) -> QuestionBankContents:
        """Return the bank without its damaged questions."""
        ...

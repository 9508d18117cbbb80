"""The bodies of the question bank and of question answering, and their replies.

Source: reference 8.10, endpoints 48 to 50
"""

from __future__ import annotations

from typing import Annotated

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field

from cluster.records.bank_question import LONGEST_QUESTION, MOST_QUESTIONS, BankQuestion
from deployments.api.wire.shared import Count, Wire, number_not_bool

MOST_ASKED = 1_000
"Characters of `q` that are read."


class BankEntry(Wire):
    """A question of the bank."""

    model_config = ConfigDict(extra="ignore")

    question: Annotated[str, Field(min_length=1, max_length=LONGEST_QUESTION, strict=True)]
    weight: Annotated[float, BeforeValidator(number_not_bool)] = 1.0

    def record(self) -> BankQuestion:
        """Write it as it is stored."""
        return BankQuestion(question=self.question, weight=self.weight)


class QuestionBank(Wire):
    """All questions of the bank; what was in it before is gone."""

    model_config = ConfigDict(extra="ignore")

    data: Annotated[list[BankEntry], Field(max_length=MOST_QUESTIONS)]


class BankTaken(BaseModel):
    """The bank was replaced."""

    took: int
    service_id: str


class QuestionAutocomplete(Wire):
    """What was typed of a question."""

    model_config = ConfigDict(extra="ignore")

    q: Annotated[str, Field(min_length=1, max_length=65_536)]
    rows: Count = 5


class QuestionCompletion(BaseModel):
    """A question of the bank."""

    question: str
    weight: float


class FoundQuestions(BaseModel):
    """Questions, best first."""

    took: int
    service_id: str
    completions: list[QuestionCompletion]

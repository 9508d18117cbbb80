"""One question of an app's question bank: what readers may want to ask, and how much it matters."""

from __future__ import annotations

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

LONGEST_QUESTION = 2_000
MOST_QUESTIONS = 100_000
"Questions a bank holds."


class BankQuestion(BaseModel):
    """A question and its weight; among equally fitting questions the weightier comes first."""

    model_config = ConfigDict(frozen=True, extra="ignore", strict=True)

    question: Annotated[str, Field(min_length=1, max_length=LONGEST_QUESTION)]
    weight: Annotated[float, Field(allow_inf_nan=False)] = 1.0

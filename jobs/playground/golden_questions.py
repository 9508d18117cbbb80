"""Questions asked of the newspaper with the sentences that answer them, a third of them without an answer.

Written by hand from the articles, before anything answered them, and never changed to suit what answers. Half is
for choosing thresholds (`tune`), weights were never fitted on the other (`held`), whose figures were in view while
it was chosen among settings: they are a little kind.
"""

from __future__ import annotations

from importlib.resources import files
from typing import Literal

import orjson
from pydantic import BaseModel, ConfigDict

_NAME = "golden.json"


class GoldenQuestion(BaseModel):
    """A question and what a good answer to it says."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    question: str
    part: Literal["tune", "held"]
    missing: Literal["fact", "entity", "year"] | None
    "Why the newspaper has no answer: it knows the subject and not this, not the subject, not that year."
    articles: tuple[str, ...]
    sentences: tuple[str, ...]
    "Those that hold the answer."
    answer: str | None
    "The words of it."


def read_golden_questions() -> list[GoldenQuestion]:
    """Read the questions."""
    rows = orjson.loads((files("jobs.playground") / "data" / _NAME).read_bytes())
    return [GoldenQuestion.model_validate(row) for row in rows]

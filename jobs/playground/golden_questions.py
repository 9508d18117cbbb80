"""Questions about the newspaper with the sentences that answer them; a third have no answer.

They were written by hand from the articles, before the answer engine, and never adapted to it. One half is for
the choice of thresholds (`tune`). No weights were fitted on the other half (`held`), but its metrics were visible
during the choice of settings, so they are slightly optimistic.
"""

from __future__ import annotations

from importlib.resources import files
from typing import Literal

import orjson
from pydantic import BaseModel, ConfigDict

_NAME = "golden.json"


class GoldenQuestion(BaseModel):
    """A question and its expected answer."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    question: str
    part: Literal["tune", "held"]
    missing: Literal["fact", "entity", "year"] | None
    "Why the newspaper has no answer: it knows the subject and not this, not the subject, not that year."
    articles: tuple[str, ...]
    sentences: tuple[str, ...]
    "Sentences that contain the answer."
    answer: str | None
    "Text of the answer."


def read_golden_questions() -> list[GoldenQuestion]:
    """Return the questions."""
    rows = orjson.loads((files("jobs.playground") / "data" / _NAME).read_bytes())
    return [GoldenQuestion.model_validate(row) for row in rows]

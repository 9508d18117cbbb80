"""Questions of the playground with their expected answers."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

import orjson
from pydantic import BaseModel, ConfigDict


class GoldenQuestion(BaseModel):
    """A question and its expected answer."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    question: str
    part: Literal["tune", "held"]
    missing: Literal["fact", "entity", "year"] | None
    "Why the newspaper has no answer: it covers the subject but not this detail, not the subject, or not that year."
    articles: tuple[str, ...]
    sentences: tuple[str, ...]
    "Sentences that contain the answer."
    answer: str | None
    "Text of the answer."


def read_golden_questions() -> list[GoldenQuestion]:
    """Return the questions."""
    rows = orjson.loads(Path(__file__).with_name("golden_questions.json").read_bytes())
    return [GoldenQuestion.model_validate(row) for row in rows]

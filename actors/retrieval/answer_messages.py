"""What is asked of question answering beyond what every query shares, and what it finds. Plain values."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from actors.retrieval.messages import SpellingResult


@dataclass(frozen=True, slots=True)
class AnswerQuery:
    """A question to the pages of products."""

    text: str
    "What is read of the question."
    original: str
    min_probability: float
    "Probability an answer must have."
    min_boosted_probability: float
    "Probability from which boosts count."
    correct: bool = True
    html: bool = False
    block: bool = False


@dataclass(frozen=True, slots=True)
class AnswerResult:
    """Paragraphs that answer, best first: `product_id`, `answer`, perhaps `answer_block`, and the fields asked for."""

    total: int
    answers: Sequence[Mapping[str, Any]]
    spelling: SpellingResult

"""What an answer without a language model is made of, and the doors to composing one.

Thinking only: no store, no clock, no network. Passages come in, sentences with their places come out.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from actors.answers.messages import Snippet


@dataclass(frozen=True, slots=True)
class Cited:
    """A sentence of an answer and where it stands."""

    text: str
    "Plain text as it may be shown; still to be escaped for the place it is shown in."
    snippet: int
    "Which of the given passages it was taken from, from 0."
    start: int
    "Where it begins in that passage's text, in characters."
    end: int
    support: float
    "0 to 1: how well the passage holds it; 1 for a sentence that was copied."


@dataclass(frozen=True, slots=True)
class Composed:
    """An answer, or an honest no."""

    sentences: tuple[Cited, ...] = ()
    refused: bool = True
    "The passages do not hold the answer; then there are no sentences."
    confidence: float = 0.0
    "0 to 1: how sure it is that the first sentence answers the question."


def compose(question: str, snippets: Sequence[Snippet], *, language: str = "", now_ms: int) -> Composed:
    """Answer a question with sentences of passages, or refuse.

    `language` is the question's (ISO 639-1); empty: found out.
    """
    del question, snippets, language, now_ms
    return Composed()

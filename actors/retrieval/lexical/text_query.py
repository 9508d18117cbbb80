"""What is asked of the search index, and what it finds."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from actors.vectors.types import Mask, Rows, Scores

TITLE, DESCRIPTION, METADATA = "title", "description", "metadata"
"Where words can be found: titles, texts, and everything else (brand, categories, tags, attributes)."

FIELDS = (
    "title",
    "subtitle",
    "description",
    "short_description",
    "headers",
    "paragraphs",
    "anchors",
    "metadata",
)
"Fields that can be weighed; `paragraphs` includes `html`."


@dataclass(frozen=True, slots=True)
class TextQuery:
    """A search by words."""

    text: str
    "As it was typed; `*` and blanks ask for nothing and find nothing."
    language: str = ""
    "Products that have texts in this language come first; empty for all alike."
    only_language: bool = False
    "Products without texts in that language are not found."
    partial: bool | float = False
    "False: every word must occur. True: one is enough. 0..1: so much of what the words weigh must occur."
    correct: bool = True
    "Search for the corrected text when a word occurs nowhere; suggestions are made in any case."
    meaning: float = 0.0
    """How much meaning counts, 0 to 1: at .5 as much as the embedder was measured to be worth, at 1 twice that.
    Above 0 products are also found that share no word."""
    least_meaning: float = 0.5
    "How alike (cosine, 0 to 1) a product must be that shares no word."
    fields: Mapping[str, float] | None = None
    "Fields of `FIELDS` that weigh so many times the usual; 0 leaves one out. Others weigh as usual."


@dataclass(frozen=True, slots=True)
class Correction:
    """A word that occurs nowhere, and what may have been meant."""

    start: int
    "Where it begins in the text as typed."
    end: int
    original: str
    suggestions: tuple[str, ...]
    "Best first; may be empty when nothing is near."


Names = tuple[str, ...]


def no_names(rows: Sequence[int]) -> list[Names]:
    """Tell nothing of any row."""
    return [()] * len(rows)


@dataclass(frozen=True, slots=True)
class TextHits:
    """What was found: every matching product, best first.

    Shapes:
        rows: int64 [k]; scores: float32 [k], above 0; complete: bool [k], True where every word occurs
    """

    rows: Rows
    scores: Scores
    complete: Mask
    corrections: tuple[Correction, ...] = ()
    corrected: str = ""
    "The text with the first suggestions put in; the text as typed when nothing is wrong."
    used: str = ""
    "The text that was searched for: as typed or corrected."
    matched: Callable[[Sequence[int]], list[Names]] = field(default=no_names)
    "Rows -> where words were found: of `title`, `description`, `metadata`."
    missing: Callable[[Sequence[int]], list[Names]] = field(default=no_names)
    "Rows -> words of the searched text that do not occur."

    @classmethod
    def empty(cls, text: str = "") -> TextHits:
        """Find nothing."""
        return cls(
            np.zeros(0, np.int64),
            np.zeros(0, np.float32),
            np.zeros(0, np.bool_),
            corrected=text,
            used=text,
        )

"""Messages of the search index: TextQuery and TextHits."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from actors.vectors.types import Mask, Rows, Scores

TITLE = "title"
DESCRIPTION = "description"
METADATA = "metadata"
"Where words can be found: titles, texts, and all other fields (brand, categories, tags, attributes)."

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
    "As typed; `*` and blanks find nothing."
    language: str = ""
    "Products that have texts in this language come first; empty: no language does."
    only_language: bool = False
    "Products without texts in that language are not found."
    partial: bool | float = False
    "False: every word must occur. True: one is enough. 0 to 1: share of the idf of all words that must occur."
    correct: bool = True
    "Search for the corrected text if no product has a word; suggestions are made in any case."
    meaning: float = 0.0
    """Weight of vector search, 0 to 1: at 0.5 the measured weight of the embedder, at 1 twice that.
    Above 0 products are also found that share no word."""
    least_meaning: float = 0.5
    "Least cosine, 0 to 1, of a product that shares no word."
    tiers: frozenset[str] | None = None
    "Tiers of the user: locked products of other tiers change no score and no correction. None: all products count."
    fields: Mapping[str, float] | None = None
    "Factors of the weights of `FIELDS`; 0 leaves a field out, a missing one counts as 1."


@dataclass(frozen=True, slots=True)
class Correction:
    """A word that no product has, and words that the user may mean."""

    start: int
    "Where the word begins in the text as typed."
    end: int
    original: str
    suggestions: tuple[str, ...]
    "Best first; empty if no word is near."


Names = tuple[str, ...]


def no_names(rows: Sequence[int]) -> list[Names]:
    """Return no names for each row."""
    return [()] * len(rows)


@dataclass(frozen=True, slots=True)
class TextHits:
    """Every matching product, best first.

    Shapes:
        rows: int64 [k]; scores: float32 [k], above 0; complete: bool [k], True where every word occurs
    """

    rows: Rows
    scores: Scores
    complete: Mask
    corrections: tuple[Correction, ...] = ()
    corrected: str = ""
    "The text with the first suggestions put in; the text as typed if there are none."
    used: str = ""
    "The text that was searched: as typed or corrected."
    matched: Callable[[Sequence[int]], list[Names]] = field(default=no_names)
    "Rows -> which of `title`, `description`, `metadata` have words of the query."
    missing: Callable[[Sequence[int]], list[Names]] = field(default=no_names)
    "Rows -> words of the searched text that the product lacks."

    @classmethod
    def empty(cls, text: str = "") -> TextHits:
        """Return no hits."""
        return cls(
            np.zeros(0, np.int64),
            np.zeros(0, np.float32),
            np.zeros(0, np.bool_),
            corrected=text,
            used=text,
        )

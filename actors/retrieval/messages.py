"""Define messages of search and question answering, in addition to the fields that all queries and results
share.

Plain values that cross processes: filters are trees; the API has validated formulas and patterns, which are texts.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from cluster.query.language.tree import Node

PERSONALIZATION: Final = "_personalization_score"
RELEVANCE: Final = "_search_score"
BOOSTING: Final = "_boosting_score"
DISTANCE: Final = "_geo_distance"
SCORES: Final = frozenset({PERSONALIZATION, RELEVANCE, BOOSTING, DISTANCE})
"Scores that an order may name beside product fields."

MOST_PERSONAL: Final = 5

_FEW_LETTERS: Final = 100
_FEW_PARTS: Final = 5
_FEW_NAMED: Final = 50


@dataclass(frozen=True, slots=True)
class OrderKey:
    """One key of an order."""

    expression: str
    "A field, one of `SCORES`, or a formula over them."
    ascending: bool = False
    threshold: float = 0.0
    "Neighbours whose relative difference is at most this are equal."
    default: float = 0.0
    "For products without a value."
    at: tuple[float, float] | None = None
    "Latitude and longitude in degrees, for `_geo_distance`, which is in kilometres."


@dataclass(frozen=True, slots=True)
class Facet:
    """Counts of one field's values, or of filters with names."""

    field: str
    label: str
    size: int = 10
    include: str | None = None
    exclude: str | None = None
    "Patterns over whole values."
    keys: tuple[tuple[str, Node], ...] | None = None
    "Ranges and queries: name and filter, in the order of the request."


@dataclass(frozen=True, slots=True)
class FacetFilter:
    """The choices in one facet; one of them must hold."""

    field: str
    filter: Node


@dataclass(frozen=True, slots=True)
class Anchoring:
    """A product that is placed beside another one, its anchor."""

    product_id: str
    anchor_ids: tuple[str, ...]
    position: int = -1
    "1: right after the highest anchor, -1: right before."
    from_ms: int | None = None
    until_ms: int | None = None


@dataclass(frozen=True, slots=True)
class SearchQuery:
    """A search."""

    text: str = ""
    "As typed; empty for all products."
    original: str = ""
    "`q` as sent."
    advanced: Node | None = None
    "`advanced_q`; values of `full_text` are looked up in the index."
    prefer_language: str = ""
    category: tuple[str, ...] = ()
    include: tuple[str, ...] = ()
    like: str = ""
    order: tuple[OrderKey, ...] = ()
    facets: tuple[Facet, ...] = ()
    facet_filters: tuple[FacetFilter, ...] = ()
    anchorings: tuple[Anchoring, ...] = ()
    correct: bool = True
    left_out_fields: tuple[str, ...] = ()
    partial: bool = False
    separated: bool = False
    partial_threshold: int | None = None
    "Partial results only if at most so many products match all words; None: always."
    meaning: float | None = None
    "Least cosine of products found by vectors; None: words only."
    matched_fields: bool = False
    campaigns: bool = True
    "Stored rules apply."
    existence: tuple[str, ...] = ()
    personalization: int = MOST_PERSONAL
    "0 to 5: weight of the personal score."
    assets: tuple[Any, ...] = ()
    "`json_asset` of the stored rules that apply."
    applied: tuple[str, ...] = ()
    "Names of the stored rules that apply."
    filtering: str = ""
    "Name of the stored rule that filters products."
    tiers: frozenset[str] | None = None
    "Tiers of the user, if locked products of other tiers may change nothing; see `TextQuery`."

    @property
    def is_plain(self) -> bool:
        """Return whether the query is a search with few words, few facets and no part whose cost the
        caller can raise.
        """
        return (
            self.advanced is None
            and not self.like
            and len(self.text) <= _FEW_LETTERS
            and len(self.facets) + len(self.facet_filters) + len(self.order) <= _FEW_PARTS
            and not any(facet.include or facet.exclude or facet.keys for facet in self.facets)
            and len(self.anchorings) + len(self.existence) + len(self.include) <= _FEW_NAMED
        )


@dataclass(frozen=True, slots=True)
class SpellingResult:
    """Spelling errors of a query, and its corrected text."""

    errors: bool
    corrected: bool
    "Whether the corrected text was searched."
    original_text: str
    original_marked: str
    "HTML, `<mark>` around the wrong words."
    corrected_text: str
    corrected_marked: str
    "HTML, `<mark>` around the replaced words."


@dataclass(frozen=True, slots=True)
class SearchResult:
    """The result of a search without the page of products."""

    total: int
    spelling: SpellingResult
    facets: Mapping[str, list[tuple[Any, int]]] = field(default_factory=dict)
    existence: Mapping[str, bool] = field(default_factory=dict)
    partial: list[dict[str, Any]] | None = None
    "Products that match in part, if the query requests a separate list of them."
    assets: tuple[Any, ...] = ()
    applied: tuple[str, ...] = ()
    filtering: str = ""


@dataclass(frozen=True, slots=True)
class AnswerQuery:
    """A question that the pages of products may answer."""

    text: str
    "The part of the question that is searched."
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
    """Answers, best first: `product_id`, `answer`, perhaps `answer_block`, and the requested fields."""

    total: int
    answers: Sequence[Mapping[str, Any]]
    spelling: SpellingResult

"""Queries to a recommender and their results: frozen values that cross processes.

The API replica parses filters, so a query carries a tree and never a text.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final, Literal

from actors.retrieval.messages import AnswerQuery, AnswerResult, SearchQuery, SearchResult
from cluster.query.language.tree import Node
from cluster.records.interaction import RecentEvent

_DAY_MS = 86_400_000

QueryKind = Literal[
    "user_to_products",
    "user_to_trending",
    "user_to_categories",
    "user_to_attributes",
    "user_to_history",
    "product_to_products",
    "autocomplete",
    "search",
    "mget",
    "question_answering",
]


QUERY_SOURCES: Final = frozenset({"historical_queries", "suggested_queries"})
"Sources of completions that are no fields of products: the searches of users."
RULE_LABEL: Final = "stored rule "
"Begins the label of a boost that is of a stored rule."


@dataclass(frozen=True, slots=True)
class Boost:
    """One boost rule of a request."""

    filter: Node
    positions: tuple[int, ...] | None = None
    "0-based slots in the whole list; None puts boosted products before the rest."
    name: str = ""
    bury: bool = False
    "Put matching products behind the rest instead."
    label: str = field(default="", compare=False)
    "Name of the boost in explanations."


@dataclass(frozen=True, slots=True)
class Circle:
    """One distance condition. `distance_km` is in kilometres, independent of the client's unit."""

    lat: float
    lon: float
    distance_km: float
    field: str = "location"
    positions: tuple[int, ...] | None = None
    "Only in boosts."


@dataclass(frozen=True, slots=True)
class DiversityRule:
    """Diversification by one field."""

    field: str
    minimum_distance: int = 1
    always_together: bool = False


@dataclass(frozen=True, slots=True)
class UserQuery:
    """The query of all recommendation endpoints, with fields that they share and fields of single endpoints."""

    kind: QueryKind
    app_id: str
    engine_id: str
    user_id: str = ""
    anonymous_id: str = ""
    rows: int = 5
    start: int = 0
    type: str | None = None
    dedupe: bool = True
    fields: tuple[str, ...] = ()
    "`fl`; empty means product_id only."
    exclude: tuple[str, ...] = ()
    filter: Node | None = None
    boosts: tuple[Boost, ...] = ()
    circles: tuple[Circle, ...] = ()
    boost_circles: tuple[Circle, ...] = ()
    spacing: tuple[DiversityRule, ...] = ()
    dithering: float = 1.0
    pagination_id: str = ""
    is_strangers: bool = False
    "The identity of the client is not proven, so little of the query is stored."
    simulated: tuple[RecentEvent, ...] = ()
    "`additional_interactions`; never written."
    cohort: Mapping[str, Any] = field(default_factory=dict)
    context: Mapping[str, Any] = field(default_factory=dict)
    boosting_tags: tuple[str, ...] = ()
    root_category: tuple[str, ...] | None = None
    "user_to_categories."
    field_name: str = ""
    "user_to_attributes."
    boost_values: tuple[str, ...] = ()
    exclude_values: tuple[str, ...] = ()
    group_rows: int = 0
    "products per category or attribute value."
    anchors: tuple[str, ...] = ()
    "product_to_products: product ids; a group id is written `group:<id>`. mget: the requested products."
    buy_together: bool = False
    history_type: str = ""
    typed: str = ""
    "autocomplete: the text typed so far."
    completion_fields: tuple[str, ...] = ()
    min_users: int = 5
    "Number of different users that a logged query needs before it is suggested."
    language: str = ""
    only_language: bool = False
    "Leave out products whose field names another language."
    rule_names: tuple[str, ...] = ()
    "Names of requested stored rules."
    removed: tuple[Boost, ...] = ()
    "Stored rules that remove the products that match their filter."
    snapshot: str = ""
    "Answer from this version of the engine instead of the serving one; only experiments set it."
    search: SearchQuery | None = None
    "search only."
    question: AnswerQuery | None = None
    "question_answering only."
    explain: bool = False
    "Explain the place of every product."
    explain_missing: tuple[str, ...] = ()
    "Explain why these products are missing."
    repeat_after_ms: tuple[tuple[str, int], ...] = ()
    "Pairs of a type of interaction (`*`: any other) and how long lists leave its products out. Set by the host."
    interleaving: Interleaving | None = field(default=None, compare=False)
    "The other side of an interleaved list; only experiments set it."
    service_id: str = field(default="", compare=False)
    "Id of the answer, which draws its exploration; empty: the answer is not explored."
    traceparent: str = field(default="", compare=False)
    "Parent of the trace of a dedicated engine; empty if the request is not traced."
    tiers: frozenset[str] | None = None
    "autocomplete: tiers of the user, if locked products of other tiers may change nothing."

    @property
    def user_keys(self) -> tuple[str, ...]:
        """Return the keys of the recent lists to read: of the user, the visitor, both or none."""
        user = ("u:" + self.user_id,) if self.user_id else ()
        visitor = ("a:" + self.anonymous_id,) if self.anonymous_id else ()
        return user + visitor


def with_repeat_pauses(query: UserQuery, days: Mapping[str, float]) -> UserQuery:
    """Return the query with the pauses of its engine: days by type of interaction."""
    return replace(query, repeat_after_ms=tuple((kind, round(day * _DAY_MS)) for kind, day in days.items()))


@dataclass(frozen=True, slots=True)
class Interleaving:
    """How a list is drafted from the products of two sides: the query itself is the first one."""

    rival: UserQuery
    "The query of the second side."
    seed: str
    "Seed of the coins; a hash with a secret, so that no client can choose it."


@dataclass(frozen=True, slots=True)
class Placements:
    """How the products of a list came to their places: one entry for each product, in the order shown.

    Shapes:
        scores, origins, propensities: [m], m = number of products
    """

    scores: tuple[float, ...] = ()
    origins: tuple[int, ...] = ()
    "Codes of `cluster.records.served_list.ORIGINS`."
    propensities: tuple[float | None, ...] = ()
    "Probability of the product at its place; None without a closed form."
    snapshot: str = ""
    "Version that ranked; both versions of an interleaved list, with ` + ` between them."
    recipe: str = ""
    sides: tuple[int, ...] = ()
    "Codes of `cluster.records.served_list` for the side that placed each product; empty: not interleaved."
    state: str = ""
    """Position of the overlay that ranked (`Overlay.position`); if the signals of the whole app were of an earlier one,
    that behind a space."""


@dataclass(frozen=True, slots=True)
class RecommendedGroup:
    """A category or attribute value with its products."""

    value: tuple[str, ...] | str
    total: int
    products: list[dict[str, Any]]
    placements: Placements | None = None
    "For the served log, never returned to clients. None: not reported."


@dataclass(frozen=True, slots=True)
class RecommendationResult:
    """The result of a query, ready to be written as JSON."""

    products: list[dict[str, Any]] = field(default_factory=list)
    "Result records: `product_id`, fields of `fl`, `_personalization_score`, `_boosted`..."
    groups: list[RecommendedGroup] = field(default_factory=list)
    completions: Mapping[str, list[dict[str, Any]]] = field(default_factory=dict)
    "Field -> completions, best first."
    served_by: str = ""
    "Fallback level of the result; logged, never returned to clients."
    search: SearchResult | None = None
    "search only: the rest of the result beside the page in `products`."
    answers: AnswerResult | None = None
    "question_answering only."
    explanation: Mapping[str, Any] | None = None
    "Only for queries that request an explanation."
    warnings: Sequence[dict[str, str]] = ()
    "Parts of the query without effect: `field`, `parameter`, `message`, and for mistyped fields `did_you_mean`."
    anchor_found: bool = True
    "product_to_products: does one of the anchors exist?"
    placements: Placements | None = None
    "The same for `products`."

"""The bodies of search and mget and their replies.

Published in `docs/reference/rest.md`, section Search.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field

from actors.recommender.messages import UserQuery
from actors.retrieval.messages import MOST_PERSONAL, SearchQuery, SpellingResult
from cluster.errors import FilterSyntax
from cluster.ids import DEFAULT_ENGINE
from cluster.query.language.parser import FULL_TEXT, parse
from cluster.query.language.tree import All, Node, Not, Phrase, Term
from cluster.query.language.tree import Any as AnyOf
from deployments.api.wire.query_bodies import (
    Diversification,
    FieldNames,
    Flag,
    Name,
    Names,
    Offset,
    Real,
    RequestModel,
    SessionContext,
    UserQueryBody,
    VisitorName,
    Warnings,
    diversity_rules_from_body,
    number_not_bool,
    query_from_body,
)
from deployments.api.wire.search_clauses import (
    MOST_FACETS,
    AnchoringSetting,
    FacetChoice,
    FacetEntry,
    OrderBy,
    anchorings_from_body,
    check_facet_budget,
    facet_filters_from_body,
    facets_from_body,
    order_keys_from_body,
)
from deployments.api.wire.validation_errors import refuse, refuse_filter

MOST_SOUGHT = 1_000
"Characters of `q` and `like` that the engine reads."
MOST_FULL_TEXTS = 32
"Maximum values of `full_text` in one `advanced_q`; a phrase counts as two."

_Text = Annotated[str, Field(min_length=1, max_length=65_536)]
_Ids = Annotated[list[Name], Field(max_length=1_000)]
TextField = Literal[
    "title", "subtitle", "description", "short_description", "paragraphs", "headers", "anchors"
]


class Spellcheck(RequestModel):
    """What to do about typos."""

    enable_auto_spelling_correction: Flag = True


class Existence(RequestModel):
    """Products to look for in the whole result."""

    product_ids: _Ids


class SearchBody(UserQueryBody):
    """A search: words, filters, order and facets."""

    q: _Text | None = Field(
        None,
        description="The words to search for; every word must match. `*` returns everything, and so do blanks "
        "alone. `q` or `advanced_q` is required. The first 1,000 characters count.",
    )
    advanced_q: _Text | None = None
    category: Annotated[list[Name], Field(max_length=64)] | None = None
    include: _Ids = Field(default_factory=list)
    exclude: Names = Field(default_factory=list)
    like: _Text | None = None
    language: Annotated[str, Field(pattern=r"^[A-Za-z]{2}$")] | None = None
    start: Offset = 0
    custom_context: SessionContext = Field(default_factory=dict)
    boosting_tags: Names = Field(default_factory=list)
    diversification: Annotated[dict[str, Diversification], Field(max_length=20)] = Field(default_factory=dict)
    order_by: Annotated[list[OrderBy], Field(max_length=10)] = Field(default_factory=list)
    facets: Annotated[list[FacetEntry], Field(max_length=MOST_FACETS)] = Field(default_factory=list)
    facet_filters: Annotated[dict[str, FacetChoice], Field(max_length=MOST_FACETS)] = Field(
        default_factory=dict
    )
    anchoring_settings: Annotated[list[AnchoringSetting], Field(max_length=100)] = Field(default_factory=list)
    spellcheck: Spellcheck = Spellcheck()
    exclude_fields_from_search: Annotated[list[TextField], Field(max_length=20)] = Field(default_factory=list)
    enable_partial_match: Flag = False
    partial_match_mode: Literal["blended", "separated"] = "blended"
    enable_partial_match_threshold: Offset | None = None
    enable_semantic_search: Flag = False
    semantic_search_threshold: Annotated[Real, Field(ge=0, le=1)] = 0.5
    enable_matched_fields: Flag = False
    enable_boosting_campaigns: Flag = True
    query_product_existence: Existence | None = None
    explain: Flag = Field(
        False,
        description="An addition of this service, for the secret key only: true adds `_explain` to every product.",
    )
    personalization_weight: Annotated[
        int, BeforeValidator(number_not_bool), Field(ge=0, le=MOST_PERSONAL)
    ] = MOST_PERSONAL


class ManyProducts(RequestModel):
    """Products to read by id. Unknown fields are ignored."""

    model_config = ConfigDict(extra="ignore")

    product_ids: _Ids
    fl: FieldNames = Field(default_factory=lambda: ["*"])
    engine_id: Name | None = None
    user_id: Name | None = Field(None, description="Checked and logged; a record is the same for every user.")
    anonymous_id: VisitorName | None = Field(None, description="Like `user_id`.")
    user_hash: Name | None = None
    "Read by admission; a product is the same for every user."
    jwt_token: Annotated[str, Field(max_length=8192)] | None = None
    "Read by admission, likewise."


class SearchProductPart(BaseModel):
    """A product of a result."""

    model_config = ConfigDict(extra="allow")

    product_id: str
    explain: dict[str, Any] | None = Field(
        None,
        alias="_explain",
        description="An addition of this service, with `explain`: `score`, `score_parts` (they sum to the score), "
        "`rank` and `place`, from 0.",
    )


class SpellcheckReply(BaseModel):
    """The original and the corrected words."""

    spelling_errors: bool
    auto_spelling_correction: bool
    original_query: str
    original_query_with_markups: str
    corrected_query: str
    corrected_query_with_markups: str


def spelling_to_dict(spelling: SpellingResult, text: str = "") -> dict[str, Any]:
    """Return the words as `SpellcheckReply` has them; `text` is the query where the result names none."""
    return {
        "spelling_errors": spelling.errors,
        "auto_spelling_correction": spelling.corrected,
        "original_query": spelling.original_text or text,
        "original_query_with_markups": spelling.original_marked,
        "corrected_query": spelling.corrected_text or text,
        "corrected_query_with_markups": spelling.corrected_marked,
    }


class FacetCounts(BaseModel):
    """Counts by facet: pairs of value and count."""

    facet_fields: dict[
        str, list[Annotated[list[str | bool | int | float], Field(min_length=2, max_length=2)]]
    ]


class SearchReply(BaseModel):
    """A page of results, with facets and spelling."""

    took: int
    service_id: str
    total: int
    start: int
    products: list[SearchProductPart]
    spellcheck: SpellcheckReply
    facet_counts: FacetCounts
    product_existence: dict[str, bool]
    partially_matched_products: list[SearchProductPart] | None
    custom_assets: list[Any]
    boosting_rules: list[str]
    filtering_rule: str | None = None
    warnings: Warnings = None


class NamedProduct(BaseModel):
    """A product, or its id when it does not exist."""

    model_config = ConfigDict(extra="allow")

    product_id: str
    found: bool = Field(serialization_alias="_found")


class NamedProducts(BaseModel):
    """Products in the order of the request."""

    took: int
    service_id: str
    products: list[NamedProduct]
    warnings: Warnings = None


def to_search_query(body: SearchBody, *, app_id: str, user_id: str, now_ms: int) -> UserQuery:
    """Return the query of a body. `user_id` is the user of the token if there is one, else that of the body."""
    return query_from_body(
        body,
        "search",
        app_id=app_id,
        user_id=user_id,
        now_ms=now_ms,
        start=body.start,
        exclude=tuple(body.exclude),
        spacing=diversity_rules_from_body(body.diversification),
        context=body.custom_context,
        boosting_tags=tuple(body.boosting_tags),
        explain=body.explain,
        search=_search_of(body),
    )


def to_mget_query(body: ManyProducts, *, app_id: str) -> UserQuery:
    """Return the query of a body."""
    return UserQuery(
        kind="mget",
        app_id=app_id,
        engine_id=body.engine_id or DEFAULT_ENGINE,
        fields=tuple(body.fl),
        anchors=tuple(body.product_ids),
    )


def _search_of(body: SearchBody) -> SearchQuery:
    if body.q is None and body.advanced_q is None:
        refuse("one of q and advanced_q is required; q: * finds everything", "q", kind="value_error.missing")
    if body.partial_match_mode == "separated" and body.enable_partial_match_threshold is None:
        refuse(
            "partial_match_mode separated needs enable_partial_match_threshold",
            "enable_partial_match_threshold",
            kind="value_error.missing",
        )
    check_facet_budget(body.facets, body.facet_filters)
    sought = (body.q or "").strip()
    return SearchQuery(
        text="" if sought == "*" else (body.q or "")[:MOST_SOUGHT].rstrip(),
        original=body.q or body.advanced_q or "",
        advanced=_advanced(body.advanced_q),
        prefer_language=(body.language or "").lower(),
        category=tuple(body.category or ()),
        include=tuple(body.include),
        like=(body.like or "").strip()[:MOST_SOUGHT],
        order=order_keys_from_body(body.order_by),
        facets=facets_from_body(body.facets),
        facet_filters=facet_filters_from_body(body.facet_filters),
        anchorings=anchorings_from_body(body.anchoring_settings),
        correct=body.spellcheck.enable_auto_spelling_correction,
        left_out_fields=tuple(dict.fromkeys(body.exclude_fields_from_search)),
        partial=body.enable_partial_match,
        separated=body.enable_partial_match and body.partial_match_mode == "separated",
        partial_threshold=body.enable_partial_match_threshold,
        meaning=body.semantic_search_threshold if body.enable_semantic_search else None,
        matched_fields=body.enable_matched_fields,
        campaigns=body.enable_boosting_campaigns,
        existence=tuple(body.query_product_existence.product_ids) if body.query_product_existence else (),
        personalization=body.personalization_weight,
    )


def _advanced(text: str | None) -> Node | None:
    """Parse `advanced_q`; words without a field are searched in all texts."""
    if text is None or not text.strip():
        return None
    try:
        node = parse(text, FULL_TEXT)
    except FilterSyntax as error:
        refuse_filter(error, "advanced_q")
    sought = list(_full_texts(node))
    if not all(isinstance(leaf, (Term, Phrase)) for leaf in sought):
        refuse(
            "full_text takes words and phrases, no patterns and ranges",
            "advanced_q",
            kind="value_error.filter",
        )
    words = sum(len(leaf.value) for leaf in sought if isinstance(leaf, (Term, Phrase)))
    values = len(sought) + sum(isinstance(leaf, Phrase) for leaf in sought)
    if values > MOST_FULL_TEXTS or words > MOST_SOUGHT:
        refuse(
            f"advanced_q looks for at most {MOST_FULL_TEXTS} values of full_text, where a phrase counts as two, "
            f"and {MOST_SOUGHT} characters in all",
            "advanced_q",
            kind="value_error.filter",
        )
    return node


def _full_texts(node: Node) -> Iterator[Node]:
    """Return the leaves that are searched in all texts."""
    if isinstance(node, (All, AnyOf)):
        for child in node.children:
            yield from _full_texts(child)
    elif isinstance(node, Not):
        yield from _full_texts(node.child)
    elif getattr(node, "field", "") == FULL_TEXT:
        yield node

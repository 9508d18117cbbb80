"""Bodies of the six recommendation endpoints, and their conversion to a `UserQuery`.

Published in `docs/reference/rest.md`, section Recommendation.
"""

from __future__ import annotations

import re
from typing import Annotated, Any, Literal

from pydantic import Field, PlainValidator, WithJsonSchema, model_validator

from actors.recommender.messages import QueryKind, RecommendationResult, UserQuery
from cluster.query.language.field_values import canonical_field
from cluster.records.product import TRANSLATION_NAME, Product
from cluster.records.validation.recent_events import GROUP
from deployments.api.wire.query_bodies import (
    Count,
    Dithering,
    Diversification,
    Flag,
    Name,
    Names,
    Offset,
    SessionContext,
    UserQueryBody,
    diversity_rules_from_body,
    query_from_body,
)
from deployments.api.wire.validation_errors import build_error, refuse
from deployments.edge.http.replies import dumps

_ID_SCHEMA = {"type": "string", "minLength": 1, "maxLength": 512}
NamedList = Annotated[list[Annotated[str, Field(min_length=1, max_length=512)]], Field(max_length=1000)]
TextOrTexts = Annotated[
    NamedList,
    Field(min_length=1),
    WithJsonSchema(
        {"anyOf": [_ID_SCHEMA, {"type": "array", "minItems": 1, "maxItems": 1000, "items": _ID_SCHEMA}]}
    ),
]


def _explain(value: Any) -> tuple[bool, tuple[str, ...]]:
    if isinstance(value, bool):
        return value, ()
    if not isinstance(value, list):
        raise build_error("explain is true, false or an array of product ids", "type_error")
    if len(value) > MOST_EXPLAINED:
        raise build_error(
            f"ensure this value has at most {MOST_EXPLAINED} items", "value_error.list.max_items"
        )
    if not all(isinstance(item, str) for item in value):
        raise build_error("str type expected", "type_error.str")
    return True, tuple(value)


MOST_EXPLAINED = 100
Explain = Annotated[
    Any,
    PlainValidator(_explain),
    WithJsonSchema(
        {
            "description": "An addition of this service, for the secret key only. true adds `_explain` to every "
            "product (what brought it, its score parts, its rank, which rule moved it) and `explanation` to "
            "`data`; an array of product ids also says there why each of them is missing.",
            "default": False,
            "anyOf": [
                {"type": "boolean"},
                {"type": "array", "maxItems": MOST_EXPLAINED, "items": {"type": "string"}},
            ],
        }
    ),
]
"Whether to explain, and which products may be missing."


class Recommendation(UserQueryBody):
    """What all six share beyond every query."""

    explain: Explain = (False, ())
    exclude: Names = Field(default_factory=list)
    custom_context: SessionContext = Field(default_factory=dict)
    boosting_tags: Names = Field(default_factory=list)
    diversification: Annotated[dict[str, Diversification], Field(max_length=20)] = Field(default_factory=dict)


class Paged(Recommendation):
    """What the three endpoints share that return one list page by page."""

    dithering: Dithering = 1.0
    pagination_id: Name | None = None
    start: Offset = 0


class UserToProducts(Paged):
    """A request for products for a user."""


class UserToTrending(Paged):
    """A request for products that many users turn to at present."""


class UserToCategories(Recommendation):
    """A request for categories for a user, each with products."""

    products_per_category: Count = 5
    root_category: Annotated[list[Name], Field(max_length=64)] | None = None


class UserToAttributes(Recommendation):
    """A request for values of one field for a user, each with products."""

    field: Annotated[str, Field(min_length=1, max_length=512)]
    boost_attributes: Names = Field(default_factory=list)
    exclude_attributes: Names = Field(default_factory=list)
    products_per_attribute: Count = 2


class UserToHistory(Recommendation):
    """A request for the products a user dealt with, newest first."""

    history_type: Literal["last_checkout", "last_view", "last_read", "last_add_to_cart"] | None = None


class ProductToProducts(Paged):
    """A request for products that go with others. At least one anchor is required."""

    product_id: TextOrTexts | None = None
    product_ids: Annotated[NamedList, Field(min_length=1)] | None = None
    product_group_id: Annotated[str, Field(min_length=1, max_length=512)] | None = None
    product_group_ids: Annotated[NamedList, Field(min_length=1)] | None = None
    buy_together: Flag = False

    @model_validator(mode="before")
    @classmethod
    def _one_kind_of_product_id(cls, value: Any) -> Any:
        # A union would report the faults of both members; a text is therefore read as a list of one.
        if type(value) is dict and isinstance(value.get("product_id"), str):
            return {**value, "product_id": [value["product_id"]]}
        return value

    @model_validator(mode="after")
    def _has_an_anchor(self) -> ProductToProducts:
        if not self.anchors:
            raise build_error(
                "one of product_id, product_ids, product_group_id, product_group_ids is required"
            )
        return self

    @property
    def anchors(self) -> tuple[str, ...]:
        """Product ids and, marked, group ids."""
        products = [*(self.product_id or ()), *(self.product_ids or ())]
        groups = [
            *([self.product_group_id] if self.product_group_id else ()),
            *(self.product_group_ids or ()),
        ]
        return tuple(dict.fromkeys([*products, *[GROUP + group for group in groups]]))


def to_query(
    body: Recommendation, kind: QueryKind, *, app_id: str, user_id: str, now_ms: int, service_id: str = ""
) -> UserQuery:
    """Return the query of a body. `user_id` is the user of the token if there is one, else that of the body."""
    return query_from_body(
        body,
        kind,
        app_id=app_id,
        user_id=user_id,
        now_ms=now_ms,
        service_id=service_id,
        exclude=tuple(body.exclude),
        spacing=diversity_rules_from_body(body.diversification),
        context=body.custom_context,
        boosting_tags=tuple(body.boosting_tags),
        explain=body.explain[0],
        explain_missing=body.explain[1],
        **_kind_parameters(body),
    )


def _kind_parameters(body: Recommendation) -> dict[str, Any]:
    """Return the parameters that only one kind of body has."""
    parts: dict[str, Any] = {}
    if isinstance(body, Paged):
        parts = {"dithering": body.dithering, "pagination_id": body.pagination_id or "", "start": body.start}
    if isinstance(body, ProductToProducts):
        return {**parts, "anchors": body.anchors, "buy_together": body.buy_together}
    if isinstance(body, UserToCategories):
        root = body.root_category
        return {"group_rows": body.products_per_category, "root_category": tuple(root) if root else None}
    if isinstance(body, UserToAttributes):
        _check_attributes(body)
        return {
            "field_name": canonical_field(body.field),
            "boost_values": tuple(body.boost_attributes),
            "exclude_values": tuple(body.exclude_attributes),
            "group_rows": body.products_per_attribute,
        }
    if isinstance(body, UserToHistory):
        return {"history_type": body.history_type or ""}
    return parts


def _check_attributes(body: UserToAttributes) -> None:
    """Refuse a field that no product can have, and values that are both included and excluded."""
    name = canonical_field(body.field)
    outer, dot, rest = name.partition(".")
    is_field = outer in Product.model_fields or re.fullmatch(TRANSLATION_NAME, outer) is not None
    if not is_field or (dot and not rest) or name == "custom_attributes":
        refuse(
            "there is no such product field; name one, for example brand, or custom_attributes.<name>",
            "field",
        )
    both = set(body.boost_attributes) & set(body.exclude_attributes)
    if both:
        at = next(at for at, value in enumerate(body.boost_attributes) if value in both)
        refuse("this value is also in exclude_attributes; keep it in one of them", "boost_attributes", at)


def render_notices(answered: RecommendationResult, *more: dict[str, str]) -> bytes:
    """Return `warnings` and `anchor_found` as members of `data`; empty for a query without faults.

    `more` are warnings of the endpoint. A dedicated engine may run the previous release, whose results have neither.
    """
    warnings = (*getattr(answered, "warnings", ()), *more)
    notices = b',"warnings":' + dumps(list(warnings)) if warnings else b""
    return notices if getattr(answered, "anchor_found", True) else notices + b',"anchor_found":false'

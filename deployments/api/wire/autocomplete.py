"""The body of autocomplete and its reply.

Source: reference 8.5, endpoint 18
"""

from __future__ import annotations

import re
from typing import Annotated, Any

from pydantic import BaseModel, Field

from actors.recommender.messages import QUERIES, ReaderQuery
from cluster.query.values import canonical
from cluster.records.product import TRANSLATION_NAME, Product
from deployments.api.wire.asked import query_of
from deployments.api.wire.faults import refuse
from deployments.api.wire.shared import Count, Name, Query, Warnings

MOST_TYPED = 1_000
"Characters of `q` that are read; nobody types more, and what was pasted begins like that too."


class Autocomplete(Query):
    """The text typed so far, and where completions come from."""

    q: Annotated[str, Field(max_length=65_536)]
    completion_fields: Annotated[list[Name], Field(min_length=1, max_length=20)] = Field(
        default_factory=lambda: ["title"]
    )
    min_query_users: Annotated[int, Field(ge=1, le=1_000_000)] = 5
    language: Annotated[str, Field(pattern=r"^[A-Za-z]{2}$")] | None = None
    start: Any = None
    "Taken from clients that send it to every search, and not looked at."
    rows: Count = 5


class Completion(BaseModel):
    """One completion."""

    text: str
    text_with_markups: str
    text_with_inverted_markups: str
    product: dict[str, Any] | None = None


class FoundCompletions(BaseModel):
    """Completions by field."""

    took: int
    service_id: str
    completions: dict[str, list[Completion]]
    warnings: Warnings = None


def to_completion_query(
    body: Autocomplete, *, app_id: str, user_id: str, primary_language: str, now_ms: int
) -> ReaderQuery:
    """Turn a body into a query. `user_id` is the token's reader when there is one, else the body's.

    Errors:
        FilterSyntax, Unprocessable: a filter, a field or a simulated interaction makes no sense
    """
    for at, name in enumerate(body.completion_fields):
        _check_field(name, at)
    return query_of(
        body,
        "autocomplete",
        app_id=app_id,
        user_id=user_id,
        now_ms=now_ms,
        typed=body.q[:MOST_TYPED],
        completion_fields=tuple(dict.fromkeys(body.completion_fields)),
        min_users=body.min_query_users,
        language=(body.language or primary_language).lower(),
        only_language=body.language is not None,
    )


def _check_field(name: str, at: int) -> None:
    """Refuse a field that no product can have."""
    outer, dot, rest = canonical(name).partition(".")
    known = outer in Product.model_fields or re.fullmatch(TRANSLATION_NAME, outer) is not None
    if name in QUERIES or (known and (not dot or rest) and canonical(name) != "custom_attributes"):
        return
    refuse(
        "there is no such source of completions; name a product field such as title, custom_attributes.<name>, "
        "historical_queries or suggested_queries",
        "completion_fields",
        at,
    )

"""The body of autocomplete and its reply.

Published in `docs/reference/rest.md`, section Search.
"""

from __future__ import annotations

import re
from typing import Annotated, Any

from pydantic import BaseModel, Field

from actors.recommender.messages import QUERY_SOURCES, UserQuery
from cluster.query.language.field_values import canonical_field
from cluster.records.product import TRANSLATION_NAME, Product
from deployments.api.wire.query_bodies import Count, Name, UserQueryBody, Warnings, query_from_body
from deployments.api.wire.validation_errors import refuse

MOST_TYPED = 1_000
"Characters of `q` that the engine reads; users type fewer, and a longer pasted text still begins with them."


class Autocomplete(UserQueryBody):
    """The text typed so far, and where completions come from."""

    q: Annotated[str, Field(max_length=65_536)]
    completion_fields: Annotated[list[Name], Field(min_length=1, max_length=20)] = Field(
        default_factory=lambda: ["title"],
        description="Product fields, `custom_attributes.<name>`, `historical_queries` (searches of others, sent as "
        "interactions) or `suggested_queries` (those, searches of the query log that found something, and behind "
        "them questions of the question bank).",
    )
    min_query_users: Annotated[int, Field(ge=1, le=1_000_000)] = Field(
        5,
        description="Different users a query of others needs before it is shown; at least 5 with a publishable key.",
    )
    language: Annotated[str, Field(pattern=r"^[A-Za-z]{2}$")] | None = None
    start: Annotated[
        Any,
        Field(
            description="Offset of the first completion of each field, up to 200. Ignored unless the app's switch "
            "`completion_paging` is on, and where it is no whole number from 0 on: clients send it to every search.",
        ),
    ] = None
    rows: Count = 5


class Completion(BaseModel):
    """One completion."""

    text: str
    text_with_markups: str
    text_with_inverted_markups: str
    product: dict[str, Any] | None = None


class CompletionsReply(BaseModel):
    """Completions by field."""

    took: int
    service_id: str
    completions: dict[str, list[Completion]]
    warnings: Warnings = None


def to_completion_query(
    body: Autocomplete,
    *,
    app_id: str,
    user_id: str,
    primary_language: str,
    now_ms: int,
    pages: bool = False,
) -> UserQuery:
    """Return the query of a body. `user_id` is the user of the token if there is one, else that of the body.

    With `pages`, `start` is an offset; without, it is ignored.
    """
    for at, name in enumerate(body.completion_fields):
        _check_field(name, at)
    return query_from_body(
        body,
        "autocomplete",
        app_id=app_id,
        user_id=user_id,
        now_ms=now_ms,
        typed=body.q[:MOST_TYPED],
        completion_fields=tuple(dict.fromkeys(body.completion_fields)),
        min_users=body.min_query_users,
        start=_parse_start(body.start) if pages else 0,
        language=(body.language or primary_language).lower(),
        only_language=body.language is not None,
    )


def _parse_start(value: Any) -> int:
    """Return an offset; 0 if the text is not a valid offset."""
    text = str(value).strip()
    is_number = isinstance(value, int | str) and not isinstance(value, bool)
    return int(text) if is_number and text.isascii() and text.isdecimal() and len(text) < 7 else 0


def _check_field(name: str, at: int) -> None:
    """Refuse a field that no product can have."""
    outer, dot, rest = canonical_field(name).partition(".")
    is_field = outer in Product.model_fields or re.fullmatch(TRANSLATION_NAME, outer) is not None
    if name in QUERY_SOURCES or (
        is_field and (not dot or rest) and canonical_field(name) != "custom_attributes"
    ):
        return
    refuse(
        "there is no such source of completions; name a product field such as title, custom_attributes.<name>, "
        "historical_queries or suggested_queries",
        "completion_fields",
        at,
    )

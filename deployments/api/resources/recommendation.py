"""The six recommendation endpoints: each parses one wire model to a query and renders one reply.

Published in `docs/reference/rest.md`, section Recommendation.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from pydantic import ValidationError

from actors.recommender.messages import QueryKind, RecommendationResult, UserQuery
from cluster.errors import Forbidden
from deployments.api.http.confidential_fields import check_hidden_fields, remove_hidden_fields
from deployments.api.http.endpoint import Answer, Schema
from deployments.api.resources.query_services import QueryServices
from deployments.api.wire.recommendation import (
    ProductToProducts,
    Recommendation,
    UserToAttributes,
    UserToCategories,
    UserToHistory,
    UserToProducts,
    UserToTrending,
    render_notices,
    to_query,
)
from deployments.api.wire.validation_errors import unprocessable_from
from deployments.edge.http.replies import Reply, dumps, result
from deployments.edge.http.request import ApiRequest

NOT_FOR_BROWSERS = "Publishable key is not allowed to explain; use the secret key"

BODIES: dict[QueryKind, type[Recommendation]] = {
    "user_to_products": UserToProducts,
    "user_to_categories": UserToCategories,
    "user_to_attributes": UserToAttributes,
    "user_to_trending": UserToTrending,
    "user_to_history": UserToHistory,
    "product_to_products": ProductToProducts,
}
"Kind -> wire model, in the order of `docs/reference/rest.md`."


class RecommendationResource:
    """The recommendation endpoints."""

    def __init__(self, queries: QueryServices) -> None:
        self._queries = queries

    def body_parser(self, kind: QueryKind) -> Schema:
        """Return the schema step of one endpoint."""
        model = BODIES[kind]

        def read(request: ApiRequest) -> UserQuery:
            # as `validate_body`, without its call: this is the hottest path
            try:
                body = model.model_validate(request.payload)
            except ValidationError as error:
                raise unprocessable_from(error, "body", model) from error
            credential = request.credential
            if body.explain[0] and not credential.is_secret:
                raise Forbidden(NOT_FOR_BROWSERS)
            token = request.token
            user_id = token.user_id if token is not None and token.user_id else body.user_id or ""
            query = to_query(
                body,
                kind,
                app_id=credential.app.app_id,
                user_id=user_id,
                now_ms=self._queries.clock.now_ms(),
                service_id=self._queries.new_service_id(),
            )
            if query.pagination_id and not (user_id or credential.is_secret):
                # Anybody may send a `pagination_id` with a publishable key: without a user, little is stored
                # for it.
                query = replace(query, is_strangers=True)
            return check_hidden_fields(request, query)

        return read

    def build_answer(self, kind: QueryKind) -> Answer:
        """Return the answer function of one endpoint."""
        write = _WRITERS.get(kind, _products)

        async def answer(request: ApiRequest) -> Reply:
            query, outcome = await self._queries.treatment.apply(request)
            with outcome:
                answered = await self._queries.recommender.answer(query)
                outcome.is_empty = not (answered.products or answered.groups)
            # Of the parsed query: a preview clears the id in the treated one.
            service_id = request.parsed.service_id
            if self._queries.served_log is not None:
                self._queries.served_log.record(request, service_id, query, answered, outcome.treatments)
            name, records = write(remove_hidden_fields(request, query, answered))
            payload = dumps(records) + render_notices(answered)
            if answered.explanation is not None:
                payload += b',"explanation":' + dumps(answered.explanation)
            return result(request, service_id, name, payload)

        return answer


def _products(answered: RecommendationResult) -> tuple[str, Any]:
    return "products", answered.products


def _categories(answered: RecommendationResult) -> tuple[str, Any]:
    return "categories", [
        {"category": group.value, "total": group.total, "recommended_products": group.products}
        for group in answered.groups
    ]


def _attributes(answered: RecommendationResult) -> tuple[str, Any]:
    return "attributes", [
        {"value": group.value, "total": group.total, "recommended_products": group.products}
        for group in answered.groups
    ]


_WRITERS: dict[QueryKind, Callable[[RecommendationResult], tuple[str, Any]]] = {
    "user_to_categories": _categories,
    "user_to_attributes": _attributes,
}

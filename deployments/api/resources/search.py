"""The endpoints that search products and read products by id.

Published in `docs/reference/rest.md`, section Search.
"""

from __future__ import annotations

from typing import Any

from actors.recommender.messages import UserQuery
from actors.retrieval.messages import SearchQuery, SearchResult, SpellingResult
from cluster.errors import Forbidden
from deployments.api.http.confidential_fields import check_hidden_fields, remove_hidden_fields
from deployments.api.resources.query_services import QueryServices
from deployments.api.resources.recommendation import NOT_FOR_BROWSERS
from deployments.api.wire.recommendation import render_notices
from deployments.api.wire.search import (
    ManyProducts,
    SearchBody,
    spelling_to_dict,
    to_mget_query,
    to_search_query,
)
from deployments.api.wire.validation_errors import validate_body
from deployments.edge.http.replies import Reply, dumps, result
from deployments.edge.http.request import ApiRequest


class SearchResource:
    """The search and mget endpoints."""

    def __init__(self, queries: QueryServices) -> None:
        self._queries = queries

    def parse_request(self, request: ApiRequest) -> UserQuery:
        """Validate the body of a search.

        Errors:
            Unprocessable: the body is invalid
            Forbidden: a publishable key asks to explain
        """
        body = validate_body(SearchBody, request.payload)
        if body.explain and not request.credential.is_secret:
            raise Forbidden(NOT_FOR_BROWSERS)
        token = request.token
        query = to_search_query(
            body,
            app_id=request.app_id,
            user_id=token.user_id if token is not None and token.user_id else body.user_id or "",
            now_ms=self._queries.clock.now_ms(),
        )
        return check_hidden_fields(request, query)

    def parse_many(self, request: ApiRequest) -> UserQuery:
        """Validate the body of mget."""
        body = validate_body(ManyProducts, request.payload)
        return check_hidden_fields(request, to_mget_query(body, app_id=request.app_id))

    async def answer(self, request: ApiRequest) -> Reply:
        """Search products."""
        query: UserQuery = request.parsed
        treated, outcome = await self._queries.treatment.apply(request)
        with outcome:
            answered = await self._queries.recommender.answer(treated)
            outcome.is_empty = not answered.products
        service_id = self._queries.new_service_id()
        if self._queries.served_log is not None:
            self._queries.served_log.record(request, service_id, treated, answered, outcome.treatments)
        remove_hidden_fields(request, query, answered)
        search_query = query.search or SearchQuery()
        hits = answered.search or _NOTHING
        self._queries.query_log.record(
            request,
            "search",
            search_query.original,
            total=hits.total,
            language=search_query.prefer_language,
            served_by=answered.served_by,
            engine_id=query.engine_id,
        )
        # Members without their braces: `result` writes the object around them.
        details = b"," + dumps(_search_details(query, hits))[1:-1] + render_notices(answered)
        return result(request, service_id, "products", dumps(answered.products) + details)

    async def answer_many(self, request: ApiRequest) -> Reply:
        """Return products by their ids."""
        query: UserQuery = request.parsed
        answered = remove_hidden_fields(request, query, await self._queries.recommender.answer(query))
        payload = dumps(answered.products) + render_notices(answered)
        return result(request, self._queries.new_service_id(), "products", payload)


_NOTHING = SearchResult(0, SpellingResult(False, False, "", "", "", ""))


def _search_details(query: UserQuery, result: SearchResult) -> dict[str, Any]:
    """Return the search details beside the products."""
    details: dict[str, Any] = {
        "total": result.total,
        "start": query.start,
        "spellcheck": spelling_to_dict(result.spelling),
        "facet_counts": {"facet_fields": result.facets},
        "product_existence": result.existence,
        "partially_matched_products": result.partial,
        "custom_assets": result.assets,
        "boosting_rules": result.applied,
    }
    return {**details, "filtering_rule": result.filtering} if result.filtering else details

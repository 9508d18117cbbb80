"""Searches, and products by their ids.

Source: reference 8.5, endpoints 17 and 19
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pydantic import ValidationError

from actors.recommender.messages import ReaderQuery, RecommendationResult
from actors.retrieval.messages import SearchFound, SearchQuery, Spelling
from actors.serving.client import RecommenderClient
from cluster.clock import Clock
from cluster.ids import ServiceId
from deployments.api.http.confidential_fields import check_query, hide
from deployments.api.http.query_log import QueryLog
from deployments.api.http.query_treatment import TreatedQueries
from deployments.api.http.result_notices import notices_of
from deployments.api.wire.faults import unprocessable
from deployments.api.wire.search import ManyProducts, Search, to_named_query, to_search_query
from deployments.edge.envelope import Reply, dumps, result
from deployments.edge.request import Arrival


class Searches:
    """Endpoints 17 and 19."""

    def __init__(
        self,
        queries: TreatedQueries,
        client: RecommenderClient,
        clock: Clock,
        new_service_id: Callable[[], ServiceId],
        query_log: QueryLog,
    ) -> None:
        self._queries = queries
        self._client = client
        self._clock = clock
        self._new_service_id = new_service_id
        self._query_log = query_log

    def read(self, request: Arrival) -> ReaderQuery:
        """Read the body of a search."""
        try:
            body = Search.model_validate(request.payload)
        except ValidationError as error:
            raise unprocessable(error) from error
        token = request.token
        query = to_search_query(
            body,
            app_id=request.app_id,
            user_id=token.user_id if token is not None and token.user_id else body.user_id or "",
            now_ms=self._clock.now_ms(),
        )
        return check_query(request, query)

    def read_named(self, request: Arrival) -> ReaderQuery:
        """Read the body of mget."""
        try:
            body = ManyProducts.model_validate(request.payload)
        except ValidationError as error:
            raise unprocessable(error) from error
        return check_query(request, to_named_query(body, app_id=request.app_id))

    async def answer(self, request: Arrival) -> Reply:
        """Search."""
        answered = await self._queries.answer(request)
        query: ReaderQuery = request.parsed
        asked = query.search or SearchQuery()
        found = answered.search or _NOTHING
        self._query_log.note(
            request, "search", asked.original,
            total=found.total, language=asked.prefer_language, served_by=answered.served_by,
            engine_id=query.engine_id,
        )  # fmt: skip
        return self._reply(request, answered, b"," + dumps(_told(query, found))[1:-1] + notices_of(answered))

    async def answer_named(self, request: Arrival) -> Reply:
        """Give products by their ids."""
        query: ReaderQuery = request.parsed
        return self._reply(request, hide(request, query, await self._client.answer(query)), b"")

    def _reply(self, request: Arrival, answered: RecommendationResult, more: bytes) -> Reply:
        return result(
            "products",
            dumps(answered.products) + more,
            took_ms=request.took_ms(),
            service_id=self._new_service_id(),
            alias=request.credential.app.settings.service_id_response_alias,
        )


_NOTHING = SearchFound(0, Spelling(False, False, "", "", "", ""))


def _told(query: ReaderQuery, found: SearchFound) -> dict[str, Any]:
    """Write what stands beside the products."""
    spelling = found.spelling
    told: dict[str, Any] = {
        "total": found.total,
        "start": query.start,
        "spellcheck": {
            "spelling_errors": spelling.errors,
            "auto_spelling_correction": spelling.corrected,
            "original_query": spelling.original_text,
            "original_query_with_markups": spelling.original_marked,
            "corrected_query": spelling.corrected_text,
            "corrected_query_with_markups": spelling.corrected_marked,
        },
        "facet_counts": {"facet_fields": found.facets},
        "product_existence": found.existence,
        "partially_matched_products": found.partial,
        "custom_assets": found.assets,
        "boosting_rules": found.applied,
    }
    return {**told, "filtering_rule": found.filtering} if found.filtering else told

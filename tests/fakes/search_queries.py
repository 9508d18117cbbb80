"""Searches as callers write them, answered by a recommender in this process."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from actors.recommender.messages import RecommendationResult
from actors.recommender.recommender import Recommender
from actors.retrieval.messages import SearchResult
from actors.serving import dispatch
from deployments.api.wire.search import SearchBody, to_search_query
from tests.fakes.corner_shop import APP, NOW_MS


def search(
    recommender: Recommender, recent: Sequence[bytes] = (), *, now_ms: int = NOW_MS, **body: Any
) -> RecommendationResult:
    """Ask a body of `POST /v1/search/search`."""
    made = SearchBody.model_validate(body)
    query = to_search_query(made, app_id=APP, user_id=made.user_id or "", now_ms=now_ms)
    return dispatch.answer(recommender, query, recent, (), now_ms)


def search_result(result: RecommendationResult) -> SearchResult:
    """What was found beside the page."""
    assert result.search is not None
    return result.search


def ids(result: RecommendationResult) -> list[str]:
    """Product ids in order."""
    return [product["product_id"] for product in result.products]

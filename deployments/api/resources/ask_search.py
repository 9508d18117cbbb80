"""The search endpoint that also answers questions: products found by their texts and by their passages.

    passages  ranked by words and meaning  --\\
                                             +--> fused by rank --> order, page --> records, snippets
    products  ranked by words              --/
    filters, facets and the total are the engine's, over both

Published in `docs/reference/rest.md`, section Ask.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from pydantic_core import PydanticCustomError

from actors.archive.messages import ArchiveQuery, Snippet
from actors.recommender.messages import RecommendationResult, UserQuery
from cluster.access_tier import access_of, may_read
from cluster.errors import NotFound
from deployments.api.http.article_access import keep_readable, tiers_from_request
from deployments.api.http.confidential_fields import (
    check_hidden_fields,
    check_hidden_names,
    remove_hidden_fields,
    remove_hidden_suggestions,
)
from deployments.api.http.user_identity import UserIdentity, user_identity_from_request
from deployments.api.resources.query_services import QueryServices
from deployments.api.resources.questions import (
    AskServices,
    QuestionsResource,
    check_browser_question,
    list_filtered_products,
)
from deployments.api.wire.ask import AskSearch, parse_question_id
from deployments.api.wire.search import ManyProducts, SearchBody, to_mget_query, to_search_query
from deployments.api.wire.validation_errors import validate_body
from deployments.edge.http.replies import Reply, success
from deployments.edge.http.request import ApiRequest

MOST_RANKED = 1_000
"Products ordered by both ranks; later pages continue with the engine's order."
MOST_PASSAGES = 200
ALWAYS_SHOWN = ("title", "authors", "tags", "categories")
_READ_FOR_SNIPPETS = ("description", "access")
SNIPPET_CHARS = 320
_RANK_DAMPING = 60.0
"Source: reciprocal rank fusion, Cormack et al. 2009"
_PASSAGES_WEIGH = 1.2
LEAST_PASSAGE_SCORE = 0.25
"Lowest score of a passage that shares no word with the question."
_MATCHED = 1e-3
"`_search_score` of products that the engine found; products included because of a passage have less."
_LIGHT = 1
"Weight of personalization, of 5: relevance comes first."


class AskSearchResource:
    """The search endpoint of ask."""

    def __init__(self, services: AskServices, questions: QuestionsResource, queries: QueryServices) -> None:
        self._services = services
        self._questions = questions
        self._queries = queries

    def parse_request(self, request: ApiRequest) -> tuple[AskSearch, UserIdentity, UserQuery]:
        """Validate the body."""
        body = validate_body(AskSearch, request.payload)
        check_browser_question(request, body)
        identity = user_identity_from_request(request, body, self._services.clock.now_ms())
        check_hidden_names(
            request.credential.hidden_fields,
            "fl",
            (name for name in body.fl if "*" not in name),
            may_cover=True,
        )
        query = check_hidden_fields(request, self._query(request, body, identity))
        return body, identity, keep_readable(query, tiers_from_request(request))

    async def answer(self, request: ApiRequest) -> Reply:
        """Search products and passages, and create the question if an answer is requested."""
        body, identity, query = request.parsed
        # Before the search, so that the answer is written while products are searched.
        question_id = await self._create_question(request, body, identity) if body.answer else None
        treated, outcome = await self._queries.treatment.apply_variants(request, query)
        with outcome:
            snippets = await self._retrieve_passages(request, body)
            answered = await self._search_products(treated, list(snippets))
            products = await self._page(request, body, query, answered, snippets)
            outcome.is_empty = not products
        total = answered.search.total if answered.search is not None else 0
        self._queries.query_log.record(
            request, "ask", body.q, total=total, served_by="ask_search", engine_id=query.engine_id
        )
        service_id = self._queries.new_service_id()
        if self._queries.served_log is not None:
            shown = [str(product["product_id"]) for product in products]
            self._queries.served_log.record_items(
                request, service_id, treated, shown, outcome.treatments, endpoint="ask_search"
            )
        data: dict[str, Any] = {
            "took": request.took_ms(),
            "service_id": service_id,
            "total": total,
            "start": body.start,
            "products": products,
        }
        if body.facets:
            facets = answered.search.facets if answered.search is not None else {}
            data["facet_counts"] = {"facet_fields": facets}
        warnings = [dict(warning) for warning in getattr(answered, "warnings", ())]
        if warnings:
            remove_hidden_suggestions(request.credential.hidden_fields, warnings)
            data["warnings"] = warnings
        if question_id is not None:
            data["question_id"] = question_id
        return success(data)

    def _query(self, request: ApiRequest, body: AskSearch, identity: UserIdentity) -> UserQuery:
        given: dict[str, Any] = {
            "q": body.q,
            "user_id": identity.user_id or None,
            "anonymous_id": body.anonymous_id,
            "rows": body.rows,
            "start": body.start,
            "fl": [],
            "fq": body.fq,
            "boost_fq": body.boost_fq,
            "exclude": body.exclude,
            "type": body.type,
            "facets": body.facets,
            "facet_filters": body.facet_filters,
            "order_by": _order_keys(body.order_by),
            "personalization_weight": _LIGHT,
        }
        search = validate_body(SearchBody, given)
        return to_search_query(
            search, app_id=request.app_id, user_id=identity.user_id, now_ms=self._services.clock.now_ms()
        )

    async def _create_question(self, request: ApiRequest, body: AskSearch, identity: UserIdentity) -> str:
        """Create the question; on a later page return the id of the first page's question."""
        claimed_id = identity.metadata.get("question_id")
        if body.start and claimed_id is not None:
            try:
                return parse_question_id(claimed_id)
            except PydanticCustomError:
                pass
        question = self._questions.build_question(
            request, body, body.q, identity, exclude=tuple(body.exclude)
        )
        return await self._questions.accept(request, question, identity, body.parent_question_id)

    async def _retrieve_passages(self, request: ApiRequest, body: AskSearch) -> dict[str, Snippet]:
        """Return the best passage of each product that the token's user may read, best first."""
        app_id = request.app_id
        tiers = tiers_from_request(request)
        only = await list_filtered_products(self._queries.recommender, app_id, body.fq, body.type, tiers)
        query = ArchiveQuery(
            app_id,
            body.q,
            rows=MOST_PASSAGES,
            per_product=1,
            type=body.type,
            yearly_decay=body.yearly_decay,
            exclude=tuple(body.exclude),
            only=None if only is None else frozenset(only),
            tiers=tiers,
        )
        snippets = await self._services.client.retrieve(query)
        return {
            snippet.product_id: snippet
            for snippet in snippets
            if snippet.lexical or snippet.score >= LEAST_PASSAGE_SCORE
        }

    async def _search_products(self, query: UserQuery, by_passage: Sequence[str]) -> RecommendationResult:
        """Return the engine's products, with those of the passages included; nothing without an engine."""
        assert query.search is not None
        wide = replace(query, search=replace(query.search, include=tuple(by_passage)))
        if _is_fused(query):
            # The two rankings are fused over their first places, so a page can be cut only afterwards.
            wide = replace(wide, start=0, rows=max(MOST_RANKED, query.start + query.rows))
        try:
            return await self._queries.recommender.answer(wide)
        except NotFound:
            return RecommendationResult()

    async def _page(
        self,
        request: ApiRequest,
        body: AskSearch,
        query: UserQuery,
        answered: RecommendationResult,
        snippets: Mapping[str, Snippet],
    ) -> list[dict[str, Any]]:
        assert query.search is not None
        page: Sequence[Mapping[str, Any]] = answered.products
        if _is_fused(query):
            fused = fuse_rankings(answered.products[:MOST_RANKED], list(snippets))
            page = [*fused, *answered.products[MOST_RANKED:]][body.start : body.start + body.rows]
        marks = {str(product["product_id"]): product for product in page}
        named = ManyProducts.model_construct(
            product_ids=list(marks),
            fl=["*"] if "*" in body.fl else [*body.fl, *ALWAYS_SHOWN, *_READ_FOR_SNIPPETS],
        )
        user_query = to_mget_query(named, app_id=request.app_id)
        records = (
            remove_hidden_fields(
                request, user_query, await self._queries.recommender.answer(user_query)
            ).products
            if page
            else []
        )
        return [
            self._render_product(body, record, marks, snippets, tiers_from_request(request))
            for record in records
            if record.pop("_found", True)
        ]

    def _render_product(
        self,
        body: AskSearch,
        record: dict[str, Any],
        marks: Mapping[str, Mapping[str, Any]],
        snippets: Mapping[str, Snippet],
        tiers: frozenset[str],
    ) -> dict[str, Any]:
        product_id = str(record["product_id"])
        passage = snippets.get(product_id)
        text = passage.text if passage is not None else ""
        if passage is None and may_read(access_of(record), tiers):
            text = str(record.get("description") or "")
        chars = SNIPPET_CHARS if body.snippet_max_chars is None else body.snippet_max_chars
        # They were read for the snippet, so they leave a record that was not asked for them.
        for name in _READ_FOR_SNIPPETS:
            if not {name, "*"} & set(body.fl):
                record.pop(name, None)
        underscored = {name: value for name, value in marks[product_id].items() if name.startswith("_")}
        if passage is not None:
            underscored["_search_score"] = max(underscored.get("_search_score", 0.0), round(passage.score, 6))
        snippet = self._services.client.highlight_excerpt(text, body.q, chars) if chars else ""
        return {**record, "snippet": snippet, **underscored}


def _is_fused(query: UserQuery) -> bool:
    """Return whether a page holds places that both ranks order."""
    assert query.search is not None
    return not query.search.order and query.start < MOST_RANKED


def fuse_rankings(
    products: Sequence[Mapping[str, Any]], by_passage: Sequence[str]
) -> list[Mapping[str, Any]]:
    """Return products ordered by the fused ranks of the engine's words and of passages.

    Boosted products stay first.
    """
    passage_rank = {product_id: rank for rank, product_id in enumerate(by_passage)}
    scores = []
    for rank, product in enumerate(products):
        score = 1.0 / (_RANK_DAMPING + rank) if product.get("_search_score", 0.0) >= _MATCHED else 0.0
        place = passage_rank.get(str(product["product_id"]))
        if place is not None:
            score += _PASSAGES_WEIGH / (_RANK_DAMPING + place)
        scores.append((not product.get("_boosted", False), -score, rank))
    return [products[rank] for _, _, rank in sorted(scores)]


def _order_keys(order_by: str | list[Any]) -> list[Any]:
    """Return the field and direction of an order, in either spelling."""
    if isinstance(order_by, list):
        return order_by
    return [] if order_by == "relevance" else [{"field": order_by}]

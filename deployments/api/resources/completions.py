"""Completions for a search bar.

Published in `docs/reference/rest.md`, section Search.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from actors.recommender.messages import QUERY_SOURCES, UserQuery
from actors.search.question_bank_cache import QuestionBankCache
from actors.serving.client import RecommenderClient
from cluster.errors import Unavailable
from deployments.api.http.confidential_fields import check_hidden_fields, remove_hidden_fields
from deployments.api.resources.query_services import QueryServices
from deployments.api.wire.autocomplete import Autocomplete, to_completion_query
from deployments.api.wire.recommendation import render_notices
from deployments.api.wire.validation_errors import validate_body
from deployments.edge.http.replies import Reply, dumps, result
from deployments.edge.http.request import ApiRequest

LEAST_USERS = 5
"Least number of users of a query that a publishable key may see: fewer would disclose single users."


class CompletionsResource:
    """The autocomplete endpoint."""

    def __init__(self, queries: QueryServices, suggestions: QuestionBankSuggestions) -> None:
        self._queries = queries
        self._suggestions = suggestions

    def parse_request(self, request: ApiRequest) -> UserQuery:
        """Validate the body."""
        body = validate_body(Autocomplete, request.payload)
        token = request.token
        query = to_completion_query(
            body,
            app_id=request.app_id,
            user_id=token.user_id if token is not None and token.user_id else body.user_id or "",
            primary_language=request.credential.app.settings.primary_language,
            pages=request.credential.app.settings.completion_paging,
            now_ms=self._queries.clock.now_ms(),
        )
        check_hidden_fields(request, query)
        if not request.credential.is_secret:
            query = replace(query, min_users=max(query.min_users, LEAST_USERS))
        return query

    async def answer(self, request: ApiRequest) -> Reply:
        """Return completions."""
        query: UserQuery = request.parsed
        treated, outcome = await self._queries.treatment.apply(request)
        with outcome:
            answered = await self._queries.recommender.answer(treated)
        remove_hidden_fields(request, query, answered)
        completions = await self._suggestions.fill(query, answered.completions)
        self._queries.query_log.record(
            request,
            "autocomplete",
            query.typed,
            total=sum(map(len, completions.values())),
            language=query.language,
            served_by=answered.served_by,
            engine_id=query.engine_id,
        )
        service_id = self._queries.new_service_id()
        if self._queries.served_log is not None:
            self._queries.served_log.record_items(
                request, service_id, treated, treatments=outcome.treatments, level=answered.served_by
            )
        payload = dumps(completions) + render_notices(answered, *_warnings(request, query))
        return result(request, service_id, "completions", payload)


def _warnings(request: ApiRequest, query: UserQuery) -> list[dict[str, str]]:
    """Warn of completions that few users searched for, because such a text can reveal what one person typed."""
    given = request.payload.get("min_query_users")
    # A text such as "5.0" is a valid number, too.
    if (
        given is None
        or float(given) >= LEAST_USERS
        or not QUERY_SOURCES.intersection(query.completion_fields)
    ):
        return []
    raised = "" if request.credential.is_secret else f"; with a publishable key {LEAST_USERS} is used"
    message = f"values below {LEAST_USERS} are discouraged: they can reveal what one person typed{raised}"
    return [{"field": "min_query_users", "parameter": "min_query_users", "message": message}]


FIELD = "suggested_queries"
MOST_TYPED = 500
"Characters of the typed text that are looked up in the question bank."

Completions = Mapping[str, list[dict[str, Any]]]


class QuestionBankSuggestions:
    """Adds questions of the question bank to completions."""

    def __init__(self, banks: QuestionBankCache, recommender: RecommenderClient) -> None:
        self._banks = banks
        self._recommender = recommender

    async def fill(self, query: UserQuery, completions: Completions) -> Completions:
        """Add questions to the first page of a query if popular queries do not fill it.

        Cost:
            one read of a counter, only for this field and a page that is not full
        """
        entries = completions.get(FIELD)
        if entries is None or len(entries) >= query.rows:
            return completions
        if query.start:
            # skip the questions of earlier pages
            whole = replace(query, completion_fields=(FIELD,), start=0, rows=query.start + query.rows)
            entries = list((await self._recommender.answer(whole)).completions.get(FIELD, ()))
        try:
            listed = await self._add_questions(query, entries)
        # The question bank is an addition: without it the completions are shorter and still right.
        except Unavailable:
            return completions
        return {**completions, FIELD: listed[query.start : query.start + query.rows]}

    async def _add_questions(
        self, query: UserQuery, entries: Sequence[dict[str, Any]]
    ) -> list[dict[str, Any]]:
        beside = [entry["text"] for entry in entries]
        last = query.start + query.rows
        questions = await self._banks.suggest(query.app_id, query.typed[:MOST_TYPED], last, beside)
        return [*entries, *questions]

"""Endpoints that suggest questions: about a product, popular questions, and completions.

Published in `docs/reference/rest.md`, section Ask.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import Any

from actors.recommender.messages import UserQuery
from cluster.access_tier import NOBODY
from cluster.errors import KioskError, NotFound
from cluster.ids import DEFAULT_ENGINE
from cluster.records.question import Answer
from deployments.api.http.article_access import keep_readable, tiers_from_request
from deployments.api.http.confidential_fields import check_hidden_names
from deployments.api.http.endpoint import Endpoint, EndpointTexts, body_parser
from deployments.api.resources.ask_search import AskSearchResource
from deployments.api.resources.completions import QuestionBankSuggestions
from deployments.api.resources.query_services import QueryServices
from deployments.api.resources.questions import AskServices, QuestionsResource
from deployments.api.wire import ask as wire
from deployments.api.wire.records import MessageReply, build_envelope
from deployments.edge.access.admission import AdmissionRules
from deployments.edge.http.replies import Reply, success
from deployments.edge.http.request import ApiRequest

TRENDING_DAYS = 7
TRENDING_USERS = 3
"Minimum number of users who asked a question before other users see it."
MOST_TYPED = 500
_ANYTHING = "news"
_DAY_MS = 86_400_000
_WIDE = 200
_MOST_TRENDING = 30
_MOST_CITING = 60
"Candidate questions for one product."


class AskSuggestionsResource:
    """The suggestion endpoints of ask."""

    def __init__(
        self, services: AskServices, queries: QueryServices, suggestions: QuestionBankSuggestions
    ) -> None:
        self._services = services
        self._queries = queries
        self._suggestions = suggestions

    async def related(self, request: ApiRequest) -> Reply:
        """Return questions about a product: popular ones that its text answered, then generated ones.

        Without a product, return the result of `trending_questions`.
        """
        body: wire.RelatedQuestions = request.parsed
        if body.product_id is None:
            return await self._trending(request.app_id, body.rows)
        popular = await self._popular_about(request.app_id, body.product_id)
        from_text = await self._services.client.suggest_product_questions(
            request.app_id, body.product_id, body.rows
        )
        return self._questions_reply(_deduplicate([*popular, *from_text], body.rows))

    async def trending(self, request: ApiRequest) -> Reply:
        """Return recent popular questions, then questions that the archive answers."""
        body: wire.TrendingQuestions = request.parsed
        return await self._trending(request.app_id, body.rows)

    async def suggestion(self, request: ApiRequest) -> Reply:
        """Return questions for a search query."""
        body: wire.Suggestion = request.parsed
        typed = " ".join(body.q[:MOST_TYPED].split())
        questions = _filter_by_prefix(await self._popular_questions(request.app_id, _WIDE), typed)
        if len(questions) < body.rows:
            questions += await self._suggest(request.app_id, typed or _ANYTHING, body.rows)
        return success({"completions": _deduplicate(questions, body.rows)})

    async def autocomplete(self, request: ApiRequest) -> Reply:
        """Return completions of a question."""
        body: wire.Suggestion = request.parsed
        typed = " ".join(body.q[:MOST_TYPED].split())
        questions = _filter_by_prefix(await self._popular_questions(request.app_id, _WIDE), typed)
        if len(questions) < body.rows:
            completed = await self._complete(request, body.q, ("suggested_queries", "title"), body.rows)
            questions += [completion["text"] for entries in completed.values() for completion in entries]
        return success({"completions": _deduplicate(questions, body.rows)})

    async def search_autocomplete(self, request: ApiRequest) -> Reply:
        """Return completions of a search."""
        body: wire.SearchSuggestion = request.parsed
        fields = tuple(dict.fromkeys(body.completion_fields))
        check_hidden_names(request.credential.hidden_fields, "completion_fields", fields)
        completed = await self._complete(request, body.q, fields, body.rows)
        return success({"completions": completed})

    async def _trending(self, app_id: str, rows: int) -> Reply:
        often = await self._popular_questions(app_id, rows)
        if len(often) < rows:
            often += await self._suggest_for_trending(app_id, rows - len(often))
        return self._questions_reply(_deduplicate(often, rows))

    def _questions_reply(self, questions: list[str]) -> Reply:
        return success({"related_questions": questions, "service_id": self._queries.new_service_id()})

    async def _popular_questions(self, app_id: str, rows: int) -> list[str]:
        today = self._services.clock.now_ms() // _DAY_MS
        days = range(today, today - TRENDING_DAYS, -1)
        return await self._services.store.list_popular(app_id, days, min_users=TRENDING_USERS, rows=rows)

    async def _popular_about(self, app_id: str, product_id: str) -> list[str]:
        """Return recent popular questions whose answers cite a product."""
        often = await self._popular_questions(app_id, _WIDE)
        citing = (await self._services.store.list_citing(app_id, product_id))[-_MOST_CITING:] if often else []
        recorded = await asyncio.gather(
            *(self._services.store.read(app_id, question_id) for question_id in citing)
        )
        cited = {
            stored.question.text.casefold()
            for stored in recorded
            # An answer may have been revised since it cited the product, because that is locked now.
            if stored is not None and _cites(stored.answer, product_id)
        }
        return [text for text in often if text.casefold() in cited]

    async def _suggest_for_trending(self, app_id: str, rows: int) -> list[str]:
        """Return questions about trending products; nothing without an engine."""
        query = UserQuery(
            kind="user_to_trending", app_id=app_id, engine_id=DEFAULT_ENGINE, rows=_MOST_TRENDING
        )
        questions: list[str] = []
        try:
            # Everybody gets these questions, so they come from open articles alone.
            for product in (await self._queries.recommender.answer(keep_readable(query, NOBODY))).products:
                if len(questions) >= rows:
                    break
                questions += await self._services.client.suggest_product_questions(
                    app_id, str(product["product_id"]), 1
                )
            if len(questions) < rows:
                questions += await self._services.client.suggest_questions(app_id, _ANYTHING, rows)
            return questions
        except KioskError:
            return questions

    async def _suggest(self, app_id: str, text: str, rows: int) -> list[str]:
        """Return suggestions of the archive; an unavailable archive causes fewer suggestions, not an error."""
        try:
            return await self._services.client.suggest_questions(app_id, text, rows)
        except KioskError:
            return []

    async def _complete(
        self, request: ApiRequest, typed: str, fields: tuple[str, ...], rows: int
    ) -> dict[str, list[dict[str, Any]]]:
        """Return completions of the engine; nothing without an engine."""
        query = UserQuery(
            kind="autocomplete",
            app_id=request.app_id,
            engine_id=DEFAULT_ENGINE,
            rows=rows,
            typed=typed[:MOST_TYPED],
            completion_fields=fields,
            language=request.credential.app.settings.primary_language,
        )
        query = keep_readable(query, tiers_from_request(request))
        try:
            completions = (await self._queries.recommender.answer(query)).completions
            completions = await self._suggestions.fill(query, completions)
        except NotFound:
            completions = {}
        return {
            name: [
                {key: value for key, value in completion.items() if key != "product"}
                for completion in completions.get(name, [])
            ]
            for name in fields
        }


def _cites(answer: Answer, product_id: str) -> bool:
    return any(passage.product_id == product_id for passage in (*answer.passages, *answer.related))


def _filter_by_prefix(often: Iterable[str], typed: str) -> list[str]:
    """Return questions in which a word starts with the prefix, those that start with it first."""
    prefix = typed.casefold()
    if not prefix:
        return list(often)
    places = [(text.casefold().find(prefix), text) for text in often]
    inside = [(at, text) for at, text in places if at == 0 or (at > 0 and not text[at - 1].isalnum())]
    return [text for at, text in inside if at == 0] + [text for at, text in inside if at > 0]


def _deduplicate(texts: Iterable[str], rows: int) -> list[str]:
    unique: dict[str, str] = {}
    for text in texts:
        unique.setdefault(text.casefold(), text)
    return list(unique.values())[:rows]


_READ = AdmissionRules(publishable=True)
_ASK = AdmissionRules(
    publishable=True,
    body="json",
    reads_token=True,
    token_in_body=True,
    browser_bytes=128 << 10,
    proves_asker=True,
)
_TAG = "Ask"


def build_ask_endpoints(
    services: AskServices, queries: QueryServices, suggestions: QuestionBankSuggestions
) -> tuple[Endpoint, ...]:
    """Return the endpoints."""
    questions = QuestionsResource(services, queries)
    return (
        *_question_rows(questions),
        *_search_rows(AskSearchResource(services, questions, queries)),
        *_suggestion_rows(AskSuggestionsResource(services, queries, suggestions)),
    )


def _search_rows(resource: AskSearchResource) -> tuple[Endpoint, ...]:
    return (
        Endpoint(
            "ask.search",
            "POST",
            "/v1/ask/search",
            _ASK,
            "detail",
            resource.answer,
            schema=resource.parse_request,
            hot=True,
            about=EndpointTexts(
                "Search by words and meaning, and ask a question",
                _TAG,
                wire.AskSearch,
                {200: build_envelope(wire.AskSearchReply), 404: MessageReply},
            ),
        ),
    )


def _suggestion_rows(resource: AskSuggestionsResource) -> tuple[Endpoint, ...]:
    questions = {200: build_envelope(wire.QuestionsReply)}
    texts = {200: build_envelope(wire.CompletedTextsReply)}
    rows = (
        (
            "related_questions",
            "Suggest questions about a product",
            wire.RelatedQuestions,
            resource.related,
            questions,
        ),
        (
            "trending_questions",
            "List trending questions",
            wire.TrendingQuestions,
            resource.trending,
            questions,
        ),
        ("query_suggestion", "Turn a query into questions", wire.Suggestion, resource.suggestion, texts),
        ("autocomplete", "Complete a question", wire.Suggestion, resource.autocomplete, texts),
        (
            "search_autocomplete",
            "Complete a search",
            wire.SearchSuggestion,
            resource.search_autocomplete,
            {200: build_envelope(wire.CompletedFieldsReply)},
        ),
    )
    return tuple(
        Endpoint(
            f"ask.{name}",
            "POST",
            f"/v1/ask/{name}",
            _ASK,
            "detail",
            answer,
            schema=body_parser(body),
            hot=True,
            about=EndpointTexts(summary, _TAG, body, replies),
        )
        for name, summary, body, answer, replies in rows
    )


def _question_rows(resource: QuestionsResource) -> tuple[Endpoint, ...]:
    return (
        Endpoint(
            "ask.questions",
            "POST",
            "/v1/ask/questions",
            _ASK,
            "detail",
            resource.ask,
            schema=resource.parse_request,
            hot=True,
            about=EndpointTexts(
                "Ask a question",
                _TAG,
                wire.AskQuestion,
                {200: build_envelope(wire.QuestionIdReply), 404: MessageReply},
            ),
        ),
        Endpoint(
            "ask.answer",
            "GET",
            "/v1/ask/questions/{question_id}/answer",
            _READ,
            "detail",
            resource.answer,
            schema=resource.parse_id,
            hot=True,
            about=EndpointTexts(
                "Read an answer", _TAG, None, {200: build_envelope(wire.ShownAnswer), 404: MessageReply}
            ),
        ),
        Endpoint(
            "ask.answers",
            "POST",
            "/v1/ask/answers",
            _ASK,
            "detail",
            resource.answers,
            schema=resource.parse_many,
            about=EndpointTexts(
                "Read several answers",
                _TAG,
                wire.AskAnswers,
                {200: wire.ShownAnswers},
            ),
        ),
    )

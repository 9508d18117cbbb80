"""Endpoints that answer questions from product pages, and of the question bank.

Published in `docs/reference/rest.md`, section Questions and answers.
"""

from __future__ import annotations

from collections.abc import Callable

from actors.recommender.messages import UserQuery
from actors.retrieval.messages import AnswerResult, SpellingResult
from actors.search.question_bank_cache import QuestionBankCache
from cluster.ids import ServiceId
from cluster.store.archive.question_bank import QuestionBankStore
from deployments.api.http.confidential_fields import check_hidden_fields, remove_hidden_fields
from deployments.api.http.endpoint import Endpoint, EndpointTexts, body_parser
from deployments.api.resources.query_services import QueryServices
from deployments.api.wire import qa as wire
from deployments.api.wire.qa import (
    MOST_QUERY_CHARS,
    QuestionAnswering,
    QuestionAutocomplete,
    QuestionBank,
    to_answer_query,
)
from deployments.api.wire.recommendation import render_notices
from deployments.api.wire.records import MessageReply, build_envelope
from deployments.api.wire.search import spelling_to_dict
from deployments.api.wire.validation_errors import validate_body
from deployments.edge.access.admission import AdmissionRules
from deployments.edge.http.replies import Reply, dumps, result, success
from deployments.edge.http.request import ApiRequest

_NOTHING = AnswerResult(0, [], SpellingResult(False, False, "", "", "", ""))


class QuestionAnswersResource:
    """The endpoint that answers a question from product pages."""

    def __init__(self, queries: QueryServices) -> None:
        self._queries = queries

    def parse_request(self, request: ApiRequest) -> UserQuery:
        """Validate the body."""
        body = validate_body(QuestionAnswering, request.payload)
        token = request.token
        user_id = token.user_id if token is not None and token.user_id else body.user_id or ""
        return check_hidden_fields(request, to_answer_query(body, app_id=request.app_id, user_id=user_id))

    async def answer(self, request: ApiRequest) -> Reply:
        """Answer a question."""
        query: UserQuery = request.parsed
        treated, outcome = await self._queries.treatment.apply(request)
        with outcome:
            answered = await self._queries.recommender.answer(treated)
            outcome.is_empty = answered.answers is None or not answered.answers.answers
        remove_hidden_fields(request, query, answered)
        answers = answered.answers or _NOTHING
        original = query.question.original if query.question is not None else ""
        self._queries.query_log.record(
            request,
            "ask",
            original,
            total=answers.total,
            language=query.language,
            served_by="question_answering",
            engine_id=query.engine_id,
        )
        service_id = self._queries.new_service_id()
        if self._queries.served_log is not None:
            cited = [answer["product_id"] for answer in answers.answers if "product_id" in answer]
            self._queries.served_log.record_items(request, service_id, treated, cited, outcome.treatments)
        more = {
            "total": answers.total,
            "spellcheck": spelling_to_dict(answers.spelling, original),
        }
        # Members without their braces: `result` writes the object around them.
        payload = dumps(answers.answers) + b"," + dumps(more)[1:-1] + render_notices(answered)
        return result(request, service_id, "answers", payload)


class QuestionBankResource:
    """The endpoints that replace the question bank and complete questions."""

    def __init__(
        self, store: QuestionBankStore, banks: QuestionBankCache, new_service_id: Callable[[], ServiceId]
    ) -> None:
        self._store = store
        self._banks = banks
        self._new_service_id = new_service_id

    async def replace(self, request: ApiRequest) -> Reply:
        """Replace the question bank."""
        bank: QuestionBank = request.parsed
        await self._store.replace(request.app_id, [entry.record() for entry in bank.data])
        return success({"took": request.took_ms(), "service_id": self._new_service_id()})

    async def complete(self, request: ApiRequest) -> Reply:
        """Return completions of a question."""
        typed: QuestionAutocomplete = request.parsed
        questions = await self._banks.complete(request.app_id, typed.q[:MOST_QUERY_CHARS], typed.rows)
        payload = dumps(
            [{"question": question.question, "weight": question.weight} for question in questions]
        )
        return result(request, self._new_service_id(), "completions", payload)


_WRITE = AdmissionRules(bucket="write", writes=True, body="json")
_ASK = AdmissionRules(publishable=True, body="json", reads_token=True, token_in_body=True, proves_writer=True)
_TAG = "Questions and answers"


def build_question_answer_endpoints(
    banks: QuestionBankResource, pages: QuestionAnswersResource
) -> tuple[Endpoint, ...]:
    """Return the endpoints."""
    return (
        Endpoint(
            "qa.question_answering",
            "POST",
            "/v1/qa/question_answering",
            _ASK,
            "detail",
            pages.answer,
            schema=pages.parse_request,
            hot=True,
            about=EndpointTexts(
                "Answer a question from the pages of products",
                _TAG,
                wire.QuestionAnswering,
                {200: build_envelope(wire.AnswersReply), 404: MessageReply},
            ),
        ),
        Endpoint(
            "qa.questions",
            "POST",
            "/v1/qa/questions",
            _WRITE,
            "detail",
            banks.replace,
            schema=body_parser(QuestionBank),
            about=EndpointTexts(
                "Replace the question bank", _TAG, wire.QuestionBank, {200: build_envelope(wire.BankReply)}
            ),
        ),
        Endpoint(
            "qa.question_autocomplete",
            "POST",
            "/v1/qa/question_autocomplete",
            _ASK,
            "detail",
            banks.complete,
            schema=body_parser(QuestionAutocomplete),
            hot=True,
            about=EndpointTexts(
                "Complete a question of the bank",
                _TAG,
                wire.QuestionAutocomplete,
                {200: build_envelope(wire.BankQuestionsReply)},
            ),
        ),
    )

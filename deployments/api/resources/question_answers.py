"""Answers out of the pages of products.

Source: reference 8.10, endpoint 48
"""

from __future__ import annotations

from collections.abc import Callable

from pydantic import ValidationError

from actors.recommender.messages import UserQuery
from actors.retrieval.messages import AnswerResult, SpellingResult
from cluster.ids import ServiceId
from deployments.api.http.confidential_fields import check_query
from deployments.api.http.query_log import QueryLog
from deployments.api.http.query_treatment import QueryTreatment
from deployments.api.http.result_notices import render_notices
from deployments.api.wire.faults import unprocessable_from
from deployments.api.wire.qa import QuestionAnswering, to_answer_query
from deployments.edge.envelope import Reply, dumps, result
from deployments.edge.request import ApiRequest

_NOTHING = AnswerResult(0, [], SpellingResult(False, False, "", "", "", ""))


class QuestionAnswersResource:
    """Endpoint 48."""

    def __init__(
        self, queries: QueryTreatment, new_service_id: Callable[[], ServiceId], query_log: QueryLog
    ) -> None:
        self._queries = queries
        self._new_service_id = new_service_id
        self._query_log = query_log

    def read(self, request: ApiRequest) -> UserQuery:
        """Read the body."""
        try:
            body = QuestionAnswering.model_validate(request.payload)
        except ValidationError as error:
            raise unprocessable_from(error) from error
        token = request.token
        user_id = token.user_id if token is not None and token.user_id else body.user_id or ""
        return check_query(request, to_answer_query(body, app_id=request.app_id, user_id=user_id))

    async def answer(self, request: ApiRequest) -> Reply:
        """Answer a question."""
        query: UserQuery = request.parsed
        answered = await self._queries.answer(request)
        found = answered.answers or _NOTHING
        original = query.question.original if query.question is not None else ""
        self._query_log.record(
            request, "ask", original,
            total=found.total, language=query.language, served_by="question_answering", engine_id=query.engine_id,
        )  # fmt: skip
        spelling = found.spelling
        more = {
            "total": found.total,
            "spellcheck": {
                "spelling_errors": spelling.errors,
                "auto_spelling_correction": spelling.corrected,
                "original_query": spelling.original_text or original,
                "original_query_with_markups": spelling.original_marked,
                "corrected_query": spelling.corrected_text or original,
                "corrected_query_with_markups": spelling.corrected_marked,
            },
        }
        return result(
            "answers",
            dumps(found.answers) + b"," + dumps(more)[1:-1] + render_notices(answered),
            took_ms=request.took_ms(),
            service_id=self._new_service_id(),
            alias=request.credential.app.settings.service_id_response_alias,
        )

"""The rows of the ask endpoints in the table.

Source: reference section 2, rows 27 to 35
"""

from __future__ import annotations

from collections.abc import Callable

from actors.serving.client import RecommenderClient
from cluster.ids import ServiceId
from deployments.api.http.endpoint import Endpoint, EndpointTexts
from deployments.api.http.query_log import QueryLog
from deployments.api.resources.ask_search import AskSearchResource
from deployments.api.resources.ask_suggestions import AskSuggestionsResource
from deployments.api.resources.questions import AskServices, QuestionsResource
from deployments.api.resources.suggested_queries import QuestionBankSuggestions
from deployments.api.wire import ask as wire
from deployments.api.wire.records import MessageReply, build_envelope
from deployments.edge.admission import AdmissionRules

_READ = AdmissionRules(publishable=True)
_ASK = AdmissionRules(
    publishable=True, body="json", reads_token=True, token_in_body=True, browser_bytes=128 << 10
)
_TAG = "Ask"


def build_ask_endpoints(
    means: AskServices,
    recommender: RecommenderClient,
    new_service_id: Callable[[], ServiceId],
    query_log: QueryLog,
    suggestions: QuestionBankSuggestions,
) -> tuple[Endpoint, ...]:
    """Make the rows."""
    questions = QuestionsResource(means, recommender, query_log)
    return (
        *_question_rows(questions),
        *_search_rows(AskSearchResource(means, questions, recommender, new_service_id, query_log)),
        *_suggestion_rows(AskSuggestionsResource(means, recommender, new_service_id, suggestions)),
    )


def _search_rows(desk: AskSearchResource) -> tuple[Endpoint, ...]:
    return (
        Endpoint(
            "ask.search", "POST", "/v1/ask/search", _ASK, "detail", desk.answer, schema=desk.read, hot=True,
            about=EndpointTexts(
                "Search by words and meaning, and ask a question", _TAG, wire.AskSearch,
                {200: build_envelope(wire.AskSearchReply), 404: MessageReply},
            ),
        ),
    )  # fmt: skip


def _suggestion_rows(desk: AskSuggestionsResource) -> tuple[Endpoint, ...]:
    questions, texts = (
        {200: build_envelope(wire.QuestionsReply)},
        {200: build_envelope(wire.CompletedTextsReply)},
    )
    rows = (
        ("related_questions", "Suggest questions about a product", wire.RelatedQuestions, desk.related, questions),
        ("trending_questions", "List trending questions", wire.TrendingQuestions, desk.trending, questions),
        ("query_suggestion", "Turn a query into questions", wire.Suggestion, desk.suggestion, texts),
        ("autocomplete", "Complete a question", wire.Suggestion, desk.autocomplete, texts),
        (
            "search_autocomplete", "Complete a search", wire.SearchSuggestion, desk.search_autocomplete,
            {200: build_envelope(wire.CompletedFieldsReply)},
        ),
    )  # fmt: skip
    return tuple(
        Endpoint(
            f"ask.{name}", "POST", f"/v1/ask/{name}", _ASK, "detail", answer,
            schema=desk.body_parser(body), hot=True, about=EndpointTexts(summary, _TAG, body, replies),
        )
        for name, summary, body, answer, replies in rows
    )  # fmt: skip


def _question_rows(desk: QuestionsResource) -> tuple[Endpoint, ...]:
    return (
        Endpoint(
            "ask.questions", "POST", "/v1/ask/questions", _ASK, "detail", desk.ask, schema=desk.read, hot=True,
            about=EndpointTexts(
                "Ask a question", _TAG, wire.AskQuestion, {200: build_envelope(wire.QuestionIdReply), 404: MessageReply}
            ),
        ),
        Endpoint(
            "ask.answer", "GET", "/v1/ask/questions/{question_id}/answer", _READ, "detail", desk.answer,
            schema=desk.read_id, hot=True,
            about=EndpointTexts("Read an answer", _TAG, None,
                {200: build_envelope(wire.ShownAnswer), 404: MessageReply}),
        ),
        Endpoint(
            "ask.answers", "POST", "/v1/ask/answers", _ASK, "detail", desk.answers, schema=desk.read_many,
            about=EndpointTexts(
                "Read several answers", _TAG, wire.AskAnswers,
                {200: wire.ShownAnswers},
            ),
        ),
    )  # fmt: skip

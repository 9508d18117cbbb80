"""The rows of the ask endpoints in the table.

Source: reference section 2, rows 27 to 35
"""

from __future__ import annotations

from collections.abc import Callable

from actors.serving.client import RecommenderClient
from cluster.ids import ServiceId
from deployments.api.http.endpoint import About, Endpoint
from deployments.api.http.query_log import QueryLog
from deployments.api.resources.ask_search import AskSearches
from deployments.api.resources.ask_suggestions import AskSuggestions
from deployments.api.resources.questions import AskMeans, Questions
from deployments.api.resources.suggested_queries import BankSuggestions
from deployments.api.wire import ask as wire
from deployments.api.wire.records import Told, enveloped
from deployments.edge.admission import Rules

_READ = Rules(publishable=True)
_ASK = Rules(publishable=True, body="json", reads_token=True, token_in_body=True, browser_bytes=128 << 10)
_TAG = "Ask"


def ask_endpoints(
    means: AskMeans,
    recommender: RecommenderClient,
    new_service_id: Callable[[], ServiceId],
    query_log: QueryLog,
    suggestions: BankSuggestions,
) -> tuple[Endpoint, ...]:
    """Make the rows."""
    questions = Questions(means, recommender, query_log)
    return (
        *_questions(questions),
        *_search(AskSearches(means, questions, recommender, new_service_id, query_log)),
        *_suggestions(AskSuggestions(means, recommender, new_service_id, suggestions)),
    )


def _search(desk: AskSearches) -> tuple[Endpoint, ...]:
    return (
        Endpoint(
            "ask.search", "POST", "/v1/ask/search", _ASK, "detail", desk.answer, schema=desk.read, hot=True,
            about=About(
                "Search by words and meaning, and ask a question", _TAG, wire.AskSearch,
                {200: enveloped(wire.FoundByAsking), 404: Told},
            ),
        ),
    )  # fmt: skip


def _suggestions(desk: AskSuggestions) -> tuple[Endpoint, ...]:
    questions, texts = {200: enveloped(wire.FoundQuestions)}, {200: enveloped(wire.FoundTexts)}
    rows = (
        ("related_questions", "Suggest questions about a product", wire.RelatedQuestions, desk.related, questions),
        ("trending_questions", "List trending questions", wire.TrendingQuestions, desk.trending, questions),
        ("query_suggestion", "Turn a query into questions", wire.Suggestion, desk.suggestion, texts),
        ("autocomplete", "Complete a question", wire.Suggestion, desk.autocomplete, texts),
        (
            "search_autocomplete", "Complete a search", wire.SearchSuggestion, desk.search_autocomplete,
            {200: enveloped(wire.FoundCompletedFields)},
        ),
    )  # fmt: skip
    return tuple(
        Endpoint(
            f"ask.{name}", "POST", f"/v1/ask/{name}", _ASK, "detail", answer,
            schema=desk.reader(body), hot=True, about=About(summary, _TAG, body, replies),
        )
        for name, summary, body, answer, replies in rows
    )  # fmt: skip


def _questions(desk: Questions) -> tuple[Endpoint, ...]:
    return (
        Endpoint(
            "ask.questions", "POST", "/v1/ask/questions", _ASK, "detail", desk.ask, schema=desk.read, hot=True,
            about=About(
                "Ask a question", _TAG, wire.AskQuestion, {200: enveloped(wire.AskedQuestion), 404: Told}
            ),
        ),
        Endpoint(
            "ask.answer", "GET", "/v1/ask/questions/{question_id}/answer", _READ, "detail", desk.answer,
            schema=desk.read_id, hot=True,
            about=About("Read an answer", _TAG, None, {200: enveloped(wire.ShownAnswer), 404: Told}),
        ),
        Endpoint(
            "ask.answers", "POST", "/v1/ask/answers", _ASK, "detail", desk.answers, schema=desk.read_many,
            about=About(
                "Read several answers", _TAG, wire.AskAnswers,
                {200: wire.ShownAnswers},
            ),
        ),
    )  # fmt: skip

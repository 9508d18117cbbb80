"""The rows of the question bank and of question answering in the table.

Source: reference section 2, rows 48 to 50
"""

from __future__ import annotations

from deployments.api.http.endpoint import About, Endpoint
from deployments.api.resources.question_answers import QuestionAnswers
from deployments.api.resources.question_bank import QuestionBanks
from deployments.api.wire import qa as wire
from deployments.api.wire.records import Told, enveloped
from deployments.edge.admission import Rules

_WRITE = Rules(bucket="write", writes=True, body="json")
_ASK = Rules(publishable=True, body="json", reads_token=True, proves_writer=True)
_TAG = "Questions and answers"


def qa_endpoints(banks: QuestionBanks, pages: QuestionAnswers) -> tuple[Endpoint, ...]:
    """Make the rows."""
    return (
        Endpoint(
            "qa.question_answering", "POST", "/v1/qa/question_answering", _ASK, "detail", pages.answer,
            schema=pages.read, hot=True,
            about=About(
                "Answer a question from the pages of products", _TAG, wire.QuestionAnswering,
                {200: enveloped(wire.FoundAnswers), 404: Told},
            ),
        ),
        Endpoint(
            "qa.questions", "POST", "/v1/qa/questions", _WRITE, "detail", banks.replace, schema=banks.read_bank,
            about=About("Replace the question bank", _TAG, wire.QuestionBank, {200: enveloped(wire.BankTaken)}),
        ),
        Endpoint(
            "qa.question_autocomplete", "POST", "/v1/qa/question_autocomplete", _ASK, "detail", banks.complete,
            schema=banks.read_typed, hot=True,
            about=About(
                "Complete a question of the bank", _TAG, wire.QuestionAutocomplete,
                {200: enveloped(wire.FoundBankQuestions)},
            ),
        ),
    )  # fmt: skip

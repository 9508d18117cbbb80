"""The rows of the question bank and of question answering in the table.

Source: reference section 2, rows 48 to 50
"""

from __future__ import annotations

from deployments.api.http.endpoint import Endpoint, EndpointTexts
from deployments.api.resources.question_answers import QuestionAnswersResource
from deployments.api.resources.question_bank import QuestionBankResource
from deployments.api.wire import qa as wire
from deployments.api.wire.records import MessageReply, build_envelope
from deployments.edge.admission import AdmissionRules

_WRITE = AdmissionRules(bucket="write", writes=True, body="json")
_ASK = AdmissionRules(publishable=True, body="json", reads_token=True, proves_writer=True)
_TAG = "Questions and answers"


def build_question_answer_endpoints(
    banks: QuestionBankResource, pages: QuestionAnswersResource
) -> tuple[Endpoint, ...]:
    """Make the rows."""
    return (
        Endpoint(
            "qa.question_answering", "POST", "/v1/qa/question_answering", _ASK, "detail", pages.answer,
            schema=pages.read, hot=True,
            about=EndpointTexts(
                "Answer a question from the pages of products", _TAG, wire.QuestionAnswering,
                {200: build_envelope(wire.AnswersReply), 404: MessageReply},
            ),
        ),
        Endpoint(
            "qa.questions", "POST", "/v1/qa/questions", _WRITE, "detail", banks.replace, schema=banks.read_bank,
            about=EndpointTexts("Replace the question bank", _TAG, wire.QuestionBank,
                {200: build_envelope(wire.BankReply)}),
        ),
        Endpoint(
            "qa.question_autocomplete", "POST", "/v1/qa/question_autocomplete", _ASK, "detail", banks.complete,
            schema=banks.read_typed, hot=True,
            about=EndpointTexts(
                "Complete a question of the bank", _TAG, wire.QuestionAutocomplete,
                {200: build_envelope(wire.BankQuestionsReply)},
            ),
        ),
    )  # fmt: skip

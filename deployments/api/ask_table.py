"""The rows of the ask endpoints in the table.

Source: reference section 2, rows 27 to 35
"""

from __future__ import annotations

from deployments.api.endpoint import About, Endpoint
from deployments.api.questions import Questions
from deployments.api.wire import ask as wire
from deployments.api.wire.records import Told, enveloped
from deployments.edge.admission import Rules

_READ = Rules(publishable=True)
_ASK = Rules(publishable=True, body="json", reads_token=True, token_in_body=True)
_TAG = "Ask"


def ask_endpoints(desk: Questions) -> tuple[Endpoint, ...]:
    """Make the rows."""
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
            about=About("Read an answer as far as it is", _TAG, None, {200: enveloped(wire.ShownAnswer), 404: Told}),
        ),
        Endpoint(
            "ask.answers", "POST", "/v1/ask/answers", _ASK, "detail", desk.answers, schema=desk.read_many,
            about=About(
                "Read several answers", _TAG, wire.AskAnswers,
                {200: wire.ShownAnswers},
            ),
        ),
    )  # fmt: skip

"""Text generation: the rule for its body. Behind it there is nothing yet.

The interface names the endpoint by this one rule. What it generates, and from which templates and tasks, no source
says; so a body that keeps the rule names something that is not there, instead of being given an invented answer.

Published in `docs/reference/rest.md`, section Generation.
"""

from __future__ import annotations

from pydantic import ValidationError

from cluster.errors import NotFound
from deployments.api.http.endpoint import Endpoint, EndpointTexts
from deployments.api.wire.faults import unprocessable_from
from deployments.api.wire.generation import Generation, GenerationReply
from deployments.api.wire.records import MessageReply, build_envelope
from deployments.edge.admission import AdmissionRules
from deployments.edge.envelope import Reply
from deployments.edge.request import ApiRequest

NO_PROVIDER = (
    "no text generator is installed, so there is no template, task or instruction to run; "
    "ask questions at POST /v1/ask/questions"
)


def build_generation_endpoint() -> Endpoint:
    """Make the row."""
    return Endpoint(
        "genai.generate", "POST", "/v1/genai/generate", AdmissionRules(body="json"), "detail", _answer, schema=_read,
        about=EndpointTexts(
            "Generate text (no generator is installed)",
            "Generation", Generation, {200: build_envelope(GenerationReply), 404: MessageReply},
        ),
    )  # fmt: skip


def _read(request: ApiRequest) -> Generation:
    try:
        return Generation.model_validate(request.payload)
    except ValidationError as error:
        raise unprocessable_from(error) from error


async def _answer(request: ApiRequest) -> Reply:
    raise NotFound(NO_PROVIDER)

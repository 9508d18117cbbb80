"""The text generation endpoint: it validates the body and then answers 404.

The specification defines only the rule of the body. It defines neither templates nor tasks, so every valid body
names something that does not exist.

Published in `docs/reference/rest.md`, section Generation.
"""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel, ConfigDict, ValidationError, model_validator
from pydantic.config import JsonDict

from cluster.errors import NotFound
from deployments.api.http.endpoint import Endpoint, EndpointTexts
from deployments.api.wire.faults import build_error, unprocessable_from
from deployments.api.wire.records import MessageReply, build_envelope
from deployments.edge.admission import AdmissionRules
from deployments.edge.envelope import Reply
from deployments.edge.request import ApiRequest

NOTHING_TO_DO = "one of template, instructions, task_id is required"
_ONE_OF: JsonDict = {"anyOf": [{"required": [name]} for name in ("template", "instructions", "task_id")]}


class Generation(BaseModel):
    """What to generate. `null` equals absence."""

    model_config = ConfigDict(extra="ignore", json_schema_extra=_ONE_OF)

    template: Any = None
    instructions: Any = None
    task_id: Any = None

    @model_validator(mode="after")
    def _has_something_to_do(self) -> Generation:
        if self.template is None and self.instructions is None and self.task_id is None:
            raise build_error(NOTHING_TO_DO)
        return self


class GenerationReply(BaseModel):
    """Generated text. Its fields are not settled."""

    model_config = ConfigDict(extra="allow")


NO_PROVIDER = (
    "no text generator is installed, so there is no template, task or instruction to run; "
    "ask questions at POST /v1/ask/questions"
)


def build_generation_endpoint() -> Endpoint:
    """Return the endpoint."""
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

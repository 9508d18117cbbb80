"""The description of an endpoint, as the request handler, the framework's routes and the OpenAPI document use it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from deployments.edge.admission import AdmissionRules, validate_request
from deployments.edge.envelope import Reply
from deployments.edge.errors import Family
from deployments.edge.request import ApiRequest

Answer = Callable[[ApiRequest], Awaitable[Reply]]
Schema = Callable[[ApiRequest], Any]
_REFUSED = 400


@dataclass(frozen=True, slots=True)
class EndpointTexts:
    """Texts of an endpoint for the documentation; models are pydantic models, type adapters or JSON schemas."""

    summary: str
    tag: str
    body: Any = None
    replies: Mapping[int, Any] = field(default_factory=dict)
    "Status -> model, in addition to those that every endpoint has."
    query: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    "Query parameter -> JSON schema."
    needs_user: bool = False
    "Whether a publishable key also needs a user token."


@dataclass(frozen=True, slots=True)
class Endpoint:
    """One method on one path.

    A path holds at most one `{name}`. Without a suffix it matches the rest of the path, slashes included.
    """

    name: str
    method: str
    path: str
    rules: AdmissionRules
    family: Family
    answer: Answer
    about: EndpointTexts
    schema: Schema | None = None
    hot: bool = False
    "Whether `HotLayer` answers it in front of the framework."


async def validate_and_answer(request: ApiRequest, endpoint: Endpoint) -> Reply:
    """Answer an admitted request; link the user and the visitor that it names.

    Errors:
        HouseError: the endpoint refuses the request
    """
    await validate_request(request, endpoint.rules, endpoint.schema)
    if request.trace is not None:
        request.trace.mark("parse")
    reply = await endpoint.answer(request)
    if reply.status < _REFUSED:
        request.gate.link_identities(request)
    return reply

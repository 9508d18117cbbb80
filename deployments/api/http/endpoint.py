"""Endpoints: one method on one path each, with the rules of its admission."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from pydantic import BaseModel

from deployments.api.wire.validation_errors import validate_body
from deployments.edge.access.admission import AdmissionRules
from deployments.edge.http.errors import Family
from deployments.edge.http.replies import Reply
from deployments.edge.http.request import ApiRequest

Answer = Callable[[ApiRequest], Awaitable[Reply]]
Schema = Callable[[ApiRequest], Any]


def body_parser(model: type[BaseModel]) -> Schema:
    """Return the schema step that validates the body by a model."""

    def read(request: ApiRequest) -> Any:
        return validate_body(model, request.payload)

    return read


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

    A path holds at most one `{name}`. Without a suffix its id is the rest of the path, slashes included.
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
    "Whether `HotPathMiddleware` answers it in front of the framework."
    has_body: bool = field(init=False)
    "Whether it writes or reads a body; others only read from the store."

    def __post_init__(self) -> None:
        object.__setattr__(self, "has_body", self.rules.writes or self.rules.body != "ignored")

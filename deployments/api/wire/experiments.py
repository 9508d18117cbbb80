"""The body of an experiment event and its reply.

Source: reference 5.8, 8.7
"""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel, ConfigDict, Field

from cluster.records.fields import Moment
from deployments.api.wire.records import Entry
from deployments.api.wire.shared import Name, VisitorName, Wire


class ExperimentBody(Wire):
    """Who met an experiment. Fields it does not know are none of its business."""

    model_config = ConfigDict(**{**Wire.model_config, "extra": "ignore"})

    user_id: Name | None = None
    anonymous_id: VisitorName | None = None
    variant_name: Name | None = None
    "Forces this variant, named by name, slug or id; absent: the reader's own."
    timestamp: Moment | None = None
    "Absent: now."


class EventFaults(BaseModel):
    """Everything that is wrong with an event."""

    errors: list[Entry]


class RefusedEvent(BaseModel):
    """An event with schema errors, or no JSON at all; nothing was recorded."""

    message: str
    data: EventFaults


class ShownVariant(BaseModel):
    """A variant as callers see it."""

    id: str
    name: str
    slug: str
    status: str
    configuration: dict[str, Any] | list[Any] | str = Field(default_factory=dict)


class EventReply(BaseModel):
    """What the reader gets."""

    took: int
    in_experiment: bool
    variant: ShownVariant

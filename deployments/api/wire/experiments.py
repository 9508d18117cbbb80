"""Bodies of experiment events and of an administrator's calls, and their replies.

Published in `docs/reference/rest.md`, section Experiments.
"""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field

from cluster.records.experiment import Status
from cluster.records.field_types.fields import Moment
from deployments.api.wire.query_bodies import Name, Real, RequestModel, VisitorName
from deployments.api.wire.records import FaultPart


class ExperimentBody(RequestModel):
    """A user or visitor who meets an experiment. Unknown fields are ignored."""

    model_config = ConfigDict(**{**RequestModel.model_config, "extra": "ignore"})

    user_id: Name | None = None
    anonymous_id: VisitorName | None = None
    variant_name: Name | None = None
    "Forces this variant, by name, slug or id; if absent, the user's assigned variant applies."
    timestamp: Moment | None = None
    "Time of the event; if absent, the present time."


class ExperimentEdit(RequestModel):
    """Changes of an experiment. What is absent stays as it is."""

    name: Annotated[str, Field(min_length=1, max_length=200)] | None = None
    traffic: Annotated[Real, Field(ge=0, le=1)] | None = None
    weights: Annotated[dict[str, Annotated[Real, Field(ge=0)]], Field(max_length=50)] = Field(
        default_factory=dict
    )
    "Variant (id, slug or name) -> its weight; a variant with weight 0 gets no new users."
    ends_at: Moment | None = None
    goal: Annotated[list[str], Field(max_length=50)] | None = None
    "Types of interactions that count as a conversion."
    layer: Annotated[str, Field(max_length=63)] | None = None
    slice: tuple[Real, Real] | None = None
    "Start and end of the range in the layer, 0 to 1."
    reports_exposure: bool | None = None
    "Whether your own code reports who met a variant, so variants may serve the same."
    segments: Annotated[list[str], Field(max_length=10)] | None = None
    "Parts of the users that the report compares: history, device, through, user.FIELD."
    guardrails: Annotated[dict[str, Annotated[Real, Field(ge=0)]], Field(max_length=20)] = Field(
        default_factory=dict
    )
    "What pauses the experiment by itself -> tolerance; others stay as they are."


class ScheduleBody(RequestModel):
    """When an experiment runs."""

    starts_at: Moment
    ends_at: Moment | None = None


_VARIANT: dict[str, Any] = {
    "type": "object",
    "description": "A variant of an experiment that does not exist yet.",
    "required": ["name"],
    "properties": {
        "name": {"type": "string", "minLength": 1, "maxLength": 200},
        "slug": {"type": "string"},
        "weight": {"type": "number", "minimum": 0},
        "configuration": {"anyOf": [{"type": "object"}, {"type": "array", "items": {}}, {"type": "string"}]},
        "engine_id": {"type": "string"},
        "snapshot": {"type": "string"},
        "boost_rule": {"type": "string"},
    },
}
_GOAL: dict[str, Any] = {
    "type": "object",
    "description": "A value or ratio of each user.",
    "required": ["name", "types"],
    "properties": {
        "name": {"type": "string"},
        "types": {"type": "array", "items": {"type": "string"}, "minItems": 1, "maxItems": 50},
        "value": {"type": "string"},
        "per": {"type": "array", "items": {"type": "string"}, "maxItems": 50},
        "where": {"type": "object", "additionalProperties": {"type": "string"}, "maxProperties": 5},
        "cap": {"type": "number", "exclusiveMinimum": 0},
        "better": {"type": "string", "enum": ["more", "less"]},
    },
}
_DRAFT: dict[str, Any] = {
    "type": "object",
    "description": "An experiment that does not exist yet.",
    "required": ["name", "variants"],
    "properties": {
        "name": {"type": "string", "minLength": 1, "maxLength": 200},
        "slug": {"type": "string"},
        "traffic": {"type": "number", "minimum": 0, "maximum": 1},
        "layer": {"type": "string", "maxLength": 63},
        "slice": {"type": "array", "items": {"type": "number"}, "minItems": 2, "maxItems": 2},
        "engines": {"type": "array", "items": {"type": "string"}},
        "goal": {"type": "array", "items": {"type": "string"}},
        "goals": {
            "type": "array",
            "maxItems": 20,
            "items": {"anyOf": [{"type": "string"}, {"$ref": "#/components/schemas/ExperimentDraftGoal"}]},
        },
        "primary": {"type": "string"},
        "segments": {"type": "array", "items": {"type": "string"}, "maxItems": 10},
        "guardrails": {
            "anyOf": [
                {"type": "object", "additionalProperties": {"type": "number", "minimum": 0}},
                {"type": "array", "items": {"type": "string"}},
            ]
        },
        "reports_exposure": {"type": "boolean"},
        "variants": {
            "type": "array",
            "minItems": 1,
            "maxItems": 50,
            "items": {"$ref": "#/components/schemas/ExperimentDraftVariant"},
        },
    },
}
_DRAFTS: dict[str, Any] = {
    "type": "array",
    "minItems": 1,
    "maxItems": 100,
    "items": {"$ref": "#/components/schemas/ExperimentDraft"},
}

EXPERIMENT_DRAFTS: dict[str, Any] = {
    "anyOf": [
        {"$ref": "#/components/schemas/ExperimentDraft"},
        _DRAFTS,
        {"$ref": "#/components/schemas/ExperimentDrafts"},
    ],
    "$defs": {
        "ExperimentDraft": _DRAFT,
        "ExperimentDraftVariant": _VARIANT,
        "ExperimentDraftGoal": _GOAL,
        "ExperimentDrafts": {
            "type": "object",
            "description": "Several experiments that do not exist yet.",
            "required": ["experiments"],
            "properties": {"experiments": _DRAFTS},
        },
    },
}
"Fields that `actors/experiments/drafts.py` reads."


class EventFaults(BaseModel):
    """Everything that is wrong with an event."""

    errors: list[FaultPart]


class RefusedEvent(BaseModel):
    """An event with schema errors, or no JSON at all; nothing was recorded."""

    message: str
    data: EventFaults


class ShownVariant(BaseModel):
    """A variant of an experiment."""

    id: str
    name: str
    slug: str
    status: str
    configuration: dict[str, Any] | list[Any] | str = Field(default_factory=dict)


class EventReply(BaseModel):
    """The variant of the user."""

    took: int
    in_experiment: bool
    variant: ShownVariant


class AdministeredVariant(BaseModel):
    """A variant with its settings."""

    variant_id: str
    name: str
    slug: str
    weight: float
    status: str
    configuration: dict[str, Any] | list[Any] | str
    engine_id: str
    snapshot: str
    boost_rule: str


class ShownGoal(BaseModel):
    """A value or ratio of each user that an experiment compares."""

    name: str
    types: list[str]
    value: str
    per: list[str]
    where: dict[str, str] = Field(default_factory=dict)
    cap: float | None
    better: str


class ShownExperiment(BaseModel):
    """An experiment with its settings."""

    app_id: str
    experiment_id: str
    slug: str
    name: str
    status: Status
    variants: list[AdministeredVariant]
    traffic: float
    layer: str
    slice: tuple[float, float]
    starts_at: str | None
    ends_at: str | None
    entry_salt: str
    variant_salt: str
    engines: list[str]
    reports_exposure: bool
    goal: list[str]
    goals: list[ShownGoal] = Field(default_factory=list)
    primary: str = ""
    segments: list[str] = Field(default_factory=list)
    guardrails: dict[str, float] = Field(default_factory=dict)
    paused_by: str = ""
    created_at: str
    weights_at: str | None
    revision: int


class ShownExperiments(BaseModel):
    """Experiments, oldest first."""

    experiments: list[ShownExperiment]


class ShownDifference(BaseModel):
    """A difference to the control, with an interval that stays valid when the report is read every day."""

    value: float
    low: float | None
    high: float | None
    relative: float | None
    decided: bool
    p_value: float


class ReportedVariant(BaseModel):
    """The figures of one variant. `served` and `guardrails` count requests that the experiment changed."""

    variant_id: str
    slug: str
    name: str
    share: float
    people: int
    converted: int
    conversions: int
    rate: float
    forced: int
    lift: ShownDifference | None
    served: dict[str, int | None]
    guardrails: dict[str, ShownDifference | None]
    broken: list[str]


class ComparedGoal(BaseModel):
    """The mean of a goal over the users of a variant."""

    variant_id: str
    people: int
    mean: float
    lift: ShownDifference | None
    adjusted_p_value: float | None
    verdict: str


class ReportedGoal(BaseModel):
    """One goal of all variants."""

    name: str
    primary: bool
    variants: list[ComparedGoal]


class ReportedSegment(ReportedGoal):
    """The primary goal in one part of the users."""

    segment: str
    part: str


class SplitPart(BaseModel):
    """Whether users were split as intended, and which part of the traffic deviates."""

    p_value: float
    mismatch: bool
    slice: str
    slice_p_value: float


class ShownReport(BaseModel):
    """The figures of an experiment. It names no person."""

    experiment_id: str
    slug: str
    goal: list[str]
    variants: list[ReportedVariant]
    split: SplitPart
    days: dict[str, dict[str, int]]
    "Day (UTC) -> variant id -> number of users with a first exposure on that day."
    settling: int = Field(
        default=0,
        description="Conversions accepted a moment ago that are not counted yet; they are within a minute.",
    )
    paused_by: str = Field(default="", description="The guardrail that paused the experiment.")
    goals: list[ReportedGoal] = Field(default_factory=list)
    segments: list[ReportedSegment] = Field(default_factory=list)

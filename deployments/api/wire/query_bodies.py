"""Wire models of parameters that several queries share.

An explicit `null` for an optional field equals its absence. An unknown field is refused. A numeric text may replace a
number.

Published in `docs/reference/rest.md`, sections Search and Recommendation.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Literal

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    PlainValidator,
    StrictBool,
    WithJsonSchema,
    model_validator,
)

from actors.recommender.messages import Boost, Circle, DiversityRule, QueryKind, UserQuery
from cluster.errors import FilterSyntax
from cluster.ids import DEFAULT_ENGINE
from cluster.query.columnar.point_column import kilometres
from cluster.query.field_projection import MOST_NAMES, exceeded_budget
from cluster.query.language.field_values import canonical_field
from cluster.query.language.parser import parse
from cluster.query.language.tree import Node
from cluster.records.interaction import RecentEvent
from cluster.records.validation.recent_events import parse_simulated_interactions
from deployments.api.wire.validation_errors import build_error, refuse, refuse_filter

_UNITS = ("km", "mile", "miles", "mi")


def _may_be_null(schema: dict[str, Any]) -> None:
    required = schema.get("required", ())
    for name, field in schema.get("properties", {}).items():
        if name not in required:
            texts = {key: field.pop(key) for key in ("title", "description", "default") if key in field}
            schema["properties"][name] = {**texts, "anyOf": [field, {"type": "null"}]}


class RequestModel(BaseModel):
    """A JSON object of a query body."""

    model_config = ConfigDict(
        extra="forbid", frozen=True, allow_inf_nan=False, json_schema_extra=_may_be_null
    )

    @model_validator(mode="before")
    @classmethod
    def _null_is_absence(cls, value: Any) -> Any:
        # Most bodies have no null and are not copied.
        if type(value) is dict and None in value.values():
            return {name: item for name, item in value.items() if item is not None}
        return value


def number_not_bool(value: Any) -> Any:
    """Refuse a boolean in place of a number."""
    # Pydantic would read true as the number 1.
    if value is True or value is False:
        raise build_error("value is not a valid number", "type_error.number")
    return value


def _cohort(value: Any) -> dict[str, bool | str | int | float]:
    if type(value) is not dict:
        raise build_error("value is not a valid dict", "type_error.dict")
    for item in value.values():
        if not isinstance(item, bool | str | int | float):
            raise build_error("the values should be str, bool or number", "type_error")
    return value


def _context(value: Any) -> dict[str, Any]:
    if type(value) is not dict:
        raise build_error("value is not a valid dict", "type_error.dict")
    for item in value.values():
        if not _is_session_value(item):
            raise build_error(
                "the values should be bool, str, number, str[], number[], object[] or null", "type_error"
            )
    return value


def _is_session_value(value: Any) -> bool:
    if not isinstance(value, list):
        return not isinstance(value, dict)
    numbers = all(isinstance(item, int | float) and not isinstance(item, bool) for item in value)
    return numbers or any(all(isinstance(item, kind) for item in value) for kind in (str, dict))


def _few_enough(names: list[str]) -> list[str]:
    if excess := exceeded_budget(names):
        raise build_error(excess)
    return names


_SCALARS: list[dict[str, Any]] = [{"type": name} for name in ("boolean", "string", "number", "null")]
_LISTS: list[dict[str, Any]] = [
    {"type": "array", "items": {"type": name}} for name in ("string", "number", "object")
]

Count = Annotated[int, BeforeValidator(number_not_bool), Field(ge=0, le=1000)]
Offset = Annotated[int, BeforeValidator(number_not_bool), Field(ge=0, le=1_000_000)]
Real = Annotated[float, BeforeValidator(number_not_bool)]
Dithering = Annotated[
    float,
    BeforeValidator(number_not_bool),
    # In Python False equals 0, and it is no number here.
    BeforeValidator(lambda value: 1.0 if value in (0, "0") and value is not False else value),
    Field(ge=1, le=1000),
    WithJsonSchema({"anyOf": [{"type": "number", "minimum": 1, "maximum": 1000}, {"const": 0}]}),
]
"0 counts as 1: the list is not shuffled."
Flag = StrictBool
Name = Annotated[str, Field(max_length=512)]
VisitorName = Annotated[str, Field(max_length=1024)]
ProductType = Annotated[Name | None, AfterValidator(lambda name: name or None)]
"An empty text counts as absent: products of all types, as for `GET /v1/products/_ids`."
Names = Annotated[list[str], Field(max_length=10_000)]
FieldNames = Annotated[list[str], AfterValidator(_few_enough), Field(max_length=MOST_NAMES)]
"A list `fl`, within the budgets of `cluster.query.field_projection`."
Filter = Annotated[str, Field(max_length=65_536)]
Positions = Annotated[list[Offset], Field(max_length=1000)]
Cohort = Annotated[
    dict[str, Any],
    PlainValidator(_cohort),
    WithJsonSchema(
        {
            "type": "object",
            "additionalProperties": {"anyOf": [{"type": "boolean"}, {"type": "string"}, {"type": "number"}]},
        }
    ),
]
SessionContext = Annotated[
    dict[str, Any],
    PlainValidator(_context),
    WithJsonSchema({"type": "object", "additionalProperties": {"anyOf": [*_SCALARS, *_LISTS]}}),
]
Simulated = Annotated[
    list[Any],
    Field(max_length=1000),
    WithJsonSchema({"type": "array", "maxItems": 1000, "items": {"type": "object"}}),
]
"Validated by `records.event.read_simulated`, which has the schema of interactions."


class FieldWarning(BaseModel):
    """A part of the query that is probably not what was meant; the query was answered as it stands."""

    field: str = Field(description="The name that the query used.")
    parameter: str = Field(description="The parameter that has the name, for example `fq`.")
    message: str = Field(description="What is wrong with the name.")
    did_you_mean: str | None = Field(None, description="The field that was probably meant.")


Warnings = Annotated[
    list[FieldWarning] | None,
    Field(
        description="Only when the query names fields that no product has, in `fl`, filters, boosts, orders, facets or "
        "`field`, or when a value is discouraged; at most 11."
    ),
]


class GeoFilter(RequestModel):
    """A distance condition."""

    lat: Annotated[Real, Field(ge=-90, le=90)]
    lon: Annotated[Real, Field(ge=-180, le=180)]
    distance: Annotated[Real, Field(ge=0)]
    distance_unit: str = Field("mile", json_schema_extra={"enum": [*_UNITS]})
    field: Name = "location"

    @model_validator(mode="after")
    def _check_unit(self) -> GeoFilter:
        if self.distance_unit not in _UNITS:
            raise build_error(
                "distance_unit should be one of 'km', 'mile', 'miles', 'mi'", "value_error.const"
            )
        return self

    def circle(self, positions: Sequence[int] | None = None) -> Circle:
        """Return the condition with its distance in kilometres."""
        return Circle(
            lat=self.lat,
            lon=self.lon,
            distance_km=kilometres(self.distance, self.distance_unit) or 0.0,
            field=self.field,
            positions=tuple(positions) if positions else None,
        )


class GeoBoost(GeoFilter):
    """A distance within which products are boosted."""

    boost_positions: Positions | None = None


class Geo(RequestModel):
    """Distance conditions and boosts; all filters must hold."""

    filter: Annotated[list[GeoFilter], Field(max_length=100)] = Field(default_factory=list)
    boost: Annotated[list[GeoBoost], Field(max_length=100)] = Field(default_factory=list)


class BoostRulePart(RequestModel):
    """One of several boost rules."""

    boost_fq: Filter
    boost_positions: Positions | None = None
    boost_rule_name: Name = ""


class Diversification(RequestModel):
    """How far apart products with the same value of one field should stand."""

    minimum_distance: Offset = 1
    always_together: Flag = False


class ProductQueryBody(RequestModel):
    """What every query for products shares."""

    engine_id: Name | None = None
    user_id: Name | None = None
    anonymous_id: VisitorName | None = None
    rows: Count = 5
    type: ProductType = None
    fl: FieldNames = Field(default_factory=list)
    fq: Filter | None = None
    boost_fq: Filter | None = None
    boost_positions: Positions | None = None
    boost_rule_name: Name = ""
    boost_rules: Annotated[list[BoostRulePart], Field(max_length=100)] = Field(default_factory=list)
    geo: Geo = Field(default_factory=Geo)


class UserQueryBody(ProductQueryBody):
    """What all search, recommendation and autocomplete bodies share."""

    user_hash: Name | None = None
    anonymous_hash: Name | None = None
    "Proof of an `anonymous_id` beside a user, read by admission; `strict_user_hash` requires it."
    user_type: Literal["anonymous", "registered", "free", "subscriber", "paid", "internal"] | None = None
    "Read by admission: the second form of `user_hash` includes it, and a token must name the same type."
    jwt_token: Annotated[str, Field(max_length=8192)] | None = None
    "Read by admission: a user token, for clients that can't send the header `Authorization`."
    user_cohort: Cohort = Field(default_factory=dict)
    dedupe_product_group_id: Flag = True
    additional_interactions: Simulated = Field(default_factory=list)


_NOTHING_TO_PLACE = (
    "positions need a boost_fq that says which products should stand there: "
    "add one, or take the positions out"
)


def parse_filter(text: str | None, *path: str | int, within: str = "body") -> Node | None:
    """Parse a filter parameter.

    Errors:
        FilterSyntax: with `detail` naming the parameter
    """
    if text is None or not text.strip():
        return None
    try:
        return parse(text)
    except FilterSyntax as error:
        refuse_filter(error, *path, within=within)


def boosts_from_body(body: ProductQueryBody) -> tuple[Boost, ...]:
    """Return all boost rules of a body, the single rule first. An empty list of positions equals its absence.

    Errors:
        FilterSyntax, Unprocessable: a filter does not parse, or there are positions without a filter
    """
    single = (body.boost_fq, body.boost_positions, body.boost_rule_name, ())
    several = (
        (rule.boost_fq, rule.boost_positions, rule.boost_rule_name, ("boost_rules", at))
        for at, rule in enumerate(body.boost_rules)
    )
    boosts = []
    for text, positions, name, path in (single, *several):
        tree = parse_filter(text, *path, "boost_fq")
        if tree is not None:
            label = f"boost_rules[{path[1]}]" if path else "boost_fq"
            boosts.append(Boost(tree, tuple(positions) if positions else None, name, label=label))
        elif positions:
            refuse(_NOTHING_TO_PLACE, *path, "boost_positions")
    return tuple(boosts)


def diversity_rules_from_body(diversification: Mapping[str, Diversification]) -> tuple[DiversityRule, ...]:
    """Return the spacings of `diversification`, in the order of the body."""
    return tuple(
        DiversityRule(canonical_field(name), rule.minimum_distance, rule.always_together)
        for name, rule in diversification.items()
    )


def query_from_body(
    body: UserQueryBody, kind: QueryKind, *, app_id: str, user_id: str, now_ms: int, **parameters: Any
) -> UserQuery:
    """Return the query of a body; `parameters` are those that only this kind of body has.

    `user_id` is the user of the token if there is one, else that of the body.

    Errors:
        FilterSyntax, Unprocessable: a filter or a simulated interaction is invalid
    """
    simulated: Sequence[RecentEvent] = ()
    if body.additional_interactions:
        simulated = parse_simulated_interactions(
            body.additional_interactions, now_ms=now_ms, where=("body", "additional_interactions")
        )
    return plain_query_from_body(
        body,
        kind,
        app_id=app_id,
        user_id=user_id,
        dedupe=body.dedupe_product_group_id,
        simulated=tuple(simulated),
        cohort=body.user_cohort,
        **parameters,
    )


def plain_query_from_body(
    body: ProductQueryBody, kind: QueryKind, *, app_id: str, user_id: str, **parameters: Any
) -> UserQuery:
    """Return the query of a body that names its user by the id only.

    Errors:
        FilterSyntax, Unprocessable: a filter is invalid
    """
    return UserQuery(
        kind=kind,
        app_id=app_id,
        engine_id=body.engine_id or DEFAULT_ENGINE,
        user_id=user_id,
        anonymous_id=body.anonymous_id or "",
        rows=body.rows,
        type=body.type,
        fields=tuple(body.fl),
        filter=parse_filter(body.fq, "fq"),
        boosts=boosts_from_body(body),
        circles=tuple(entry.circle() for entry in body.geo.filter),
        boost_circles=tuple(entry.circle(entry.boost_positions) for entry in body.geo.boost),
        rule_names=(body.boost_rule_name,) if body.boost_rule_name and not body.boost_fq else (),
        **parameters,
    )

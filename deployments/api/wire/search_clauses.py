"""Parts of a search body (facets, orders, anchors), and their conversion to queries.

Published in `docs/reference/rest.md`, section Search.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Annotated, Any, Literal

from pydantic import (
    BeforeValidator,
    Field,
    GetJsonSchemaHandler,
    PlainValidator,
    WithJsonSchema,
    model_validator,
)
from pydantic_core import CoreSchema

from actors.retrieval.messages import DISTANCE, SCORES, Anchoring, Facet, FacetFilter, OrderKey
from cluster.errors import FilterSyntax
from cluster.query.columnar.formula import MOST_DEAR, Formula, is_plain_field, parse_formula
from cluster.query.language import tree
from cluster.query.language.automaton import StepBudget
from cluster.query.language.field_values import canonical_field, is_moment
from cluster.query.language.parser import parse
from cluster.query.language.patterns import compile_regex
from cluster.query.language.scalars import moment_of, number_of, period_of
from cluster.records.product import TRANSLATION_NAME, Product
from deployments.api.wire.query_bodies import Count, Name, Real, RequestModel, parse_filter
from deployments.api.wire.validation_errors import build_error, refuse, refuse_filter

MOST_FACETS = 32
MOST_KEYS = 200
"Maximum ranges and queries of one facet."
MOST_TERMS = 1_000
_MOST_FORMULAS = 1_000
"Maximum characters of all formulas of one order."
_NUMERIC = frozenset(
    {"price", "original_price", "sale_price", "margin", "rating", "enable_question_answering"}
)
_NO_FIELD = "there is no such product field; name one, for example brand, or custom_attributes.<name>"
_NO_NUMBER = (
    "an order needs a field of numbers, booleans or dates, for example price or custom_attributes.<name>, "
    "one of _search_score, _personalization_score, _boosting_score and _geo_distance, or a formula of them"
)


class _OrName:
    """Allows in the schema the name of a field in place of an object."""

    def __get_pydantic_json_schema__(
        self, source: CoreSchema, handler: GetJsonSchemaHandler
    ) -> dict[str, Any]:
        return {"anyOf": [{"type": "string", "minLength": 1, "maxLength": 512}, handler(source)]}


def _bound(value: Any) -> str:
    """Return the end of a range as the text of a filter."""
    # A bool is an int in Python, but no end of a range.
    if isinstance(value, (int, float)) and not isinstance(value, bool) and number_of(value) is not None:
        return repr(value)
    if isinstance(value, str) and (number_of(value) is not None or period_of(value) is not None):
        return value
    raise build_error("an end of a range is a number or a date", "type_error.number")


def _is_reversed(start: str | None, end: str | None) -> bool:
    """Return whether a range of two numbers or two dates begins above its end."""
    if start is None or end is None:
        return False
    lower = number_of(start)
    upper = number_of(end)
    if lower is not None and upper is not None:
        return lower > upper
    first = period_of(start)
    last = period_of(end)
    return first is not None and last is not None and first[0] > last[0]


def _moment(value: Any) -> int:
    at_ms = moment_of(value)
    if at_ms is None:
        raise build_error("invalid datetime format", "value_error.datetime")
    return at_ms


def _term(value: Any) -> Any:
    if isinstance(value, bool):
        return "true" if value else "false"
    return repr(value) if isinstance(value, (int, float)) else value


Bound = Annotated[
    Any, PlainValidator(_bound), WithJsonSchema({"anyOf": [{"type": "number"}, {"type": "string"}]})
]
Moment = Annotated[Any, PlainValidator(_moment), WithJsonSchema({"type": "string", "format": "date-time"})]
FieldName = Annotated[str, Field(min_length=1, max_length=512)]
Term = Annotated[str, Field(max_length=4_096), BeforeValidator(_term)]


class ChosenRange(RequestModel):
    """A range of values from `from` to `to`, which is not included. `key` may be absent."""

    from_: Bound | None = Field(None, alias="from")
    to: Bound | None = None
    key: Name | None = None

    @model_validator(mode="after")
    def _check_ends(self) -> ChosenRange:
        if self.from_ is None and self.to is None:
            raise build_error("a range needs from, to or both")
        if _is_reversed(self.from_, self.to):
            raise build_error("a range needs a from that is not above its to: swap them")
        return self


class FacetRange(ChosenRange):
    """A range of values that is counted under its name."""

    key: Name


class ChosenQuery(RequestModel):
    """A filter. `key` may be absent."""

    query: Annotated[str, Field(min_length=1, max_length=65_536)]
    key: Name | None = None


class FacetQuery(ChosenQuery):
    """A filter whose products are counted under its name."""

    key: Name


class FacetField(RequestModel):
    """What to count."""

    field: FieldName
    alias: Annotated[str, Field(min_length=1, max_length=512)] | None = None
    size: Count = 10
    include: Annotated[str, Field(max_length=4_096)] | None = None
    exclude: Annotated[str, Field(max_length=4_096)] | None = None
    ranges: Annotated[list[FacetRange], Field(max_length=MOST_KEYS)] = Field(default_factory=list)
    queries: Annotated[list[FacetQuery], Field(max_length=MOST_KEYS)] = Field(default_factory=list)


class FacetChoice(RequestModel):
    """The chosen values of a facet. One of them must match."""

    terms: Annotated[list[Term], Field(max_length=MOST_TERMS)] = Field(default_factory=list)
    ranges: Annotated[list[ChosenRange], Field(max_length=MOST_KEYS)] = Field(default_factory=list)
    queries: Annotated[list[ChosenQuery], Field(max_length=MOST_KEYS)] = Field(default_factory=list)


FacetEntry = Annotated[
    FacetField,
    BeforeValidator(lambda value: {"field": value} if isinstance(value, str) else value),
    _OrName(),
]


class TieBreaker(RequestModel):
    """When neighbours count as equal."""

    type: Literal["relative_difference"] = "relative_difference"
    threshold: Annotated[Real, Field(ge=0)] = 0.0


class PointPart(RequestModel):
    """A place."""

    lat: Annotated[Real, Field(ge=-90, le=90)]
    lon: Annotated[Real, Field(ge=-180, le=180)]


class OrderBy(RequestModel):
    """One sort key."""

    field: Annotated[str, Field(min_length=1, max_length=1_000)]
    order: Literal["desc", "asc"] = "desc"
    tie_breaker: TieBreaker | None = None
    default_value: Real = 0.0
    geo: PointPart | None = None


class AnchoringSetting(RequestModel):
    """A product to place beside another one."""

    product_id: FieldName
    anchor_ids: Annotated[list[Name], Field(min_length=1, max_length=1_000)]
    relative_position: Annotated[int, Field(ge=-1_000, le=1_000)] = -1
    start_time: Moment | None = None
    end_time: Moment | None = None

    @model_validator(mode="after")
    def _check_position(self) -> AnchoringSetting:
        if self.relative_position == 0:
            raise build_error("relative_position is 1 or more for after the anchor, -1 or less for before it")
        return self


def anchorings_from_body(settings: Sequence[AnchoringSetting]) -> tuple[Anchoring, ...]:
    """Return the anchorings of the query from `anchoring_settings`."""
    return tuple(
        Anchoring(
            anchoring.product_id,
            tuple(anchoring.anchor_ids),
            anchoring.relative_position,
            anchoring.start_time,
            anchoring.end_time,
        )
        for anchoring in settings
    )


def order_keys_from_body(entries: Sequence[OrderBy]) -> tuple[OrderKey, ...]:
    """Return the sort keys from `order_by`.

    Errors:
        Unprocessable, FilterSyntax: a field without numbers, or an invalid formula
    """
    keys = []
    formulas = dear = 0
    for at, entry in enumerate(entries):
        expression = canonical_field(entry.field.strip())
        names: Sequence[str] = (expression,)
        if not is_plain_field(expression):
            formulas += len(expression)
            if formulas > _MOST_FORMULAS:
                refuse(
                    f"all formulas together have at most {_MOST_FORMULAS} characters", "order_by", at, "field"
                )
            formula = _formula(expression, at)
            names = formula.fields
            dear = dear + formula.dear
            if dear > MOST_DEAR:
                refuse(
                    f"all formulas together have at most {MOST_DEAR} powers, remainders and functions",
                    "order_by",
                    at,
                    "field",
                )
        if not all(name in SCORES or _is_numeric(name) for name in names):
            refuse(_NO_NUMBER, "order_by", at, "field")
        if DISTANCE in names and entry.geo is None:
            refuse("_geo_distance needs geo: {lat, lon}", "order_by", at, "geo", kind="value_error.missing")
        keys.append(
            OrderKey(
                expression,
                ascending=entry.order == "asc",
                threshold=entry.tie_breaker.threshold if entry.tie_breaker is not None else 0.0,
                default=entry.default_value,
                at=(entry.geo.lat, entry.geo.lon) if entry.geo is not None else None,
            )
        )
    return tuple(keys)


def facets_from_body(entries: Sequence[FacetField]) -> tuple[Facet, ...]:
    """Return the facets to count from `facets`.

    Errors:
        Unprocessable, FilterSyntax: a field no product can have, a pattern or query that does not parse
    """
    effort = StepBudget()
    facets = []
    for at, entry in enumerate(entries):
        name = canonical_field(entry.field)
        keys = _keys(name, entry.ranges, entry.queries, "facets", at)
        # A facet of queries alone reads no field; its name is only a label.
        if not entry.queries or entry.ranges:
            check_field(name, "facets", at, "field")
        for pattern in ("include", "exclude"):
            _try_pattern(getattr(entry, pattern), effort, "facets", at, pattern)
        counted = tuple((key or "", node) for key, node in keys)
        facets.append(
            Facet(
                name,
                entry.alias or entry.field,
                entry.size,
                entry.include,
                entry.exclude,
                counted or None,
            )
        )
    return tuple(facets)


def facet_filters_from_body(chosen: Mapping[str, FacetChoice]) -> tuple[FacetFilter, ...]:
    """Return the filters from `facet_filters`; an empty choice is no filter.

    Errors:
        Unprocessable, FilterSyntax: a field no product can have, a query that does not parse
    """
    filters = []
    for label, choice in chosen.items():
        name = canonical_field(label)
        if choice.terms or choice.ranges:
            check_field(name, "facet_filters", label)
        nodes: list[tree.Node] = [tree.Term(name, term) for term in choice.terms]
        nodes += [node for _, node in _keys(name, choice.ranges, choice.queries, "facet_filters", label)]
        if nodes:
            filters.append(FacetFilter(name, nodes[0] if len(nodes) == 1 else tree.Any(tuple(nodes))))
    return tuple(filters)


def check_facet_budget(facets: Sequence[FacetField], chosen: Mapping[str, FacetChoice]) -> None:
    """Check that all facet filters of one body together keep to the budget of one filter.

    Errors:
        FilterSyntax: they exceed the budget
    """
    queries: list[ChosenQuery] = [query for entry in facets for query in entry.queries]
    queries += [query for choice in chosen.values() for query in choice.queries]
    ranges = sum(len(entry.ranges) for entry in facets) + sum(
        len(chosen_values.ranges) for chosen_values in chosen.values()
    )
    if ranges > MOST_KEYS:
        refuse(f"all facets together have at most {MOST_KEYS} ranges", "facets")
    if sum(len(choice.terms) for choice in chosen.values()) > MOST_TERMS:
        refuse(f"all facet filters together have at most {MOST_TERMS} terms", "facet_filters")
    if len(queries) > 1:
        try:
            # The parser holds the budget of one filter, so all queries are parsed as one.
            parse(" ".join(f"({query.query})" for query in queries))
        except FilterSyntax as error:
            refuse_filter(error, "facets")


def check_field(name: str, *path: str | int) -> None:
    """Refuse a field that no product can have."""
    outer, dot, rest = name.partition(".")
    is_field = outer in Product.model_fields or re.fullmatch(TRANSLATION_NAME, outer) is not None
    if not is_field or (dot and not rest) or name == "custom_attributes":
        refuse(_NO_FIELD, *path)


def _keys(
    name: str, ranges: Sequence[ChosenRange], queries: Sequence[ChosenQuery], *path: str | int
) -> Iterator[tuple[str | None, tree.Node]]:
    for range_ in ranges:
        # Without its end: neighbouring ranges count no product twice.
        yield range_.key, tree.Range(name, range_.from_, range_.to, True, False)
    for at, query in enumerate(queries):
        node = parse_filter(query.query, *path, "queries", at, "query")
        if node is None:
            refuse("the query is empty", *path, "queries", at, "query")
        yield query.key, node


def _try_pattern(pattern: str | None, effort: StepBudget, *path: str | int) -> None:
    if pattern is not None:
        try:
            compile_regex(pattern, effort)
        except FilterSyntax as error:
            refuse_filter(error, *path)


def _formula(expression: str, at: int) -> Formula:
    try:
        return parse_formula(expression)
    except FilterSyntax as error:
        refuse_filter(error, "order_by", at, "field")


def _is_numeric(name: str) -> bool:
    stored = canonical_field(name)
    outer, _, rest = stored.partition(".")
    return stored in _NUMERIC or is_moment(stored) or (outer == "custom_attributes" and bool(rest))

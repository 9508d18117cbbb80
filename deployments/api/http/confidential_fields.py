"""Product fields that a publishable key can't read, filter by, sort by or count.

A filter discloses values, too: a few queries such as `margin:[0.4 TO *]` find one. So a query that names a
confidential field, or an object that holds one, is refused; what a wildcard of `fl` covers is left out of the reply.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import fields, is_dataclass
from typing import Any, cast

from actors.recommender.messages import RecommendationResult, UserQuery
from cluster.query.columnar.formula import is_plain_field, parse_formula
from cluster.query.language.field_values import canonical_field
from cluster.query.language.tree import Node
from deployments.api.wire.validation_errors import refuse
from deployments.edge.http.request import ApiRequest

_INSIDE = re.compile(r"(?:i18n_[^.]*|children)\.")
"Fields whose values are product objects with the same confidential fields."
_TREES = ("filter", "boosts", "circles", "boost_circles", "spacing", "search")


def check_hidden_fields(request: ApiRequest, query: UserQuery) -> UserQuery:
    """Return the query unchanged after checking that it names no confidential field.

    Cost: under a microsecond for a query without filters.
    """
    hidden = request.credential.hidden_fields
    if hidden:
        check_hidden_names(hidden, "fl", (name for name in query.fields if "*" not in name), may_cover=True)
        check_hidden_names(hidden, "completion_fields", query.completion_fields)
        check_hidden_names(hidden, "field", (query.field_name,))
        # A session variable named as a field raises the products with its value.
        check_hidden_names(hidden, "custom_context", query.context, may_cover=True)
        for name in _TREES:
            part = getattr(query, name)
            if part:
                check_hidden_names(hidden, "fq" if name == "filter" else name, _named_fields(part))
    return query


def check_hidden_filter(request: ApiRequest, parameter: str, tree: Node | None) -> None:
    """Check the field names of a filter that is part of no query."""
    hidden = request.credential.hidden_fields
    if hidden and tree is not None:
        check_hidden_names(hidden, parameter, _named_fields(tree))


def check_hidden_names(
    hidden: Sequence[str], parameter: str, names: Iterable[str], *, may_cover: bool = False
) -> None:
    """Check the field names of one parameter; `may_cover` allows an object that contains a confidential field.

    Errors:
        Unprocessable
    """
    for name in names:
        if name and _names_hidden(hidden, name, may_cover):
            refuse(f"{name[:200]} is confidential in this app; ask with the secret key", parameter)


def check_format(request: ApiRequest, body: Any) -> None:
    """Check the fields that a stored answer will show of its sources; they are not filtered later.

    Errors:
        Unprocessable
    """
    hidden = request.credential.hidden_fields
    for parameter in ("source_fl", "related_resource_fl") if hidden else ():
        names = getattr(body, parameter, None) or ()
        if any("*" in name for name in names):
            refuse(
                "a * may cover confidential fields; name the fields, or ask with the secret key", parameter
            )
        check_hidden_names(hidden, parameter, names)


def remove_hidden_fields(
    request: ApiRequest, query: UserQuery, answered: RecommendationResult
) -> RecommendationResult:
    """Remove confidential fields from a result whose `fl` covers them; return the changed result."""
    hidden = request.credential.hidden_fields
    if hidden and may_cover_hidden(hidden, query.fields):
        for records in _lists(answered):
            remove_from_records(hidden, records)
    if hidden:
        remove_hidden_suggestions(hidden, getattr(answered, "warnings", ()))
    return answered


def remove_hidden_suggestions(hidden: Sequence[str], warnings: Iterable[dict[str, str]]) -> None:
    """Remove the names of confidential fields from warnings."""
    for warning in warnings:
        # The name alone would tell that the field exists.
        if _names_hidden(hidden, warning.get("did_you_mean", ""), may_cover=False):
            del warning["did_you_mean"]


def may_cover_hidden(hidden: Sequence[str], names: Sequence[str]) -> bool:
    """Return whether a wildcard or an object among these names may contain a confidential field."""
    return any("*" in name or _names_hidden(hidden, name, may_cover=False) for name in names)


def remove_from_records(hidden: Sequence[str], records: list[dict[str, Any]]) -> None:
    """Remove confidential fields from records; changed objects are copied because other requests may share them."""
    for at, record in enumerate(records):
        product = record.get("product")
        if isinstance(product, dict):
            record["product"] = _copy_without(product, hidden)
        records[at] = _copy_without(record, hidden)


def _lists(answered: RecommendationResult) -> Iterator[list[dict[str, Any]]]:
    yield answered.products
    for group in answered.groups:
        yield group.products
    yield from answered.completions.values()
    if answered.search is not None and answered.search.partial:
        yield answered.search.partial
    if answered.answers is not None:
        yield cast(list[dict[str, Any]], answered.answers.answers)


def _names_hidden(hidden: Sequence[str], name: str, may_cover: bool) -> bool:
    plain = canonical_field(name)
    inner = _INSIDE.match(plain)
    if inner is not None:
        plain = canonical_field(plain[inner.end() :])
    elif plain == "children" or plain.startswith("i18n_"):
        # The whole object holds custom attributes of translations or children, the confidential ones among
        # them.
        return not may_cover and any(field.startswith("custom_attributes.") for field in hidden)
    return any(
        plain == field or plain.startswith(field + ".") or (not may_cover and field.startswith(plain + "."))
        for field in hidden
    )


def _named_fields(part: Any) -> Iterator[str]:
    """Return all field names in a part of a query."""
    if isinstance(part, (tuple, list)):
        for element in part:
            yield from _named_fields(element)
    elif is_dataclass(part):
        for field in fields(part):
            value = getattr(part, field.name)
            if field.name == "expression":
                yield from (value,) if is_plain_field(value) else parse_formula(value).fields
            elif field.name == "field":
                yield value
            elif isinstance(value, (tuple, list)) or is_dataclass(value):
                yield from _named_fields(value)


def _copy_without(record: Mapping[str, Any], hidden: Iterable[str]) -> dict[str, Any]:
    kept = dict(record)
    for path in hidden:
        _drop(kept, path)
    # Translations and children have custom attributes of their own.
    inner = [path for path in hidden if path.startswith("custom_attributes.")]
    for key, value in kept.items() if inner else ():
        if key.startswith("i18n_") and isinstance(value, dict):
            kept[key] = _value_without(value, inner)
        elif key == "children" and isinstance(value, list):
            kept[key] = [
                _value_without(child, inner) if isinstance(child, dict) else child for child in value
            ]
    return kept


def _value_without(value: Mapping[str, Any], paths: Iterable[str]) -> dict[str, Any]:
    kept = dict(value)
    for path in paths:
        _drop(kept, path)
    return kept


def _drop(kept: dict[str, Any], path: str) -> None:
    """Delete a path from a copied object; nested objects on the path are copied first."""
    kept.pop(path, None)
    head, dot, rest = path.partition(".")
    value = kept.get(head)
    if not dot or not isinstance(value, (dict, list)):
        return
    if isinstance(value, dict):
        kept[head] = inner = dict(value)
        _drop(inner, rest)
    else:
        kept[head] = [
            _value_without(element, (rest,)) if isinstance(element, dict) else element for element in value
        ]

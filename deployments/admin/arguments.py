"""Arguments of an operation from path, query string and body."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, get_origin

from starlette.datastructures import QueryParams

from cluster.errors import Unprocessable
from cluster.records.validation.json_limits import load_json
from deployments.operations.framework.operation import Operation

PREFIX = "/v1/admin"
MOST_FIELDS = 100

AnyOperation = Operation[Any, Any]


def takes_body(operation: AnyOperation) -> bool:
    """Return whether the arguments of an operation stand in the body, not in the query string."""
    return operation.method not in ("GET", "DELETE") and not operation.stream_field


def collect_arguments(
    operation: AnyOperation, in_path: Mapping[str, str], query: QueryParams, body: bytes
) -> dict[str, Any]:
    """Return the arguments that a request gives, not validated.

    Errors:
        Malformed: the body is not JSON
        Unprocessable: the body is no object, a field stands at two places, or there are too many
    """
    if takes_body(operation):
        # Parsers disagree on which of two equal keys counts, so a proxy or a log could show another value.
        given = load_json(body, refuse_duplicates=True) if body.strip() else {}
        if not isinstance(given, dict):
            raise _fault("the body must be a JSON object", ["body"])
        if query:
            raise _fault(f"{next(iter(query))}: this operation takes no query parameters", ["query"])
    else:
        given = _from_query(operation, query)
    twice = sorted(set(given) & set(in_path))
    if twice:
        raise _fault(f"{twice[0]}: it stands in the path", [twice[0]])
    return {**given, **in_path}


def _from_query(operation: AnyOperation, query: QueryParams) -> dict[str, Any]:
    if len(query.multi_items()) > MOST_FIELDS:
        raise _fault("too many query parameters", ["query"])
    given: dict[str, Any] = {}
    for name in query:
        field = operation.arguments.model_fields.get(name)
        is_list = field is not None and get_origin(field.annotation) in (list, tuple, set, frozenset)
        values = query.getlist(name)
        # Programs differ in which of several values counts, so none is chosen.
        if len(values) > 1 and not is_list:
            raise _fault(f"{name}: it stands there {len(values)} times", ["query", name])
        given[name] = values if is_list else values[0]
    return given


def _fault(message: str, place: list[str]) -> Unprocessable:
    return Unprocessable(message, detail=[{"loc": place, "msg": message, "type": "value_error"}])

"""Parse bodies that name the records to delete.

    POST /v1/users/_delete       {"data": {"user_ids": [...]}}
    POST /v1/products/_delete    {"data": {"product_ids": [...]}}
    DELETE /v1/interactions      {"user_ids": [...]}

Other fields are ignored. Impossible ids are no fault: deleting an absent record succeeds.

Published in `docs/reference/rest.md`, sections Users, Products and Interactions.
"""

from __future__ import annotations

from typing import Any, Final

from cluster.errors import Unprocessable
from cluster.records.validation.json_limits import load_json

MAX_IDS: Final = 10_000
"Ids in one call; ten times the number that the public SDKs send."
MAX_ID: Final = 512
_MAX_FAULTS = 100


def parse_user_delete(body: bytes) -> list[str]:
    """Read the user ids to delete, each once, in order.

    Errors:
        Malformed: not JSON, or beyond its limits
        Unprocessable: fact `detail`
    """
    return _ids(_field(_tree(body), "data"), "user_ids", ["body", "data"])


def parse_product_delete(body: bytes) -> list[str]:
    """Read the product ids to delete; see `parse_user_delete`."""
    return _ids(_field(_tree(body), "data"), "product_ids", ["body", "data"])


def parse_interaction_delete(body: bytes) -> list[str]:
    """Read the ids of the users whose interactions are to be deleted; see `parse_user_delete`.

    The wrapped form `{"data": {"user_ids": [...]}}` is accepted as well.
    """
    tree = _tree(body)
    if "user_ids" not in tree and isinstance(tree.get("data"), dict):
        return _ids(tree["data"], "user_ids", ["body", "data"])
    return _ids(tree, "user_ids", ["body"])


def _tree(body: bytes) -> dict[str, Any]:
    return _object(load_json(body, refuse_duplicates=True), ["body"])


def _field(tree: dict[str, Any], name: str) -> dict[str, Any]:
    if name not in tree:
        raise _refused(["body", name], "field required", "value_error.missing")
    return _object(tree[name], ["body", name])


def _object(value: Any, loc: list[str | int]) -> dict[str, Any]:
    if value is None:
        raise _refused(loc, "none is not an allowed value", "type_error.none.not_allowed")
    if not isinstance(value, dict):
        raise _refused(loc, "value is not a valid dict", "type_error.dict")
    return value


def _ids(tree: dict[str, Any], name: str, loc: list[str | int]) -> list[str]:
    loc = [*loc, name]
    if name not in tree:
        raise _refused(loc, "field required", "value_error.missing")
    ids = tree[name]
    if ids is None:
        raise _refused(loc, "none is not an allowed value", "type_error.none.not_allowed")
    if not isinstance(ids, list):
        raise _refused(loc, "value is not a valid list", "type_error.list")
    if len(ids) > MAX_IDS:
        raise _refused(loc, f"ensure this value has at most {MAX_IDS} items", "value_error.list.max_items")
    detail: list[dict[str, Any]] = []
    for at, value in enumerate(ids):
        fault = _id_fault(value)
        if fault:
            detail.append({"loc": [*loc, at], "msg": fault[0], "type": fault[1]})
            # Ten thousand bad ids would make an answer larger than the request.
            if len(detail) == _MAX_FAULTS:
                break
    if detail:
        raise Unprocessable(detail[0]["msg"], detail=detail)
    return list(dict.fromkeys(ids))


def _id_fault(value: Any) -> tuple[str, str] | None:
    if value is None:
        return "none is not an allowed value", "type_error.none.not_allowed"
    if not isinstance(value, str):
        return "str type expected", "type_error.str"
    if not value:
        return "ensure this value has at least 1 characters", "value_error.any_str.min_length"
    if len(value) > MAX_ID:
        return f"ensure this value has at most {MAX_ID} characters", "value_error.any_str.max_length"
    return None


def _refused(loc: list[str | int], msg: str, kind: str) -> Unprocessable:
    return Unprocessable(msg, detail=[{"loc": loc, "msg": msg, "type": kind}])

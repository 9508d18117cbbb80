"""Recommendations as tables: one row for each product (long), or one for each user (nested)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import pyarrow as pa

from jobs.scoring.users import UserKey

LONG: Final = pa.schema(
    [
        ("user_id", pa.string()),
        ("anonymous_id", pa.string()),
        ("rank", pa.int32()),
        ("product_id", pa.string()),
        ("score", pa.float64()),
        ("served_by", pa.string()),
    ]
)
"`rank` begins at 1; `score` is `_personalization_score`; `served_by` names the fallback level."

NESTED: Final = pa.schema(
    [
        ("user_id", pa.string()),
        ("anonymous_id", pa.string()),
        ("served_by", pa.string()),
        ("products", pa.list_(pa.struct([("product_id", pa.string()), ("score", pa.float64())]))),
    ]
)


@dataclass(frozen=True, slots=True)
class UserList:
    """The recommendations of one user, best first."""

    user: UserKey
    served_by: str
    product_ids: tuple[str, ...]
    scores: tuple[float, ...]


def table_from_lists(lists: Sequence[UserList], *, nested: bool) -> Any:
    """Return the recommendations of users as a table."""
    rows: list[dict[str, Any]]
    if nested:
        rows = [
            {
                **_user_ids(one.user),
                "served_by": one.served_by,
                "products": [
                    {"product_id": product_id, "score": score}
                    for product_id, score in zip(one.product_ids, one.scores, strict=True)
                ],
            }
            for one in lists
        ]
        return pa.Table.from_pylist(rows, schema=NESTED)
    rows = [
        {
            **_user_ids(one.user),
            "rank": rank,
            "product_id": product_id,
            "score": score,
            "served_by": one.served_by,
        }
        for one in lists
        for rank, (product_id, score) in enumerate(zip(one.product_ids, one.scores, strict=True), 1)
    ]
    return pa.Table.from_pylist(rows, schema=LONG)


def _user_ids(user: UserKey) -> dict[str, str | None]:
    return {"user_id": user.user_id or None, "anonymous_id": user.anonymous_id or None}

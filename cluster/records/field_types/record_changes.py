"""Change copies of stored records, and keep the fields that a newer release wrote into them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar

from pydantic import BaseModel

M = TypeVar("M", bound=BaseModel)


def with_changes(record: M, changes: Mapping[str, Any]) -> M:
    """Return a validated copy of a record with some fields changed; fields that this release does not know stay.

    Errors:
        pydantic.ValidationError: a value is invalid, or the fields contradict each other
    """
    checked = type(record).model_validate({**record.model_dump(), **changes})
    return record.model_copy(update={name: getattr(checked, name) for name in changes})

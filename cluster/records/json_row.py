"""Rows of logs: dataclasses whose fields are JSON."""

from __future__ import annotations

from dataclasses import asdict, fields
from functools import cache
from typing import Any

from typing_extensions import Self


class JsonRow:
    """A base of frozen dataclasses. Fields may be added, and their defaults give older rows their meaning."""

    __slots__ = ()

    def to_dict(self) -> dict[str, Any]:
        """Return the row for JSON."""
        return asdict(self)  # type: ignore[call-overload, no-any-return]

    @classmethod
    def from_dict(cls, given: Any) -> Self | None:
        """Return the row of `to_dict`; None for other values. Fields of a newer release are ignored."""
        if not isinstance(given, dict):
            return None
        names = _list_fields(cls)  # type: ignore[arg-type]
        if not names.issuperset(given):
            given = {name: value for name, value in given.items() if name in names}
        try:
            return cls(**given)
        except TypeError:
            return None


@cache
def _list_fields(row_type: Any) -> frozenset[str]:
    return frozenset(field.name for field in fields(row_type))

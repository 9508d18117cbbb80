"""Profile fields of users as codes: the input of cohorts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import orjson

from actors.models.cohorts import ATTRIBUTES, FIELDS, LEAST_USERS, text_from_value
from actors.vectors.types import Codes
from actors.vectors.vocabulary import Vocabulary
from cluster.query.language.field_values import canonical_field

# Bounds of cohorts: callers invent attributes, and each value becomes a row of shares over all items.
_MOST_ATTRIBUTES = 8
_FEW_VALUES = 20
_LEAST_SHARE = 0.1
_MOST_VALUES = 100


@dataclass(frozen=True, slots=True)
class Profiles:
    """Profile values of users.

    Shapes:
        codes: int32 [users, f], positions in the values of each field, -1 for unknown
    """

    fields: tuple[str, ...]
    values: tuple[tuple[str, ...], ...]
    codes: Codes

    @classmethod
    def from_users(
        cls, users: Iterable[bytes], users_by_code: Vocabulary, fields: Sequence[str] = ()
    ) -> Profiles:
        """Return profiles from user records, with the most frequent values of each field.

        Fields without values are dropped, and so are values of very few users.
        """
        records = [orjson.loads(user) for user in users]
        requested = tuple(
            dict.fromkeys(map(canonical_field, fields or (*FIELDS, *_select_attributes(records))))
        )
        profiles: list[dict[str, str]] = [{} for _ in range(len(users_by_code))]
        codes = users_by_code.codes(["u:" + str(record.get("user_id", "")) for record in records])
        for code, record in zip(codes.tolist(), records, strict=True):
            if code >= 0:
                texts = {field: text_from_value(_field_value(record, field), field) for field in requested}
                profiles[code] = {field: text for field, text in texts.items() if text}
        kept = [
            (field, _frequent_values(profile[field] for profile in profiles if field in profile))
            for field in requested
        ]
        kept = [(field, values) for field, values in kept if values]
        columns = [
            [values.index(profile[field]) if profile.get(field) in values else -1 for profile in profiles]
            for field, values in kept
        ]
        shape = (len(users_by_code), len(kept))
        table = np.array(columns, np.int32).T if columns else np.zeros(shape, np.int32)
        return cls(
            tuple(field for field, _ in kept),
            tuple(values for _, values in kept),
            np.ascontiguousarray(table.reshape(shape)),
        )


def _select_attributes(records: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return the custom attributes that many users have and that take few values."""
    counts: dict[str, Counter[str]] = {}
    for record in records:
        for name, value in (record.get("custom_attributes") or {}).items():
            text = text_from_value(value)
            value_counts = counts.setdefault(name, Counter())
            # One value more than allowed is counted: it shows that the attribute has too many.
            if text and (text in value_counts or len(value_counts) <= _FEW_VALUES):
                value_counts[text] += 1
    usable = [
        (-sum(value_counts.values()), name)
        for name, value_counts in counts.items()
        if 2 <= len(value_counts) <= _FEW_VALUES
        and sum(value_counts.values()) >= _LEAST_SHARE * len(records)
        and "." not in name
    ]
    return [ATTRIBUTES + name for _, name in sorted(usable)[:_MOST_ATTRIBUTES]]


def _frequent_values(texts: Iterable[str]) -> tuple[str, ...]:
    counts = Counter(texts)
    # A value of fewer users would reveal what single people took.
    often = [(-count, text) for text, count in counts.items() if count >= LEAST_USERS]
    return tuple(sorted(text for _, text in sorted(often)[:_MOST_VALUES]))


def _field_value(record: Mapping[str, Any], field: str) -> Any:
    value: Any = record
    for step in field.split("."):
        value = value.get(step) if isinstance(value, Mapping) else None
    return value

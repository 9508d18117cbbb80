"""Attributes of users that form cohorts, as small numbers: an interaction then needs no look-up of a record.

    fields   country, state, city, gender, group_id, the band of age, and custom attributes with few values
    codes    one number per user and field, 0 where the user has no value or a rare one

Everything is bounded: the users, the fields, the values of a field, the length of a value.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from actors.models.cohorts import ATTRIBUTES, FIELDS, text_from_value
from actors.vectors.types import Mask, Rows, ensure_capacity
from cluster.query.language.field_values import canonical_field

MOST_USERS = 250_000
"Limit of users with stored attributes. More users hardly change the estimates of their cohorts."

_MOST_CUSTOM = 8
_MOST_CUSTOM_VALUES = 100
"A custom attribute with more values describes single users."
_MOST_VALUES = 2_000
_LONGEST_VALUE = 100
# Names of custom attributes come from callers: also the list of refused ones needs a bound.
_MOST_REFUSED = 1_000
_USER_BYTES = 300
"An id, a code and a slot in dictionaries."


class UserAttributes:
    """Values of cohort fields by slot; a slot is a place for one user."""

    def __init__(self, most_users: int = MOST_USERS) -> None:
        self._most_users = most_users
        self._columns: dict[str, int] = {field: at for at, field in enumerate(FIELDS)}
        self._values: list[dict[str, int]] = [{} for _ in range(len(FIELDS) + _MOST_CUSTOM)]
        self._refused: set[str] = set()
        # `_MOST_VALUES` fits 16 bits.
        self._codes = np.zeros((0, len(self._values)), np.uint16)
        self._slots = 0
        self._free: list[int] = []

    def __len__(self) -> int:
        """Return the number of users with an attribute."""
        return self._slots - len(self._free)

    @property
    def nbytes(self) -> int:
        return self._codes.nbytes + len(self) * _USER_BYTES

    def put(self, slot: int, user: Mapping[str, Any]) -> tuple[int, bool]:
        """Set the attributes of a user; `slot` is -1 for a new one.

        Returns the slot (-1 for a user without attributes, or one too many) and whether anything changed.
        """
        codes = self._codes_of(user)
        if not codes.any():
            if slot >= 0:
                self.remove(slot)
            return -1, slot >= 0
        if slot < 0:
            slot = self._new_slot()
            if slot < 0:
                return -1, False
        changed = not np.array_equal(self._codes[slot], codes)
        self._codes[slot] = codes
        return slot, changed

    def remove(self, slot: int) -> None:
        """Free the slot of a user."""
        # Before the slot is free: counted votes may still name it, and 0 matches no cohort.
        self._codes[slot] = 0
        self._free.append(slot)

    def find(self, field: str, text: str) -> tuple[int, int] | None:
        """Find column and code of a value; None when no user has it."""
        column = self._columns.get(field, -1)
        code = self._values[column].get(text, 0) if column >= 0 else 0
        return (column, code) if code else None

    def has_values(self, field: str) -> bool:
        column = self._columns.get(field, -1)
        return column >= 0 and bool(self._values[column])

    def match_slots(self, slots: Rows, value: tuple[int, int]) -> Mask:
        """Mark the slots of users with a value.

        Shapes:
            slots: int [m]; returns: bool [m]
        """
        column, code = value
        mask: Mask = self._codes[slots, column] == code
        return mask

    def _codes_of(self, user: Mapping[str, Any]) -> npt.NDArray[np.uint16]:
        codes = np.zeros(len(self._values), np.uint16)
        for field in FIELDS:
            codes[self._columns[field]] = self._code_for(field, text_from_value(user.get(field), field))
        for name, value in (user.get("custom_attributes") or {}).items():
            text = text_from_value(value)
            if text and "." not in name and (column := self._column_for(ATTRIBUTES + name)) >= 0:
                code = self._code_for(ATTRIBUTES + name, text)
                # the attribute may just have turned out to have too many values
                codes[column] = code if ATTRIBUTES + name in self._columns else 0
        return codes

    def _code_for(self, field: str, text: str) -> int:
        """Find or make the code of a value; 0 for none, a long one and one too many."""
        if not text or len(text) > _LONGEST_VALUE:
            return 0
        values = self._values[self._columns[field]]
        code = values.get(text, 0)
        if code:
            return code
        if field.startswith(ATTRIBUTES) and len(values) >= _MOST_CUSTOM_VALUES:
            self._refuse(field)
            return 0
        if len(values) >= _MOST_VALUES:
            return 0
        # From 1 on: code 0 means no value.
        values[text] = len(values) + 1
        return len(values)

    def _column_for(self, field: str) -> int:
        """Return the column of a custom attribute, a new one if needed; -1 when there is no space for it."""
        column = self._columns.get(field, -1)
        if column >= 0 or field in self._refused or len(field) > _LONGEST_VALUE:
            return column
        free = set(range(len(self._values))).difference(self._columns.values())
        if not free or len(self._refused) >= _MOST_REFUSED:
            return -1
        column = self._columns[field] = min(free)
        return column

    def _refuse(self, field: str) -> None:
        column = self._columns.pop(field)
        self._refused.add(field)
        self._values[column] = {}
        # The next attribute gets this column and must not inherit codes of users.
        self._codes[:, column] = 0

    def _new_slot(self) -> int:
        if self._free:
            return self._free.pop()
        if self._slots >= self._most_users:
            return -1
        self._codes = ensure_capacity(self._codes, self._slots + 1)
        self._slots += 1
        return self._slots - 1


def candidate_fields(name: str) -> tuple[str, ...]:
    """Return the fields that a key of `user_cohort` can name: the key, else a custom attribute."""
    field = canonical_field(name)
    return (field,) if field.startswith(ATTRIBUTES) else (field, ATTRIBUTES + field)

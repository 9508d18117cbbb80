"""Custom attributes: which values they may have, and whether a data set agrees on their types.

    value                            scalar type
    true, 1.5, "ash"                 bool, number, string
    {"unit": "kg", "value": 3}       object (flat: scalars and nulls inside)
    [1, 2], ["a"], [{...}]           the type of the items, all of one type, no bool
    null, []                         none: agrees with everything

A name keeps its scalar type across all records of a data set. A record that differs fails alone.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

MAX_ATTRIBUTES = 1000
"Names in one record's custom attributes."
MAX_NAME = 256
MAX_TEXT = 10_000
"Characters of a text that is no title and no content: an attribute, a tag, a brand."

_SCALAR_TYPES = {bool: "bool", int: "number", float: "number", str: "string"}
_FLAT = frozenset((bool, int, float, str, type(None)))
_LISTED = ({"number"}, {"string"}, set[str]())
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f]")

_TOO_LONG = f"The attribute should have at most {MAX_TEXT} characters."
VALUE_TYPES = "boolean, number, string, null, number[], string[], object or object[]"


class AttributeFault(ValueError):
    """An invalid value or name in custom attributes; `path` is the path from the attributes to it."""

    def __init__(self, text: str, *path: str | int) -> None:
        super().__init__(text)
        self.text = text
        self.path = path


def check_attributes(attributes: Mapping[str, Any]) -> None:
    """Check names and values.

    Errors:
        AttributeFault: the first one that is not allowed
    """
    if len(attributes) > MAX_ATTRIBUTES:
        raise AttributeFault(f"The attribute should have at most {MAX_ATTRIBUTES} entries.")
    for name, value in attributes.items():
        if not name or len(name) > MAX_NAME:
            raise AttributeFault(f"The name should have between 1 and {MAX_NAME} characters.", name)
        # `isprintable` is quick, but it also refuses harmless characters as a no-break space; the pattern
        # then decides.
        if not name.isprintable() and _CONTROL.search(name):
            raise AttributeFault("The name should not contain control characters.", name)
        if type(value) is str:
            if len(value) > MAX_TEXT:
                raise AttributeFault(_TOO_LONG, name)
        elif type(value) not in _FLAT:
            _check_compound(name, value)


def _check_compound(name: str, value: Any) -> None:
    if type(value) is list:
        kinds = set(map(type, value))
        if kinds == {dict}:
            for at, item in enumerate(value):
                _check_flat(item, name, at)
        elif {_SCALAR_TYPES.get(kind, "") for kind in kinds} not in _LISTED:
            raise AttributeFault(f"The items should all be of type '{_ITEMS}'.", name)
        elif str in kinds:
            for item in value:
                if len(item) > MAX_TEXT:
                    raise AttributeFault(_TOO_LONG, name)
    elif type(value) is dict:
        _check_flat(value, name)
    else:
        raise AttributeFault(f"The attribute expected to be of type '{VALUE_TYPES}'.", name)


_ITEMS = "number', all of type 'string' or all of type 'object"


def _check_flat(value: Mapping[str, Any], *path: str | int) -> None:
    for key, item in value.items():
        if len(key) > MAX_NAME:
            raise AttributeFault(f"The name should have at most {MAX_NAME} characters.", *path, key)
        if type(item) is str:
            if len(item) > MAX_TEXT:
                raise AttributeFault(_TOO_LONG, *path, key)
        elif type(item) not in _FLAT:
            raise AttributeFault(
                "The attribute expected to be of type 'boolean, number, string or null'.", *path, key
            )


def attribute_types(attributes: Mapping[str, Any] | None) -> dict[str, str]:
    """Return the scalar type of each attribute that has one (checked attributes only)."""
    types: dict[str, str] = {}
    for name, value in (attributes or {}).items():
        # The items of a checked list have one type, so the first one speaks for all.
        item = (value[0] if value else None) if type(value) is list else value
        if item is not None:
            types[name] = _SCALAR_TYPES.get(type(item), "object")
    return types


def find_type_conflicts(types: Mapping[str, str], *stored: Mapping[str, str]) -> list[str]:
    """Return the attributes whose type differs from a registered type."""
    return [name for name, kind in types.items() if any(others.get(name, kind) != kind for others in stored)]

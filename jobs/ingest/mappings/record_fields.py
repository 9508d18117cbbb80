"""The fields of a noun, by type where types have different fields, and the closest name to a mistyped one."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from functools import cache
from typing import Any

from cluster.errors import Invalid
from cluster.records.validation.upload_schema import build_upload_schema

_ALIKE = 0.6
"Least similarity of a name that a message proposes."


@dataclass(frozen=True, slots=True)
class RecordFields:
    """The fields of users, products or interactions."""

    names: tuple[str, ...]
    "All fields, those that the schema requires first."
    by_type: Mapping[str, frozenset[str]]
    "Type of an interaction -> its fields; empty for users and products."
    choices: Mapping[str, tuple[str, ...]]
    "Field -> its values, for fields with a fixed list of values."

    def fields_of(self, kind: Any) -> frozenset[str] | None:
        """Return the fields of a type; None if fields do not depend on it, or it does not exist."""
        return self.by_type.get(kind) if isinstance(kind, str) else None

    @property
    def shared(self) -> frozenset[str]:
        """Return the fields that every type has."""
        return frozenset(self.names).intersection(*self.by_type.values())

    def check_field(self, name: str) -> None:
        """Check that a field exists.

        Errors:
            Invalid: it does not; the message proposes the closest name
        """
        if name not in self.names:
            raise Invalid(f"there is no field {name!r}{propose_name(name, self.names)}")

    def check_type(self, kind: str) -> None:
        """Check that a type exists, if records have types.

        Errors:
            Invalid: it does not; the message proposes the closest name
        """
        if self.by_type and kind not in self.by_type:
            hint = propose_name(kind, self.by_type)
            raise Invalid(f"there is no type {kind!r}{hint}; there are {', '.join(sorted(self.by_type))}")


def propose_name(name: str, names: Iterable[str]) -> str:
    """Return a question for the end of a message, `; did you mean NAME?`; empty if no name is close."""
    close_names = get_close_matches(name.lower(), sorted(names), 1, _ALIKE)
    return f"; did you mean {close_names[0]}?" if close_names else ""


@cache
def read_fields(noun: Any) -> RecordFields:
    """Return the fields of a noun from its schema."""
    schema = build_upload_schema(noun)["properties"]["data"]["items"]
    members = schema.get("oneOf") or schema.get("anyOf") or [schema]
    required = [name for member in members for name in member.get("required", ())]
    every = [name for member in members for name in member.get("properties", {})]
    by_type = {
        kind: frozenset(member["properties"])
        for member in (members if len(members) > 1 else ())
        for kind in _list_types(member["properties"].get("type", {}))
    }
    choices = {
        name: values
        for member in members
        for name, field in member.get("properties", {}).items()
        if len(values := tuple(_list_choices(field))) > 1
    }
    names = tuple(dict.fromkeys(required + every))
    return RecordFields(names, by_type, {**choices, "type": tuple(sorted(by_type))} if by_type else choices)


def _list_choices(field: Mapping[str, Any]) -> list[str]:
    return [value for option in (field, *field.get("anyOf", ())) for value in option.get("enum", ()) if value]


def _list_types(field: Mapping[str, Any]) -> list[str]:
    return list(field.get("enum", ())) or ([field["const"]] if "const" in field else [])

"""`kiosk ingest fields NOUN`: the fields of a record, the values of each, and which are required."""

from __future__ import annotations

import json
import sys
from typing import Any, Literal

from rich.console import Console
from rich.table import Table

from cluster.records.validation.upload_schema import build_upload_schema

Noun = Literal["user", "product", "interaction"]
_MOST_VALUES = 6


def show_fields(noun: Noun, *, as_json: bool) -> None:
    """Print the fields of a noun."""
    schema = build_upload_schema(noun)["properties"]["data"]["items"]
    fields = _list_fields(schema)
    if as_json:
        sys.stdout.write(json.dumps(fields) + "\n")
        return
    table = Table(box=None, pad_edge=False)
    for column in ("field", "takes", "required"):
        table.add_column(column, overflow="fold")
    for name, field in fields.items():
        table.add_row(name, field["takes"], field["required"])
    console = Console(highlight=False)
    console.print(table, markup=False)
    kinds = _list_types(schema)
    if kinds:
        console.print("one of user_id and anonymous_id is required")
        console.print("types: " + ", ".join(sorted(kinds)), markup=False)


def _list_fields(schema: dict[str, Any]) -> dict[str, dict[str, str]]:
    """Return the fields of a schema; for a union, those of all types, with the types that require each."""
    members = schema.get("oneOf") or schema.get("anyOf") or [schema]
    fields: dict[str, dict[str, str]] = {}
    needs: dict[str, list[str]] = {}
    for member in members:
        for name, field in member.get("properties", {}).items():
            fields.setdefault(name, {"takes": _describe_values(field), "required": ""})
        for name in member.get("required", ()):
            needs.setdefault(name, []).extend(_list_types(member))
    for name, kinds in needs.items():
        everywhere = len(members) == 1 or len(kinds) == len(_list_types(schema))
        fields[name]["required"] = "yes" if everywhere else "for " + ", ".join(sorted(kinds))
    if "type" in fields and len(members) > 1:
        fields["type"]["takes"] = "one of the types below"
    return fields


def _list_types(schema: dict[str, Any]) -> list[str]:
    """Return the values of `type` in a schema or in the members of a union."""
    types: list[str] = []
    for member in schema.get("oneOf") or schema.get("anyOf") or [schema]:
        field = member.get("properties", {}).get("type", {})
        types += field.get("enum", []) or ([field["const"]] if "const" in field else [])
    return types


def _describe_values(field: dict[str, Any]) -> str:
    """Return a short description of the values of a field."""
    if "enum" in field:
        values = field["enum"]
        more = ", ..." if len(values) > _MOST_VALUES else ""
        return "one of " + ", ".join(map(str, values[:_MOST_VALUES])) + more
    options = [
        option for option in field.get("anyOf", field.get("oneOf", ())) if option.get("type") != "null"
    ]
    if options:
        return " or ".join(dict.fromkeys(map(_describe_values, options)))
    kind = field.get("type", "text" if "format" in field else "anything")
    if kind == "array":
        return f"list of {_describe_values(field.get('items', {}))}"
    return f"{kind} ({field['format']})" if "format" in field else str(kind)

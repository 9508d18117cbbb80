"""Read the texts of the interface, and add them to JSON schemas."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

_FOLDER = Path(__file__).parent
_OWNERLESS = "any"


@dataclass(frozen=True, slots=True)
class Example:
    """A request to a prepared app, and its recorded reply."""

    operation: str
    path: Mapping[str, str]
    query: Mapping[str, str]
    body: Any
    status: int
    reply: Any


@dataclass(frozen=True, slots=True)
class OpenApiTexts:
    """All texts of the OpenAPI document except names and types."""

    info: str
    tags: Mapping[str, str]
    operations: Mapping[str, Mapping[str, str]]
    fields: Mapping[str, Mapping[str, str]]
    examples: tuple[Example, ...]
    refusals: Mapping[str, Example]
    "Model of a refusal -> a request that causes it."

    def find_field_text(self, owner: str, name: str) -> str:
        """Return the text of a field: of the model, of the similar model, or the text that all models share."""
        fields = self.fields
        alike = fields["like"].get(owner, "")
        for section in (owner, alike, _OWNERLESS):
            text = fields.get(section, {}).get(name)
            if text is not None:
                return text
        return ""

    def add_texts(self, schema: Any, owner: str) -> None:
        """Add the texts of all fields to a schema in place, and remove titles that only repeat the field names."""
        if isinstance(schema, list):
            for item in schema:
                self.add_texts(item, owner)
        if not isinstance(schema, dict):
            return
        for name, field in schema.get("properties", {}).items():
            if isinstance(field, dict):
                field.pop("title", None)
                if isinstance(field.get("default"), dict):
                    # Client generators accept no object as a default; the fields of the object have defaults.
                    del field["default"]
                text = self.find_field_text(owner, name)
                if text:
                    field.setdefault("description", text)
        for name, part in schema.items():
            if name == "properties":
                for field in part.values():
                    self.add_texts(field, owner)
            elif name not in ("default", "enum", "example", "examples"):
                self.add_texts(part, owner)


def read_texts() -> OpenApiTexts:
    """Return the texts from the data files. Cost: 15 ms, once for each document."""
    operations = tomllib.loads((_FOLDER / "operations.toml").read_text("utf-8"))
    fields = tomllib.loads((_FOLDER / "fields.toml").read_text("utf-8"))
    return OpenApiTexts(
        info=operations["info"]["description"].strip(),
        tags=operations["tags"],
        operations=operations["operations"],
        fields=fields,
        examples=read_examples(),
        refusals={entry["model"]: _example(entry) for entry in _read("refusals.json")},
    )


def read_examples() -> tuple[Example, ...]:
    """Return the examples in the order in which a client can send them."""
    return tuple(map(_example, _read("examples.json")))


def _read(name: str) -> list[dict[str, Any]]:
    entries: list[dict[str, Any]] = json.loads((_FOLDER / name).read_text("utf-8"))
    return entries


def _example(entry: Mapping[str, Any]) -> Example:
    return Example(
        operation=entry["operation"],
        path=entry.get("path", {}),
        query=entry.get("query", {}),
        body=entry.get("body"),
        status=entry.get("status", 200),
        reply=entry.get("reply"),
    )

"""Build JSON schemas of upload bodies, for readers of the API description and for tools that test the API."""

from __future__ import annotations

import sys
from functools import cache
from pathlib import Path
from typing import Any, Literal

from pydantic import TypeAdapter

from cluster.records.interaction import Interaction
from cluster.records.product import Product
from cluster.records.user import User
from cluster.records.validation.upload import MAX_RECORDS

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

_REF = "#/$defs/"
_TEXTS = Path(__file__).with_name("descriptions.toml")


@cache
def build_upload_schema(noun: Literal["user", "product", "interaction"]) -> dict[str, Any]:
    """Return the JSON schema of an upload body, the same object each time: copy it before a change.

    It has no references, so it can be embedded in a larger document.
    """
    kinds: dict[str, Any] = {"user": User, "product": Product, "interaction": Interaction}
    items = TypeAdapter(kinds[noun]).json_schema()
    definitions = items.pop("$defs", {})
    record = _inlined(items, definitions)
    _describe(record, _texts()[noun])
    return {
        "type": "object",
        "required": ["data"],
        "properties": {
            "data": {
                "type": "array",
                "maxItems": MAX_RECORDS,
                "items": record,
                "description": f"The {noun}s, at most {MAX_RECORDS:,}.",
            }
        },
    }


@cache
def _texts() -> dict[str, Any]:
    return tomllib.loads(_TEXTS.read_text("utf-8"))


def _describe(schema: Any, texts: dict[str, Any]) -> None:
    """Add the meaning of each field. A field that is an object may have a section for itself."""
    if isinstance(schema, list):
        for item in schema:
            _describe(item, texts)
    if not isinstance(schema, dict):
        return
    for name, part in schema.items():
        if name in ("properties", "patternProperties"):
            for field, described in part.items():
                below = texts.get(field)
                text = texts.get(f"_{field}", below)
                if isinstance(text, str):
                    described.setdefault("description", text)
                _describe(described, below if isinstance(below, dict) else texts)
        else:
            _describe(part, texts)


def _inlined(node: Any, definitions: dict[str, Any]) -> Any:
    """Replace references by definitions (no definition refers to itself) and leave out titles."""
    if isinstance(node, list):
        return [_inlined(item, definitions) for item in node]
    if not isinstance(node, dict):
        return node
    reference = node.get("$ref", "")
    if isinstance(reference, str) and reference.startswith(_REF):
        return _inlined(definitions[reference.removeprefix(_REF)], definitions)
    return {
        name: _kept(name, child, definitions) for name, child in node.items() if not _is_noise(name, child)
    }


def _kept(name: str, child: Any, definitions: dict[str, Any]) -> Any:
    if name in ("properties", "patternProperties"):
        # The keys here are names of fields: one that is called `title` is no keyword of JSON schema.
        return {key: _inlined(value, definitions) for key, value in child.items()}
    if name == "description" and isinstance(child, str):
        return child.split("\n\n")[0]
    return _inlined(child, definitions)


def _is_noise(name: str, child: Any) -> bool:
    return (
        name == "discriminator"
        or (name == "title" and isinstance(child, str))
        or (name, child) == ("default", None)
    )

"""REST: every operation of the OpenAPI document with one example request and reply."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlencode

from deployments.api.http.openapi import build_openapi
from docs.generate.markdown import quote_code, write_code, write_json, write_page, write_table
from tests.fakes.request_handler import open_corner

_VERSION = "0"
_METHODS = ("get", "post", "put", "patch", "delete")
_BY_TOKEN = [{"AdminToken": []}]
_SERVER = "http://127.0.0.1:8000"
_SHARED_BY = 4
"A field is listed once if at least this many bodies have it with the same type and text."
_MOST_VALUES = 30


def build_page() -> str:
    """Write the page of all operations."""
    document = build_document()
    bodies = BodyTables.from_document(document)
    operations = write_operations(document, bodies)
    return write_page(
        "REST", _introduce(document), [_write_security(document), *operations, *bodies.write_sections()]
    )


@dataclass(slots=True)
class BodyTables:
    """The fields of request bodies as tables.

    Fields that many bodies share, and objects within bodies, have a section each behind the operations.
    """

    schemas: Mapping[str, Any]
    shared: Mapping[str, tuple[str, str, str]]
    "Name of a shared field -> its row."
    _named: dict[str, None] = field(default_factory=dict)
    "Objects that a table refers to, in order."

    @classmethod
    def from_document(cls, document: Mapping[str, Any]) -> BodyTables:
        """Return the tables of an OpenAPI document."""
        schemas = document["components"]["schemas"]
        counts: Counter[tuple[str, str, str]] = Counter()
        for body in _list_bodies(document):
            counts.update(cls(schemas, {})._rows(cls._resolve(schemas, body)))
        common = [row for row, count in counts.most_common() if count >= _SHARED_BY]
        return cls(schemas, {row[0]: row for row in reversed(common)})

    def write_body(self, operation: Mapping[str, Any]) -> str:
        """Write the fields of the body of an operation; empty without a JSON object."""
        body = _body_of(operation)
        if body is None:
            return ""
        schema = self._resolve(self.schemas, body["schema"])
        if "properties" not in schema:
            return f"The body is {self._type(schema)}."
        return self._write_object(schema, "Body field")

    def write_sections(self) -> list[str]:
        """Write the sections of shared fields and of objects, after all bodies are written."""
        rows = [self.shared[name] for name in sorted(self.shared)]
        sections = [
            "## Fields that many bodies share { #shared-fields }\n\n"
            + write_table(("Body field", "Type", "Meaning"), rows)
        ]
        objects = ["## Objects in bodies { #objects }"]
        written: set[str] = set()
        for row in rows:
            self._note(row[1])
        while waiting := [name for name in self._named if name not in written]:
            for name in waiting:
                written.add(name)
                schema = self.schemas[name]
                about = schema.get("description", "").split("\n\n")[0]
                kinds = "" if "properties" in schema else f"One of: {self._type(schema)}."
                parts = (
                    f"### {name} {{ #object-{name.lower()} }}",
                    about,
                    kinds,
                    self._write_object(schema, "Field"),
                )
                objects.append("\n\n".join(part for part in parts if part))
        return [*sections, *objects]

    def _note(self, kind: str) -> None:
        for name in self.schemas:
            if f"#object-{name.lower()})" in kind:
                self._named.setdefault(name)

    @staticmethod
    def _resolve(schemas: Mapping[str, Any], schema: Mapping[str, Any]) -> Mapping[str, Any]:
        name = schema.get("$ref", "").rpartition("/")[2]
        return schemas[name] if name else schema

    def _write_object(self, schema: Mapping[str, Any], heading: str) -> str:
        rows, others = [], []
        for row in self._rows(schema):
            if self.shared.get(row[0]) == row:
                others.append(row[0])
            else:
                rows.append(row)
        more = f"[Shared fields](#shared-fields): {', '.join(others)}." if others else ""
        return "\n\n".join(part for part in (write_table((heading, "Type", "Meaning"), rows), more) if part)

    def _rows(self, schema: Mapping[str, Any]) -> Iterator[tuple[str, str, str]]:
        required = schema.get("required", ())
        for name, described in schema.get("properties", {}).items():
            kind = self._type(described) + (", required" if name in required else "")
            default = described.get("default")
            text = described.get("description", "")
            if default not in (None, "", [], {}):
                text += f" Default: `{json.dumps(default)}`."
            yield quote_code(name), kind, text.strip()

    def _type_of_part(self, name: str, schema: Mapping[str, Any]) -> str:
        """Describe a field of an object without a name: its name, and its own fields if it is such an object."""
        kind = self._type(schema)
        return f"{quote_code(name)} ({kind})" if "object with" in kind else quote_code(name)

    def _type(self, schema: Mapping[str, Any]) -> str:
        name = schema.get("$ref", "").rpartition("/")[2]
        if name:
            self._named.setdefault(name)
            return f"[{name}](#object-{name.lower()})"
        options = [one for one in schema.get("anyOf", schema.get("oneOf", ())) if one.get("type") != "null"]
        if options:
            return " or ".join(dict.fromkeys(map(self._type, options)))
        values = schema.get("enum", [schema["const"]] if "const" in schema else [])
        if values:
            return ", ".join(quote_code(json.dumps(value)) for value in values[:_MOST_VALUES])
        kind = schema.get("type", schema.get("format", "any"))
        if kind == "array":
            items = self._type(schema.get("items", {}))
            return f"array of ({items})" if " or " in items else f"array of {items}"
        values = schema.get("additionalProperties")
        if kind == "object" and isinstance(values, dict) and values:
            return f"object, each value: {self._type(values)}"
        if kind == "object" and "properties" in schema:
            parts = (self._type_of_part(name, part) for name, part in schema["properties"].items())
            return f"object with {', '.join(parts)}"
        least, most = schema.get("minimum"), schema.get("maximum")
        if least is None and most is None:
            return str(kind)
        return f"{kind}, {'' if least is None else least} to {'' if most is None else most}".rstrip()


def _list_bodies(document: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    for methods in document["paths"].values():
        for method, operation in methods.items():
            body = _body_of(operation) if method in _METHODS else None
            if body is not None:
                yield body["schema"]


def _body_of(operation: Mapping[str, Any]) -> Any:
    return operation.get("requestBody", {}).get("content", {}).get("application/json")


def write_operations(document: Mapping[str, Any], bodies: BodyTables | None = None) -> list[str]:
    """Write a section for each tag of an OpenAPI document, and one for each operation.

    With `bodies`, the section of an operation lists the fields of its body.
    """
    operations = [
        (method.upper(), path, operation)
        for path, methods in document["paths"].items()
        for method, operation in methods.items()
        if method in _METHODS
    ]
    sections: list[str] = []
    for tag in document["tags"]:
        own = [one for one in operations if tag["name"] in one[2]["tags"]]
        rows = [
            (f"[`{method} {path}`](#{_anchor(operation)})", operation["summary"])
            for method, path, operation in own
        ]
        sections.append(
            f"## {tag['name']}\n\n{tag['description']}\n\n{write_table(('Operation', 'Purpose'), rows)}"
        )
        sections += [_write_operation(*one, bodies) for one in own]
    return sections


def build_document() -> dict[str, Any]:
    """Build the OpenAPI document of an installation in this process."""
    return asyncio.run(_describe())


async def _describe() -> dict[str, Any]:
    corner = await open_corner()
    try:
        return build_openapi(corner.handler.endpoints, _VERSION)
    finally:
        await corner.close()


def _introduce(document: Mapping[str, Any]) -> str:
    return (
        f"{document['info']['description']}\n\n"
        "The running installation serves this as `/openapi.json`, and with the fields of replies as `/docs`. "
        "`/docs/try` sends requests from the browser. In the commands `$KEY` is the secret key of an app, and the "
        "address is that of an installation on your machine."
    )


def _write_security(document: Mapping[str, Any]) -> str:
    rows = [
        (f"`{name}`", scheme["description"])
        for name, scheme in document["components"]["securitySchemes"].items()
    ]
    return f"## Keys and tokens\n\n{write_table(('Scheme', 'Meaning'), rows)}"


def _write_operation(method: str, path: str, operation: Mapping[str, Any], bodies: BodyTables | None) -> str:
    parts = [f"### {method} {path} {{ #{_anchor(operation)} }}", operation["description"]]
    parts.append(write_table(("Parameter", "In", "Meaning"), _parameter_rows(operation)))
    parts.append(bodies.write_body(operation) if bodies is not None else "")
    body = _body_of(operation)
    parts.append(write_code(_write_command(method, path, operation, body), "bash"))
    for status, reply in operation["responses"].items():
        content = reply["content"].get("application/json", {})
        if "example" in content:
            parts.append(f"Reply, status {status}:\n\n{write_code(write_json(content['example']), 'json')}")
    return "\n\n".join(part for part in parts if part)


def _parameter_rows(operation: Mapping[str, Any]) -> list[tuple[str, str, str]]:
    return [
        (f"`{one['name']}`" + (" (required)" if one["required"] else ""), one["in"], one["description"])
        for one in operation["parameters"]
    ]


def _write_command(method: str, path: str, operation: Mapping[str, Any], body: Any) -> str:
    query = {}
    for parameter in operation["parameters"]:
        example = parameter.get("example")
        if example is not None and parameter["in"] == "path":
            path = path.replace(f"{{{parameter['name']}}}", str(example))
        elif example is not None and parameter["in"] == "query":
            query[parameter["name"]] = example
    address = f"{_SERVER}{path}" + (f"?{urlencode(query)}" if query else "")
    header = "Authorization: Bearer $TOKEN" if operation["security"] == _BY_TOKEN else "X-API-KEY: $KEY"
    command = f"curl -s -X {method} '{address}' -H \"{header}\""
    if "application/octet-stream" in operation.get("requestBody", {}).get("content", {}):
        return f"{command} --data-binary @FILE"
    if body is None or body.get("example") is None:
        return command
    text = write_json(body["example"]).replace("'", "'\\''")
    return f"{command} -d '{text}'"


def _anchor(operation: Mapping[str, Any]) -> str:
    return str(operation["operationId"]).replace(".", "-").replace("_", "-")

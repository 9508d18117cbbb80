"""REST: every operation of the OpenAPI document with one example request and reply."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any
from urllib.parse import urlencode

from deployments.api.http.openapi import build_openapi
from docs.generate.markdown import write_code, write_json, write_page, write_table
from tests.fakes.request_handler import open_corner

_VERSION = "0"
_METHODS = ("get", "post", "put", "patch", "delete")
_BY_TOKEN = [{"AdminToken": []}]
_SERVER = "http://127.0.0.1:8000"


def build_page() -> str:
    """Write the page of all operations."""
    document = build_document()
    return write_page("REST", _introduce(document), [_write_security(document), *write_operations(document)])


def write_operations(document: Mapping[str, Any]) -> list[str]:
    """Write a section for each tag of an OpenAPI document, and one for each operation."""
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
        sections += [_write_operation(*one) for one in own]
    return sections


def build_document() -> dict[str, Any]:
    """Build the OpenAPI document of an installation in this process."""
    return asyncio.run(_describe())


async def _describe() -> dict[str, Any]:
    corner = await open_corner()
    try:
        return build_openapi(corner.door.endpoints, _VERSION)
    finally:
        await corner.close()


def _introduce(document: Mapping[str, Any]) -> str:
    return (
        f"{document['info']['description']}\n\n"
        "The running installation serves this as `/openapi.json`, and with every field as `/docs`. `/docs/try` sends "
        "requests from the browser. In the commands `$KEY` is the secret key of an app, and the address is that of an "
        "installation on your machine."
    )


def _write_security(document: Mapping[str, Any]) -> str:
    rows = [
        (f"`{name}`", scheme["description"])
        for name, scheme in document["components"]["securitySchemes"].items()
    ]
    return f"## Keys and tokens\n\n{write_table(('Scheme', 'Meaning'), rows)}"


def _write_operation(method: str, path: str, operation: Mapping[str, Any]) -> str:
    parts = [f"### {method} {path} {{ #{_anchor(operation)} }}", operation["description"]]
    parts.append(write_table(("Parameter", "In", "Meaning"), _parameter_rows(operation)))
    body = operation.get("requestBody", {}).get("content", {}).get("application/json")
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

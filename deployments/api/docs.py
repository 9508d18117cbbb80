"""The page people read at /docs: the OpenAPI document as plain HTML, complete without a network."""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Iterator
from html import escape
from typing import Any

_STYLE = """
body{font:15px/1.5 system-ui,sans-serif;margin:2rem auto;max-width:62rem;padding:0 1rem;color:#222;background:#fff}
h2{margin-top:2.5rem;border-bottom:1px solid #ddd}summary{cursor:pointer;padding:.4rem 0}
code,pre{font:13px/1.4 ui-monospace,monospace}pre{background:#f6f6f6;padding:.8rem;overflow:auto;max-height:26rem}
.m{display:inline-block;width:4.5rem;font-weight:700}.GET{color:#06c}.POST{color:#080}.DELETE{color:#b00}
table{border-collapse:collapse}td,th{padding:.2rem .8rem .2rem 0;text-align:left;vertical-align:top}
@media(prefers-color-scheme:dark){body{background:#161616;color:#ddd}pre{background:#222}h2{border-color:#333}}
"""

_STYLE_HASH = base64.b64encode(hashlib.sha256(_STYLE.encode()).digest()).decode()
HEADERS = {
    "content-security-policy": f"default-src 'none'; style-src 'sha256-{_STYLE_HASH}'; base-uri 'none'; "
    "form-action 'none'; frame-ancestors 'none'",
    "x-frame-options": "DENY",
    "referrer-policy": "no-referrer",
    "x-content-type-options": "nosniff",
    "cache-control": "public, max-age=300",
}
"The page loads nothing and runs nothing; it holds nobody's data."


def page(document: dict[str, Any]) -> bytes:
    """Write the page."""
    title = escape(f"{document['info']['title']} {document['info']['version']}")
    return "".join(
        (
            f'<!doctype html><html lang="en"><head><meta charset="utf-8"><title>{title}</title>',
            f"<style>{_STYLE}</style></head><body><h1>{title}</h1>",
            '<p>The same as a document for tools: <a href="openapi.json">openapi.json</a>.</p>',
            *_keys(document["components"]["securitySchemes"]),
            *_groups(document["paths"]),
            *_schemas(document["components"]["schemas"]),
            "</body></html>",
        )
    ).encode()


def _keys(schemes: dict[str, Any]) -> Iterator[str]:
    yield "<h2>Keys</h2><table>"
    for scheme in schemes.values():
        place = f"{scheme['in']} {scheme['name']}" if "in" in scheme else "header Authorization: Bearer"
        yield f"<tr><td><code>{escape(place)}</code></td><td>{escape(scheme['description'])}</td></tr>"
    yield "</table>"


def _groups(paths: dict[str, Any]) -> Iterator[str]:
    tag = ""
    for path, operations in paths.items():
        for method, operation in operations.items():
            if operation["tags"][0] != tag:
                tag = operation["tags"][0]
                yield f"<h2>{escape(tag)}</h2>"
            yield from _operation(method.upper(), path, operation)


def _operation(method: str, path: str, operation: dict[str, Any]) -> Iterator[str]:
    head = f'<span class="m {method}">{method}</span><code>{escape(path)}</code>'
    yield f'<details id="{escape(operation["operationId"])}"><summary>{head} {escape(operation["summary"])}</summary>'
    if operation["parameters"]:
        yield "<table>"
        for given in operation["parameters"]:
            need = "required" if given["required"] else "optional"
            yield f"<tr><td><code>{escape(given['name'])}</code></td><td>{given['in']}, {need}</td></tr>"
        yield "</table>"
    if "requestBody" in operation:
        yield "<p>Body</p>" + _json(operation["requestBody"]["content"]["application/json"]["schema"])
    yield "<table>"
    for status, reply in operation["responses"].items():
        schema = reply["content"]["application/json"]["schema"]
        link = _link(schema) or "see openapi.json"
        yield f"<tr><th>{status}</th><td>{escape(reply['description'])}</td><td>{link}</td></tr>"
    yield "</table></details>"


def _schemas(schemas: dict[str, Any]) -> Iterator[str]:
    yield "<h2>Schemas</h2>"
    for name, schema in schemas.items():
        yield f'<details id="schema-{escape(name)}"><summary><code>{escape(name)}</code></summary>'
        yield _json(schema) + "</details>"


def _link(schema: dict[str, Any]) -> str:
    name = schema.get("$ref", "").rpartition("/")[2]
    return f'<a href="#schema-{escape(name)}"><code>{escape(name)}</code></a>' if name else ""


def _json(value: Any) -> str:
    return _link(value) or f"<pre>{escape(json.dumps(value, indent=1))}</pre>"

"""The pages at /docs: the OpenAPI document as HTML that needs no network, with a side bar, search and programs to copy.

`/docs` has the API, `/docs/administration` the administration over HTTP. Without its script a page shows the same, with
curl only. Fields of nearly every body are listed once, under "Fields that many bodies share", and so are
parameters and meanings of statuses that many operations share.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from html import escape
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlencode

from deployments.api.http.html_pages import STYLE, page_headers, render_inline, render_page, render_prose

_SCRIPT = re.sub(r"\n\s+", "\n", Path(__file__).with_name("docs.js").read_text("utf-8"))
_STYLE = (
    STYLE
    + """
body{max-width:82rem}#side{font-size:.9rem}#side ul{list-style:none;margin:.2rem 0 .8rem;padding:0 0 0 .6rem}
#side li{margin:.15rem 0;overflow-wrap:anywhere}#side a{white-space:normal;margin:0}#side .group>a{font-weight:600}
#tools{margin:.6rem 0}[hidden]{display:none!important}.bar{display:flex;gap:.3rem;margin:.3rem 0 -.3rem}
.bar button{margin:0;padding:.15rem .6rem;font-size:.8rem}.bar button:last-child{margin-left:auto}
.bar [aria-selected=true]{font-weight:700}summary{scroll-margin-top:1rem}
@media(min-width:900px){body{display:grid;grid-template-columns:17rem minmax(0,1fr);gap:2.5rem}
#side{position:sticky;top:1rem;align-self:start;max-height:calc(100vh - 2rem);overflow:auto}}
@media(max-width:899px){#side ul{display:none}#side.finding ul{display:block}#side .group{display:inline-block;
margin-right:.9rem}#side.finding .group{display:block}}
"""
)
HEADERS = page_headers(_STYLE, _SCRIPT, connects=False)
ADMINISTRATION = "administration: "
"Beginning of the tags on the page of the administration."
_REFERENCE = re.compile(r"#/components/schemas/([^\"]+)")
_MOST_VALUES = 12
_LINE = 96
_MEANING_SHARED_BY = 20
_SHARED_BY = 3
"A field is listed once if at least this many models have it with the same type and text."
_EVERYWHERE = ("400", "401", "403", "409", "413", "429", "500", "503")

Fields = dict[str, str]
Statuses = dict[str, list[str]]


def render_docs(document: dict[str, Any], *, administration: bool = False) -> bytes:
    """Return the page of the API, or that of the administration, as HTML."""
    has_both = any(tag["name"].startswith(ADMINISTRATION) for tag in document["tags"])
    document = _select(document, administration)
    root = "../" if administration else ""
    title = f"{document['info']['title']} {document['info']['version']}"
    separate = _separate(document)
    schemas = document["components"]["schemas"]
    shared = _shared_fields(schemas, document["paths"])
    statuses = _shared_statuses(document["paths"])
    other = ("../docs", "API") if administration else ("docs/administration", "Administration")
    links = [
        (f"{root}docs/try", "Try it"),
        (f"{root}openapi.json", "openapi.json"),
        *([other] if has_both else ()),
    ]
    heading = f"{title}: administration" if administration else title
    parts = (
        *_side_bar(document, links),
        f"<main><h1>{escape(heading)}</h1>",
        render_prose(document["info"]["description"]) if not administration else render_prose(_ABOUT),
        *_keys(document["components"]["securitySchemes"]),
        "<h2>Use the examples</h2>",
        "<pre>export URL=localhost:8000\nexport KEY=...   # the secret key of the app development</pre>",
        *_groups(document, shared, statuses, separate, root),
        *_statuses(statuses),
        *_refusals(schemas),
        '<h2 id="shared">Fields that many bodies share</h2><table>',
        *(f'<tr id="f-{escape(name)}">{row}' for name, row in sorted(shared.items())),
        "</table>",
        *_schemas({name: schemas[name] for name in separate}, shared),
        "</main>",
    )
    return render_page(heading, "".join(parts), _SCRIPT, _STYLE, root=root or "./")


_ABOUT = (
    "The administration over HTTP, for programs of operators. The console and `kiosk` perform the same operations. "
    "Create a token with `kiosk tokens create`."
)


def _select(document: dict[str, Any], administration: bool) -> dict[str, Any]:
    """Return the part of a document that one page shows, with the schemas that it refers to."""

    def belongs(tag: str) -> bool:
        return tag.startswith(ADMINISTRATION) == administration

    paths: dict[str, Any] = {}
    for path, methods in document["paths"].items():
        kept = {name: operation for name, operation in methods.items() if belongs(operation["tags"][0])}
        if kept:
            paths[path] = kept
    schemas = document["components"]["schemas"]
    kept_schemas = set[str]()
    waiting = set(_REFERENCE.findall(json.dumps(paths)))
    while waiting:
        name = waiting.pop()
        if name not in kept_schemas and name in schemas:
            kept_schemas.add(name)
            waiting.update(_REFERENCE.findall(json.dumps(schemas[name])))
    schemes = {
        name
        for operations in paths.values()
        for operation in operations.values()
        for way in operation["security"]
        for name in way
    }
    components = document["components"]
    return {
        **document,
        "paths": paths,
        "tags": [tag for tag in document["tags"] if belongs(tag["name"])],
        "components": {
            "schemas": {name: schema for name, schema in schemas.items() if name in kept_schemas},
            "securitySchemes": {
                name: scheme for name, scheme in components["securitySchemes"].items() if name in schemes
            },
        },
    }


def _side_bar(document: dict[str, Any], links: Sequence[tuple[str, str]]) -> Iterator[str]:
    """Return the contents: pages, a field to search, and groups, to which the script adds their operations."""
    yield '<nav id="side">'
    yield " ".join(f'<a href="{address}">{text}</a>' for address, text in links)
    yield '<div id="tools" hidden><label for="find">Search</label><input id="find" type="search" autocomplete="off" '
    yield 'placeholder="Press / to search"><small id="found" role="status"></small></div>'
    for tag in document["tags"]:
        name = tag["name"].removeprefix(ADMINISTRATION)
        yield f'<div class="group"><a href="#{_anchor(tag["name"])}">{escape(name)}</a></div>'
    yield '<div class="group"><a href="#shared">Shared fields</a></div>'
    yield '<div class="group"><a href="#schemas">Schemas</a></div></nav>'


def _keys(schemes: dict[str, Any]) -> Iterator[str]:
    yield "<h2>Keys</h2><table>"
    for scheme in schemes.values():
        place = f"{scheme['in']} {scheme['name']}" if "in" in scheme else "header Authorization: Bearer"
        yield f"<tr><td><code>{escape(place)}</code></td><td>{render_inline(scheme['description'])}</td></tr>"
    yield "</table>"


def _groups(
    document: dict[str, Any], shared: Fields, statuses: Statuses, separate: Sequence[str], root: str
) -> Iterator[str]:
    schemas = document["components"]["schemas"]
    for tag in document["tags"]:
        yield f'<h2 id="{_anchor(tag["name"])}">{escape(tag["name"])}</h2>{render_prose(tag["description"])}'
        for path, operations in document["paths"].items():
            for method, operation in operations.items():
                if operation["tags"][0] == tag["name"]:
                    body = _body_model(operation)
                    mark = "" if not body or body in separate else f' id="schema-{body}"'
                    yield from _operation(
                        method.upper(), path, operation, shared, statuses, schemas, mark, root
                    )


def _operation(
    method: str,
    path: str,
    operation: dict[str, Any],
    shared: Fields,
    statuses: Statuses,
    schemas: dict[str, Any],
    mark: str,
    root: str,
) -> Iterator[str]:
    name = escape(operation["operationId"])
    head = f'<span class="m">{method}</span><code>{escape(path)}</code>'
    yield f'<details id="{name}"><summary>{head} {escape(operation["summary"])}</summary>'
    yield render_prose(operation["description"])
    yield _rows_and_links(
        {given["name"]: _parameter_cells(given) for given in operation["parameters"]}, shared
    )
    body = operation.get("requestBody", {}).get("content", {}).get("application/json", {})
    if body:
        table = _table(schemas.get(_body_model(operation), body["schema"]), shared)
        yield f"<h3{mark}>Body</h3>{table}"
    yield f"<h3>Example</h3><pre>{escape(render_curl(method, path, operation), quote=False)}</pre>"
    for status, reply in operation["responses"].items():
        content = reply["content"].get("application/json", {})
        if "example" in content:
            text = render_json(content["example"])
            kind = _type(_data_of(content["schema"], schemas))
            yield f"<h3>{status}: {kind}</h3><pre>{escape(text, quote=False)}</pre>"
    yield "<table>"
    for status, reply in operation["responses"].items():
        if status != "200" and reply["description"] not in statuses.get(status, ()):
            yield f"<tr><td>{status}<td>{render_inline(reply['description'])}"
    yield f'</table><p><a href="{root}docs/try#{name}">Try it</a></p></details>'


def render_curl(method: str, path: str, operation: Mapping[str, Any]) -> str:
    """Return the example of an operation as a curl command."""
    address = _example_address(path, operation)
    body = operation.get("requestBody", {}).get("content", {}).get("application/json", {}).get("example")
    usual = "GET" if body is None else "POST"
    words = [
        "curl -s",
        *([] if method == usual else [f"-X {method}"]),
        f'"$URL{address}" {_key_header(operation)}',
    ]
    if body is not None:
        text = render_json(body).replace("'", "'\\''")
        words.append(f"-d '{text}'")
    elif "application/octet-stream" in operation.get("requestBody", {}).get("content", {}):
        words.append("--data-binary @FILE")
    return " ".join(words)


def _example_address(path: str, operation: Mapping[str, Any]) -> str:
    """Return path and query of the example of an operation."""
    query = {}
    for given in operation["parameters"]:
        if given["in"] == "path":
            path = path.replace(f"{{{given['name']}}}", quote(str(given.get("example", "")), safe=""))
        elif given["in"] == "query" and "example" in given:
            query[given["name"]] = given["example"]
    return path + (f"?{urlencode(query)}" if query else "")


def _needs_token(operation: Mapping[str, Any]) -> bool:
    ways = operation.get("security", ())
    return any({"AdminToken", "ArchiveToken"} & set(way) for way in ways)


def _key_header(operation: Mapping[str, Any]) -> str:
    return '-H "Authorization: Bearer $TOKEN"' if _needs_token(operation) else '-H "X-API-KEY: $KEY"'


def render_json(value: Any, indent: str = "") -> str:
    """Return JSON with short values on one line."""
    flat = json.dumps(value, ensure_ascii=False)
    if not value or not isinstance(value, dict | list) or len(indent) + len(flat) <= _LINE:
        return flat
    inner = indent + "  "
    if isinstance(value, dict):
        parts = [f"{json.dumps(name)}: {render_json(item, inner)}" for name, item in value.items()]
        return "{\n" + ",\n".join(inner + part for part in parts) + f"\n{indent}}}"
    return "[\n" + ",\n".join(inner + render_json(item, inner) for item in value) + f"\n{indent}]"


def _shared_statuses(paths: dict[str, Any]) -> Statuses:
    """Return meanings that are stated once: all of frequent statuses, and those that many operations share."""
    counts: dict[str, Counter[str]] = {}
    for operations in paths.values():
        for operation in operations.values():
            for status, reply in operation["responses"].items():
                counts.setdefault(status, Counter())[reply["description"]] += 1
    shared = {
        status: [
            text for text, count in texts.items() if status in _EVERYWHERE or count >= _MEANING_SHARED_BY
        ]
        for status, texts in sorted(counts.items())
        if status != "200"
    }
    return {status: texts for status, texts in shared.items() if texts}


def _statuses(statuses: Statuses) -> Iterator[str]:
    yield "<h2>Statuses that many operations share</h2><table>"
    for status, texts in statuses.items():
        yield f"<tr><td>{status}<td>{'<br>'.join(map(render_inline, texts))}"
    yield "</table>"


def _separate(document: dict[str, Any]) -> list[str]:
    """Return schemas with a section each: neither the body of one operation nor a reply envelope."""
    schemas = document["components"]["schemas"]
    bodies = Counter[str]()
    replies = Counter[str]()
    members = set[str]()
    for operations in document["paths"].values():
        for operation in operations.values():
            if body := _body_model(operation):
                bodies[body] += 1
            for reply in operation["responses"].values():
                schema = reply["content"].get("application/json", {}).get("schema", {})
                replies[_model(schema)] += 1
                members.update(map(_model, schema.get("anyOf", ())))
    return [
        name
        for name, schema in schemas.items()
        if bodies[name] != 1 and (name in members or not replies[name] or not _is_envelope(schema))
    ]


def _body_model(operation: dict[str, Any]) -> str:
    """Return the name of the schema of a JSON body; empty without one."""
    content = operation.get("requestBody", {}).get("content", {}).get("application/json")
    return "" if content is None else _model(content["schema"])


def _is_envelope(schema: dict[str, Any]) -> bool:
    is_pair = set(schema.get("properties", ())) == {"message", "data"} and "examples" not in schema
    return is_pair and "$ref" in schema["properties"]["data"]


def _data_of(schema: dict[str, Any], schemas: dict[str, Any]) -> dict[str, Any]:
    """Return the schema of `data` in a reply envelope."""
    model = schemas.get(_model(schema), {})
    data: dict[str, Any] = model["properties"]["data"] if _is_envelope(model) else schema
    return data


def _model(schema: dict[str, Any]) -> str:
    name: str = schema.get("$ref", "").rpartition("/")[2]
    return name


def _refusals(schemas: dict[str, Any]) -> Iterator[str]:
    """Return an example of each shape of an error reply."""
    yield "<h2>Shapes of refusals</h2>"
    for name, schema in schemas.items():
        for example in schema.get("examples", ()):
            kind = _type({"$ref": name})
            text = escape(render_json(example), quote=False)
            yield f"<h3>{kind}</h3>{render_prose(schema['description'])}<pre>{text}</pre>"


def _schemas(schemas: dict[str, Any], shared: Fields) -> Iterator[str]:
    yield '<h2 id="schemas">Schemas</h2>'
    for name, schema in schemas.items():
        text = schema.get("description", "").split("\n\n")[0]
        yield f'<details id="schema-{escape(name)}"><summary><code>{escape(name)}</code></summary>{render_prose(text)}'
        yield _table(schema, shared) or f"<p>{_type(schema)}</p>"
        yield "</details>"


def _table(schema: dict[str, Any], shared: Fields) -> str:
    """Return a table of an object's fields; shared fields appear by name only."""
    required = schema.get("required", ())
    fields = schema.get("properties", {})
    return _rows_and_links(
        {name: _cells(name, field, name in required) for name, field in fields.items()}, shared
    )


def _rows_and_links(fields: Fields, shared: Fields) -> str:
    """Return a table of fields of an operation, and links to those that are shared."""
    others = [
        f'<a href="#f-{escape(name)}">{escape(name)}</a>'
        for name in fields
        if fields[name] == shared.get(name)
    ]
    rows = [f"<tr>{cells}" for name, cells in fields.items() if cells != shared.get(name)]
    more = f"<p>Shared fields: {', '.join(others)}.</p>" if others else ""
    return (f"<table>{''.join(rows)}</table>" if rows else "") + more


def _shared_fields(schemas: dict[str, Any], paths: dict[str, Any]) -> Fields:
    """Return the fields and parameters that many models and operations have with the same type and text."""
    counts: Counter[tuple[str, str]] = Counter()
    for operations in paths.values():
        for operation in operations.values():
            counts.update((given["name"], _parameter_cells(given)) for given in operation["parameters"])
    for schema in schemas.values():
        required = schema.get("required", ())
        for name, field in schema.get("properties", {}).items():
            counts[name, _cells(name, field, name in required)] += 1
    shared: Fields = {}
    for (name, cells), count in counts.most_common():
        if count >= _SHARED_BY:
            shared.setdefault(name, cells)
    return shared


def _cells(name: str, field: dict[str, Any], is_required: bool) -> str:
    text = field.get("description", "")
    default = field.get("default")
    if default not in (None, "", [], {}):
        text += f" Default: `{json.dumps(default)}`."
    return _row(name, _type(field) + (", required" if is_required else ""), text)


def _parameter_cells(given: dict[str, Any]) -> str:
    return _row(
        given["name"], given["in"] + ("" if given["required"] else ", optional"), given["description"]
    )


def _row(name: str, kind: str, text: str) -> str:
    # HTML allows to omit the end tags of cells and rows, and the page has about a thousand of them.
    return f"<td><code>{escape(name)}</code><td>{kind}<td>{render_inline(text)}"


def _type(schema: dict[str, Any]) -> str:
    """Return a short description of a type, as HTML."""
    name = _model(schema)
    if name:
        return f'<a href="#schema-{escape(name)}">{escape(name)}</a>'
    options = [
        option for option in schema.get("anyOf", schema.get("oneOf", ())) if option.get("type") != "null"
    ]
    if options:
        return " or ".join(dict.fromkeys(map(_type, options)))
    values = schema.get("enum", [schema["const"]] if "const" in schema else [])
    if values:
        more = ", ..." if len(values) > _MOST_VALUES else ""
        return ", ".join(escape(json.dumps(value), quote=False) for value in values[:_MOST_VALUES]) + more
    kind = schema.get("type", schema.get("format", "any"))
    if kind == "array":
        return f"{_type(schema.get('items', {}))}[]"
    least = schema.get("minimum")
    most = schema.get("maximum")
    if least is None and most is None:
        return escape(str(kind))
    return escape(f"{kind} {'' if least is None else least}..{'' if most is None else most}")


def _anchor(tag: str) -> str:
    return "tag-" + tag.lower().replace(" ", "-")

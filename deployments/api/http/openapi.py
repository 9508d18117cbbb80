"""The OpenAPI document, made from the table of endpoints and the texts in `reference/`."""

from __future__ import annotations

from copy import deepcopy
from typing import Any, Literal, get_args

from pydantic import BaseModel, TypeAdapter

from cluster.records.interaction import Interaction
from cluster.records.validation.schema import record_schema
from deployments.api.http.endpoint import Endpoint
from deployments.api.http.openapi_texts import describe_keys, describe_status, list_security
from deployments.api.reference.openapi_reference import Example, OpenApiTexts, read_texts
from deployments.api.wire import records as wire
from deployments.api.wire.experiments import RefusedEvent
from deployments.edge import idempotency
from deployments.edge.errors import Family

TITLE = "Kiosk"
_REF = "#/components/schemas/{model}"
_EVERYWHERE = (401, 403, 429, 500, 503)
_REFUSALS: dict[Family, Any] = {
    "message": wire.Detail,
    "detail": wire.Detail,
    "upload": wire.RefusedUpload,
    "experiments": RefusedEvent,
}
_SECURITY: dict[str, Any] = {
    "SecretKey": {
        "type": "apiKey",
        "in": "header",
        "name": "X-API-KEY",
        "description": "The secret key of an app, for servers only: it may do everything. Never send it to a browser.",
    },
    "PublishableKey": {
        "type": "apiKey",
        "in": "query",
        "name": "api_key",
        "description": "The publishable key of an app, for browsers. It works in the header `X-API-KEY`, too, "
        "which keeps it out of the access logs of proxies.",
    },
    "ReaderToken": {
        "type": "http",
        "scheme": "bearer",
        "bearerFormat": "JWT",
        "description": "A JWT (HS256, signed with the secret key) that names a signed-in user in the claim "
        "`user_id` or `sub`. It stands beside a key.",
    },
}
_RETRY_AFTER = {
    "Retry-After": {"description": "Seconds to wait.", "schema": {"type": "integer", "minimum": 1}}
}


def build_openapi(endpoints: tuple[Endpoint, ...], version: str) -> dict[str, Any]:
    """Build the document. Cost: half a second, once for each process."""
    texts = read_texts()
    # An operation that is played twice shows its first example.
    examples = {example.operation: example for example in reversed(texts.examples)}
    schemas: dict[str, Any] = {}
    paths: dict[str, dict[str, Any]] = {}
    tags: dict[str, None] = {}
    for endpoint in endpoints:
        tags[endpoint.about.tag] = None
        operation = _operation(endpoint, schemas, texts, examples.get(endpoint.name))
        paths.setdefault(endpoint.path, {})[endpoint.method.lower()] = operation
    _name_records(paths, schemas)
    for name, schema in schemas.items():
        texts.add_texts(schema, name)
        if name in texts.refusals:
            schema["examples"] = [texts.refusals[name].reply]
    return {
        "openapi": "3.1.0",
        "info": {"title": TITLE, "version": version, "description": texts.info},
        "servers": [{"url": "/", "description": "This installation."}],
        "tags": [
            {"name": tag, "description": texts.tags.get(tag, "")}
            for tag in [
                *(tag for tag in texts.tags if tag in tags),
                *(tag for tag in tags if tag not in texts.tags),
            ]
        ],
        "paths": paths,
        "components": {"schemas": dict(sorted(schemas.items())), "securitySchemes": _SECURITY},
    }


def _operation(
    endpoint: Endpoint, schemas: dict[str, Any], texts: OpenApiTexts, example: Example | None
) -> dict[str, Any]:
    about = endpoint.about
    text = texts.operations.get(endpoint.name, {}).get("description", "")
    operation: dict[str, Any] = {
        "operationId": endpoint.name,
        "summary": about.summary,
        "description": f"{text}\n\n{describe_keys(endpoint)}".strip(),
        "tags": [about.tag],
        "security": list_security(endpoint),
        "parameters": _parameters(endpoint, texts, example),
        "responses": _responses(endpoint, schemas, texts, example),
    }
    if about.body is not None:
        schema = _schema(about.body, schemas, "validation")
        texts.add_texts(schema, endpoint.name)
        content: dict[str, Any] = {"schema": schema}
        if example is not None:
            content["example"] = example.body
        operation["requestBody"] = {"required": True, "content": {"application/json": content}}
    return operation


def _parameters(endpoint: Endpoint, texts: OpenApiTexts, example: Example | None) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    _, brace, rest = endpoint.path.partition("{")
    if brace:
        name = rest.partition("}")[0]
        schema: dict[str, Any] = {"type": "string", "minLength": 1, "maxLength": 512}
        found.append({"name": name, "in": "path", "required": True, "schema": schema})
    for name, described in endpoint.about.query.items():
        schema = {key: value for key, value in described.items() if key not in ("x-required", "description")}
        required = bool(described.get("x-required"))
        found.append({"name": name, "in": "query", "required": required, "schema": schema})
    if endpoint.rules.writes:
        name = idempotency.HEADER.decode().title()
        schema = {"type": "string", "minLength": 1, "maxLength": 255, "pattern": "^[!-~]+$"}
        found.append({"name": name, "in": "header", "required": False, "schema": schema})
    given = {**example.path, **example.query} if example is not None else {}
    for parameter in found:
        place, name = parameter["in"], parameter["name"]
        parameter["description"] = texts.fields[place].get(name, "")
        if place != "header" and name in given:
            parameter["example"] = given[name]
    return found


def _responses(
    endpoint: Endpoint, schemas: dict[str, Any], texts: OpenApiTexts, example: Example | None
) -> dict[str, Any]:
    rules = endpoint.rules
    replies: dict[int, Any] = dict.fromkeys(_EVERYWHERE, wire.MessageReply)
    if rules.writes or rules.body != "ignored":
        replies |= {400: wire.MessageReply}
    if rules.body != "ignored":
        replies |= {413: wire.MessageReply}
    if rules.writes:
        replies |= {409: wire.MessageReply}
    if rules.writes or endpoint.schema is not None:
        replies |= {422: _REFUSALS[endpoint.family]}
    replies |= dict(endpoint.about.replies)
    missing = texts.operations.get(endpoint.name, {}).get("missing", "")
    found: dict[str, Any] = {}
    for status, model in sorted(replies.items()):
        schema = _schema(model, schemas, "serialization")
        content: dict[str, Any] = {"schema": schema}
        if example is not None and example.status == status:
            content["example"] = example.reply
        found[str(status)] = {
            "description": describe_status(status, endpoint, missing),
            "content": {"application/json": content},
        }
        if status in (429, 503):
            found[str(status)]["headers"] = _RETRY_AFTER
    return found


def _schema(model: Any, schemas: dict[str, Any], mode: Any) -> dict[str, Any]:
    """Describe a model by reference, a union by its members, a ready schema as it is."""
    if isinstance(model, dict):
        ready = deepcopy(model)
        schemas.update(ready.pop("$defs", {}))
        return ready
    found = TypeAdapter(model).json_schema(ref_template=_REF, mode=mode)
    schemas.update(found.pop("$defs", {}))
    if isinstance(model, type) and issubclass(model, BaseModel) and "$ref" not in found:
        schemas[model.__name__] = found
        return {"$ref": _REF.format(model=model.__name__)}
    return found


_NOUNS: tuple[Literal["user", "product", "interaction"], ...] = ("user", "product", "interaction")


def _name_records(paths: dict[str, dict[str, Any]], schemas: dict[str, Any]) -> None:
    """Give records, and the kinds of interactions, schemas of their own, where uploads and simulations refer to."""
    for noun in _NOUNS:
        name = noun.capitalize()
        upload = record_schema(noun)
        schemas[name] = upload["properties"]["data"]["items"]
        upload["properties"]["data"]["items"] = {"$ref": _REF.format(model=name)}
        content = paths[f"/v1/{noun}s"]["post"]["requestBody"]["content"]["application/json"]
        schemas[f"{name}Upload"] = {**upload, "description": f"The {noun}s to store."}
        content["schema"] = {"$ref": _REF.format(model=f"{name}Upload")}
    kinds = [kind.__name__ for kind in get_args(get_args(Interaction)[0])]
    members = schemas["Interaction"]["oneOf"]
    for at, (kind, member) in enumerate(zip(kinds, members, strict=True)):
        schemas["InteractionContext"] = _context_of(member)
        schemas[f"{kind}Interaction"] = member
        members[at] = {"$ref": _REF.format(model=f"{kind}Interaction")}
    schemas["Interaction"]["description"] = "What a user did. Its `type` decides which fields it may have."
    for schema in schemas.values():
        field = schema.get("properties", {}).get("additional_interactions")
        if field is not None:
            field["anyOf"][0]["items"] = {"$ref": _REF.format(model="Interaction")}


def _context_of(interaction: dict[str, Any]) -> dict[str, Any]:
    """Take the schema of `context` out of an interaction and leave a reference."""
    options = interaction["properties"]["context"]["anyOf"]
    at = next(at for at, option in enumerate(options) if option.get("type") == "object")
    context: dict[str, Any] = options[at]
    options[at] = {"$ref": _REF.format(model="InteractionContext")}
    return context

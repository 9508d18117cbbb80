"""The OpenAPI document, made from the table of endpoints and nothing else."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel, TypeAdapter

from cluster.records.schema import record_schema
from deployments.api.endpoint import Endpoint
from deployments.api.wire import records as wire
from deployments.api.wire.experiments import RefusedEvent
from deployments.edge import idempotency
from deployments.edge.errors import Family

TITLE = "Kiosk"
_REF = "#/components/schemas/{model}"

_EVERYWHERE: dict[int, str] = {
    401: "No valid key, or a reader token or user_hash that is not valid.",
    403: "The publishable key may not do this, or the request looks automated.",
    429: "Over the rate limit, or the service is overloaded; see Retry-After.",
    500: "A fault on our side.",
    503: "A part is away or starts; see Retry-After.",
}
_MEANINGS = {200: "Success.", 404: "Unknown id, engine or field.", **_EVERYWHERE}
_REFUSALS: dict[Family, Any] = {
    "message": wire.Detail,
    "detail": wire.Detail,
    "upload": wire.RefusedUpload,
    "experiments": RefusedEvent,
}


def describe(endpoints: tuple[Endpoint, ...], version: str) -> dict[str, Any]:
    """Build the document."""
    schemas: dict[str, Any] = {}
    paths: dict[str, dict[str, Any]] = {}
    for endpoint in endpoints:
        paths.setdefault(endpoint.path, {})[endpoint.method.lower()] = _operation(endpoint, schemas)
    _name_interactions(schemas)
    return {
        "openapi": "3.1.0",
        "info": {"title": TITLE, "version": version},
        "paths": paths,
        "components": {"schemas": dict(sorted(schemas.items())), "securitySchemes": _SECURITY},
    }


_SECURITY: dict[str, Any] = {
    "SecretKey": {"type": "apiKey", "in": "header", "name": "X-API-KEY", "description": "Secret key; the header wins."},
    "KeyInQuery": {
        "type": "apiKey",
        "in": "query",
        "name": "api_key",
        "description": "Publishable key in browsers, or the secret key on servers.",
    },
    "ReaderToken": {
        "type": "http",
        "scheme": "bearer",
        "bearerFormat": "JWT",
        "description": "HS256 token of a signed-in reader, beside a key.",
    },
}  # fmt: skip


def _operation(endpoint: Endpoint, schemas: dict[str, Any]) -> dict[str, Any]:
    about, rules = endpoint.about, endpoint.rules
    keys: list[dict[str, list[str]]] = [{"SecretKey": []}, {"KeyInQuery": []}]
    if rules.reads_token:
        keys.append({"KeyInQuery": [], "ReaderToken": []})
    operation: dict[str, Any] = {
        "operationId": endpoint.name,
        "summary": about.summary,
        "tags": [about.tag],
        "security": keys,
        "parameters": _parameters(endpoint),
        "responses": _responses(endpoint, schemas),
    }
    if about.body is not None:
        content = {"application/json": {"schema": _schema(about.body, schemas, "validation")}}
        operation["requestBody"] = {"required": True, "content": content}
    return operation


def _parameters(endpoint: Endpoint) -> list[dict[str, Any]]:
    found = []
    _, brace, rest = endpoint.path.partition("{")
    if brace:
        name = rest.partition("}")[0]
        schema = {"type": "string", "minLength": 1, "maxLength": 512}
        found.append({"name": name, "in": "path", "required": True, "schema": schema})
    for name, told in endpoint.about.query.items():
        schema = {key: value for key, value in told.items() if key != "x-required"}
        found.append(
            {"name": name, "in": "query", "required": bool(told.get("x-required")), "schema": schema}
        )
    if endpoint.rules.writes:
        name = idempotency.HEADER.decode().title()
        schema = {"type": "string", "minLength": 1, "maxLength": 255, "pattern": "^[!-~]+$"}
        found.append({"name": name, "in": "header", "required": False, "schema": schema})
    return found


def _responses(endpoint: Endpoint, schemas: dict[str, Any]) -> dict[str, Any]:
    rules = endpoint.rules
    replies: dict[int, Any] = dict.fromkeys(_EVERYWHERE, wire.Told)
    if rules.writes or rules.body != "ignored":
        replies |= {400: wire.Told}
    if rules.body != "ignored":
        replies |= {413: wire.Told}
    if rules.writes:
        replies |= {409: wire.Told}
    if rules.writes or endpoint.schema is not None:
        replies |= {422: _REFUSALS[endpoint.family]}
    replies |= dict(endpoint.about.replies)
    return {
        str(status): {
            "description": _MEANINGS.get(status, "Refused."),
            "content": {"application/json": {"schema": _schema(model, schemas, "serialization")}},
        }
        for status, model in sorted(replies.items())
    }


def _schema(model: Any, schemas: dict[str, Any], mode: Any) -> dict[str, Any]:
    """Describe a model by reference, a union by its members, a ready schema as it is."""
    if isinstance(model, dict):
        return model
    found = TypeAdapter(model).json_schema(ref_template=_REF, mode=mode)
    schemas.update(found.pop("$defs", {}))
    if isinstance(model, type) and issubclass(model, BaseModel) and "$ref" not in found:
        schemas[model.__name__] = found
        return {"$ref": _REF.format(model=model.__name__)}
    return found


def _name_interactions(schemas: dict[str, Any]) -> None:
    """Describe simulated interactions once, by the schema that uploads have."""
    schemas["Interaction"] = record_schema("interaction")["properties"]["data"]["items"]
    for schema in schemas.values():
        field = schema.get("properties", {}).get("additional_interactions")
        if field is not None:
            field["anyOf"][0]["items"] = {"$ref": _REF.format(model="Interaction")}

"""The part of the OpenAPI document that describes the administration, from the table of operations."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from pydantic import TypeAdapter

from deployments.admin.arguments import PREFIX, AnyOperation, takes_body
from deployments.operations.framework.argument_fields import describe_argument
from deployments.operations.framework.examples import example_arguments, example_result

SCHEME = "AdminToken"
_SECURITY = {
    SCHEME: {
        "type": "http",
        "scheme": "bearer",
        "description": "A personal token (`kat_...`) of `kiosk tokens create` or of the console. It allows at most "
        "what its account allows. Pages of the console use their session instead.",
    }
}
_REF = "#/components/schemas/{model}"
_MESSAGE = {"$ref": "#/components/schemas/MessageReply"}
_DETAIL = {"$ref": "#/components/schemas/Detail"}
_REPLIES: dict[int, tuple[str, dict[str, str]]] = {
    401: ("The token is missing, unknown, expired or revoked, or its account is locked.", _MESSAGE),
    403: ("The role of the account, or of its token, is not enough.", _MESSAGE),
    404: ("There is no such thing.", _MESSAGE),
    422: ("An argument is missing, unknown or invalid. `detail` has one entry for each fault.", _DETAIL),
    429: ("Too many requests of this account, or too many wrong tokens from this address.", _MESSAGE),
    500: ("A fault of the server. The log has it under the `X-Request-Id`.", _MESSAGE),
    503: ("The store is away, or the operation takes long. Wait `Retry-After` seconds.", _MESSAGE),
}
_OF_BODIES: dict[int, tuple[str, dict[str, str]]] = {
    400: ("The body is not valid JSON, or a value is not allowed; the message says which.", _MESSAGE),
    409: ("The change contradicts the stored state.", _MESSAGE),
    413: ("The body is larger than 1 MB.", _MESSAGE),
}
_FILE = {"schema": {"type": "string", "format": "binary"}}
_ROLES = {
    "app": "Needs the role `{role}` in the app.",
    "installation": "Needs an administrator of the installation.",
    "person": "Open to everybody who is signed in; it shows and changes what the person may.",
}
_RETRY_AFTER = {
    "Retry-After": {"description": "Seconds to wait.", "schema": {"type": "integer", "minimum": 1}}
}


def describe_administration(operations: Iterable[AnyOperation]) -> dict[str, Any]:
    """Return paths, tags, schemas and security schemes to merge into the document of the API."""
    paths: dict[str, dict[str, Any]] = {}
    tags: dict[str, str] = {}
    schemas: dict[str, Any] = {}
    for operation in operations:
        area = operation.name.partition(".")[0]
        tags.setdefault(
            f"administration: {area.replace('_', ' ')}", f"Operations `{area}.*` of the administration."
        )
        described = _operation(operation, f"administration: {area.replace('_', ' ')}", schemas)
        paths.setdefault(PREFIX + operation.path, {})[operation.method.lower()] = described
    return {
        "paths": paths,
        "tags": [{"name": name, "description": text} for name, text in tags.items()],
        "schemas": schemas,
        "securitySchemes": _SECURITY,
    }


def _operation(operation: AnyOperation, tag: str, schemas: dict[str, Any]) -> dict[str, Any]:
    schema = TypeAdapter(operation.arguments).json_schema(ref_template=_REF)
    for name, part in schema.pop("$defs", {}).items():
        schemas.setdefault(name, part)
    fields: dict[str, Any] = schema.get("properties", {})
    described: dict[str, Any] = {
        "operationId": operation.name,
        "summary": operation.summary,
        "description": f"{_describe_rights(operation)}{_describe_record(operation)}",
        "tags": [tag],
        "security": [{SCHEME: []}],
        "parameters": [_parameter(operation, name, fields, "path") for name in operation.path_fields],
        "responses": _responses(operation),
    }
    apart = {*operation.path_fields, operation.stream_field}
    others = {name: field for name, field in fields.items() if name not in apart}
    if not takes_body(operation):
        described["parameters"] += [_parameter(operation, name, fields, "query") for name in others]
        if operation.stream_field:
            described["requestBody"] = {"required": True, "content": {"application/octet-stream": _FILE}}
    elif others:
        described["requestBody"] = _body(operation, schema, others, schemas)
    return described


def _describe_rights(operation: AnyOperation) -> str:
    scope: str = operation.scope
    if scope == "app" and "app_id" not in operation.arguments.model_fields:
        scope = "installation"
    return _ROLES[scope].format(role=operation.role)


def _describe_record(operation: AnyOperation) -> str:
    return " The audit log records it." if operation.changes else ""


def _parameter(operation: AnyOperation, name: str, fields: dict[str, Any], place: str) -> dict[str, Any]:
    field = {key: value for key, value in fields[name].items() if key not in ("description", "title")}
    required = place == "path" or operation.arguments.model_fields[name].is_required()
    if place == "path":
        field = {"type": "string", "minLength": 1, "maxLength": 512}
    parameter: dict[str, Any] = {"name": name, "in": place, "required": required, "schema": field}
    parameter["description"] = fields[name].get("description") or describe_argument(name)
    example = example_arguments(operation)
    if name in example:
        parameter["example"] = example[name]
    return parameter


def _body(
    operation: AnyOperation, schema: dict[str, Any], fields: dict[str, Any], schemas: dict[str, Any]
) -> dict[str, Any]:
    title = "".join(word.capitalize() for word in operation.name.replace(".", "_").split("_"))
    required = [name for name in schema.get("required", ()) if name in fields]
    body: dict[str, Any] = {
        "type": "object",
        "additionalProperties": False,
        "title": title,
        "properties": fields,
    }
    body["description"] = f"Arguments of `{operation.name}`."
    if required:
        body["required"] = required
    for name, field in fields.items():
        field.pop("title", None)
        field.setdefault("description", describe_argument(name))
    schemas[title] = body
    content: dict[str, Any] = {"schema": {"$ref": _REF.format(model=title)}}
    content["example"] = {
        name: value
        for name, value in example_arguments(operation).items()
        if name not in operation.path_fields
    }
    return {"required": bool(required), "content": {"application/json": content}}


def _responses(operation: AnyOperation) -> dict[str, Any]:
    data = {"type": "object", "properties": {"message": {"type": "string"}, "data": {}}}
    done: dict[str, Any] = {"schema": {**data, "required": ["message", "data"]}}
    result = example_result(operation)
    if result is not None:
        done["example"] = {"message": "success", "data": result}
    if operation.media_type != "application/json":
        done = {"schema": {"type": "string"}}
    responses: dict[str, Any] = {"200": {"description": "Success.", "content": {operation.media_type: done}}}
    more = _OF_BODIES if operation.method not in ("GET", "DELETE") else {409: _OF_BODIES[409]}
    for status, (text, schema) in sorted({**_REPLIES, **more}.items()):
        content: dict[str, Any] = {"schema": schema}
        responses[str(status)] = {"description": text, "content": {"application/json": content}}
        if status in (429, 503):
            responses[str(status)]["headers"] = _RETRY_AFTER
    return responses

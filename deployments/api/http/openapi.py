"""The OpenAPI document, generated from the table of endpoints and the texts in `reference/`."""

from __future__ import annotations

from collections.abc import Mapping
from copy import deepcopy
from typing import Any, Literal, get_args

from pydantic import BaseModel, TypeAdapter

from cluster.records.interaction import Interaction
from cluster.records.validation.upload_schema import build_upload_schema
from deployments.api.http.endpoint import Endpoint
from deployments.api.reference.openapi_texts import Example, OpenApiTexts, read_texts
from deployments.api.wire import records as wire
from deployments.api.wire.experiments import RefusedEvent
from deployments.edge.access import idempotency
from deployments.edge.http.errors import Family

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
    # For an operation with two examples the first one is shown.
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


def extend_openapi(document: dict[str, Any], more: Mapping[str, Any]) -> dict[str, Any]:
    """Return a document with the paths, tags, schemas and security schemes of further routes.

    Errors:
        ValueError: both describe one path or schema
    """
    components = document["components"]
    twice = (set(document["paths"]) & set(more["paths"])) | (
        set(components["schemas"]) & set(more["schemas"])
    )
    if twice:
        raise ValueError(f"described twice: {sorted(twice)}")
    return {
        **document,
        "tags": [*document["tags"], *more["tags"]],
        "paths": {**document["paths"], **more["paths"]},
        "components": {
            **components,
            "schemas": dict(sorted({**components["schemas"], **more["schemas"]}.items())),
            "securitySchemes": {**components["securitySchemes"], **more["securitySchemes"]},
        },
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
    parameters: list[dict[str, Any]] = []
    _, brace, rest = endpoint.path.partition("{")
    if brace:
        name = rest.partition("}")[0]
        schema: dict[str, Any] = {"type": "string", "minLength": 1, "maxLength": 512}
        parameters.append({"name": name, "in": "path", "required": True, "schema": schema})
    for name, described in endpoint.about.query.items():
        schema = {key: value for key, value in described.items() if key not in ("x-required", "description")}
        required = bool(described.get("x-required"))
        parameters.append({"name": name, "in": "query", "required": required, "schema": schema})
    if endpoint.rules.writes:
        name = idempotency.HEADER.decode().title()
        schema = {"type": "string", "minLength": 1, "maxLength": 255, "pattern": "^[!-~]+$"}
        parameters.append({"name": name, "in": "header", "required": False, "schema": schema})
    given = {**example.path, **example.query} if example is not None else {}
    for parameter in parameters:
        place = parameter["in"]
        name = parameter["name"]
        parameter["description"] = texts.fields[place].get(name, "")
        if place != "header" and name in given:
            parameter["example"] = given[name]
    return parameters


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
    responses: dict[str, Any] = {}
    for status, model in sorted(replies.items()):
        schema = _schema(model, schemas, "serialization")
        content: dict[str, Any] = {"schema": schema}
        if example is not None and example.status == status:
            content["example"] = example.reply
        responses[str(status)] = {
            "description": describe_status(status, endpoint, missing),
            "content": {"application/json": content},
        }
        if status in (429, 503):
            responses[str(status)]["headers"] = _RETRY_AFTER
    return responses


def _schema(model: Any, schemas: dict[str, Any], mode: Any) -> dict[str, Any]:
    """Return the schema of a model: a reference, a union of its members, or a ready schema unchanged."""
    if isinstance(model, dict):
        ready = deepcopy(model)
        schemas.update(ready.pop("$defs", {}))
        return ready
    schema = TypeAdapter(model).json_schema(ref_template=_REF, mode=mode)
    schemas.update(schema.pop("$defs", {}))
    if isinstance(model, type) and issubclass(model, BaseModel) and "$ref" not in schema:
        schemas[model.__name__] = schema
        return {"$ref": _REF.format(model=model.__name__)}
    return schema


_NOUNS: tuple[Literal["user", "product", "interaction"], ...] = ("user", "product", "interaction")


def _name_records(paths: dict[str, dict[str, Any]], schemas: dict[str, Any]) -> None:
    """Give records and types of interactions named schemas, which uploads and simulations refer to."""
    for noun in _NOUNS:
        name = noun.capitalize()
        upload = deepcopy(build_upload_schema(noun))
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
    """Move the schema of `context` out of an interaction and leave a reference."""
    options = interaction["properties"]["context"]["anyOf"]
    at = next(at for at, option in enumerate(options) if option.get("type") == "object")
    context: dict[str, Any] = options[at]
    options[at] = {"$ref": _REF.format(model="InteractionContext")}
    return context


_PROOF = "With a publishable key a `user_id` needs its `user_hash` or a reader token."
_WRITER_PROOF = (
    "With a publishable key a `user_id` needs its `user_hash` or a reader token where the app's switch "
    "`prove_writers` is on, as in `production`."
)
_ASKER_PROOF = (
    "With a publishable key a `user_id` without `user_hash` or reader token is not trusted: the question is answered "
    "and does not join that user's history."
)
_USER_NOTE = "It needs a reader token; a secret key names the user in `user_id` instead."


def list_security(endpoint: Endpoint) -> list[dict[str, list[str]]]:
    """Return the combinations of keys and tokens that an endpoint accepts."""
    rules = endpoint.rules
    ways: list[dict[str, list[str]]] = [{"SecretKey": []}]
    if not (rules.publishable or rules.publishable_by):
        return ways
    if not endpoint.about.needs_user:
        ways.append({"PublishableKey": []})
    if rules.reads_token:
        ways.append({"PublishableKey": [], "ReaderToken": []})
    return ways


def describe_keys(endpoint: Endpoint) -> str:
    """Return a sentence on which keys may call an endpoint."""
    rules = endpoint.rules
    if rules.publishable_by:
        words = f"**Keys:** secret key. A publishable key needs the app's switch `{rules.publishable_by}`."
    elif not rules.publishable:
        words = "**Keys:** secret key only. A publishable key gets 403."
    elif endpoint.about.needs_user:
        words = f"**Keys:** secret or publishable key. {_USER_NOTE}"
    else:
        words = f"**Keys:** secret or publishable key.{_describe_proof(endpoint)}"
    return f"{words} The read-only `playground` refuses it." if rules.writes else words


def _describe_proof(endpoint: Endpoint) -> str:
    rules = endpoint.rules
    if rules.proves_user:
        return f" {_PROOF}"
    if rules.proves_writer or rules.proves_asker or (rules.writes and rules.reads_token):
        return f" {_WRITER_PROOF}"
    return f" {_ASKER_PROOF}" if rules.reads_token else ""


def describe_status(status: int, endpoint: Endpoint, missing: str) -> str:
    """Return the meaning of a status at an endpoint; `missing` is the text of its 404."""
    if status in (400, 422):
        return _bad_request(endpoint) if status == 400 else _unprocessable(endpoint)
    if status == 403:
        return _forbidden(endpoint)
    if status == 404:
        return missing
    if status == 413:
        return _too_large(endpoint)
    if status == 401:
        proof = (
            " Or the `user_hash` or reader token is missing, expired or wrong."
            if _has_proof(endpoint)
            else ""
        )
        return f"The key is missing or unknown.{proof}"
    return _STATUS_TEXTS[status]


_STATUS_TEXTS = {
    200: "Success.",
    409: "A request with this `Idempotency-Key` is still running, or the change contradicts the stored state.",
    429: "Over the rate limit of the key or of the address, or the service is overloaded. Retry after `Retry-After` s.",
    500: "A fault of the server. Retry; when it stays, tell the operator the `X-Request-Id`.",
    503: "The server is busy or restarting. Wait `Retry-After` seconds and retry.",
}


def _has_proof(endpoint: Endpoint) -> bool:
    rules = endpoint.rules
    return rules.reads_token or rules.proves_user or rules.proves_writer


def _bad_request(endpoint: Endpoint) -> str:
    rules = endpoint.rules
    reasons = []
    if rules.body != "ignored" and endpoint.family != "experiments":
        reasons.append("The body is not valid JSON; the message says where.")
    if rules.writes:
        reasons.append("The app is the read-only playground, or the write took too long.")
    return " ".join(reasons)


def _unprocessable(endpoint: Endpoint) -> str:
    if endpoint.family == "upload":
        text = "A record is invalid, and nothing was stored. `data` has one sentence for each invalid record."
    elif endpoint.family == "experiments":
        text = (
            "The body is not valid JSON, or a field is invalid. `data.errors` has one entry for each fault."
        )
    else:
        text = "A field is missing, unknown or invalid. `detail` has one entry for each fault."
    repeated = " Or the `Idempotency-Key` was used with another request."
    return text + repeated if endpoint.rules.writes else text


def _forbidden(endpoint: Endpoint) -> str:
    rules = endpoint.rules
    if rules.publishable:
        return "The request looks automated, and the app's switch `bot_rule` refuses such requests with this key."
    return "A publishable key may not call this operation. Use the secret key, from a server."


def _too_large(endpoint: Endpoint) -> str:
    rules = endpoint.rules
    text = "The body is larger than 32 MiB (setting `KIOSK_MAX_BODY_MB`)."
    if not (rules.publishable or rules.publishable_by):
        return text
    return f"{text[:-1]}, or than {rules.browser_bytes >> 10} KiB with a publishable key."

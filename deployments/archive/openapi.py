"""The part of the OpenAPI document that describes `POST /mcp`, with the announced removals.

The tools are described in `docs/guides/archive.md`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from deployments.archive.mcp.methods import VERSIONS
from deployments.archive.oauth.addresses import MCP_PATH
from deployments.archive.tools import Tool, list_notices

TAG = "Archive"
SCHEME = "ArchiveToken"
_SECURITY = {
    SCHEME: {
        "type": "http",
        "scheme": "bearer",
        "description": "An access token of OAuth 2.1 (authorization code with PKCE). Clients start at the address that "
        "the header `WWW-Authenticate` of a 401 names.",
    }
}
_MESSAGE: dict[str, Any] = {
    "type": "object",
    "description": "One JSON-RPC 2.0 message.",
    "required": ["jsonrpc", "method"],
    "properties": {
        "jsonrpc": {"const": "2.0", "description": "The version of JSON-RPC."},
        "id": {
            "anyOf": [{"type": "string"}, {"type": "integer"}],
            "description": "Comes back unchanged. A notification has none.",
        },
        "method": {
            "type": "string",
            "description": "`initialize`, `ping`, `tools/list`, `tools/call` or `notifications/initialized`.",
        },
        "params": {"type": "object", "description": "The arguments of the method."},
    },
}
_REPLY: dict[str, Any] = {
    "type": "object",
    "description": "A JSON-RPC 2.0 response, with exactly one of `result` and `error`.",
    "required": ["jsonrpc", "id"],
    "properties": {
        "jsonrpc": {"const": "2.0", "description": "The version of JSON-RPC."},
        "id": {"description": "The id of the request.", "type": ["string", "integer", "null"]},
        "result": {"type": "object", "description": "The result of the method."},
        "error": {
            "type": "object",
            "description": "`code` -32700 or -32603, `message`, and sometimes `data`.",
        },
    },
}
_FAULT: dict[str, Any] = {
    "type": "object",
    "description": "A refusal by the transport.",
    "properties": {
        "error": {
            "type": "object",
            "description": "`code`, `message`, `status` and sometimes `hint`.",
        },
        "message": {"type": "string", "description": "The same message."},
    },
}
_STATUSES = {
    "200": ("The response of JSON-RPC, an error included.", "McpReply"),
    "202": ("The message was a notification; the body is empty.", ""),
    "401": ("The bearer token is missing or invalid. `WWW-Authenticate` names the metadata.", "McpFault"),
    "405": ("The method is not POST.", "McpFault"),
}


def describe_archive(tools: Sequence[Tool]) -> dict[str, Any]:
    """Return paths, tags, schemas and security schemes to merge into the document of the API."""
    listed = "\n".join(f"- `{tool.name}`: {tool.title}." for tool in tools)
    notices = list_notices(tools)
    announced = (
        "\n".join(["", "", "**Deprecated.**", "", *(f"- {notice}" for notice in notices)]) if notices else ""
    )
    operation = {
        "operationId": "archive.mcp",
        "summary": "Search the archive as an agent (Model Context Protocol)",
        "description": f"Takes one JSON-RPC message of the Model Context Protocol.\n\n{listed}{announced}",
        "tags": [TAG],
        "security": [{SCHEME: []}],
        "deprecated": False,
        "parameters": [
            {
                "name": "MCP-Protocol-Version",
                "in": "header",
                "required": False,
                "schema": {"type": "string", "enum": list(VERSIONS)},
                "description": "The version that `initialize` named.",
            }
        ],
        "requestBody": {
            "required": True,
            "content": {
                "application/json": {
                    "schema": {"$ref": "#/components/schemas/McpMessage"},
                    "example": {"jsonrpc": "2.0", "id": 1, "method": "tools/list"},
                }
            },
        },
        "responses": {
            status: {"description": text, "content": _content(model)}
            for status, (text, model) in _STATUSES.items()
        },
    }
    return {
        "paths": {MCP_PATH: {"post": operation}},
        "tags": [{"name": TAG, "description": f"The archive for agents.{announced}"}],
        "schemas": {"McpMessage": _MESSAGE, "McpReply": _REPLY, "McpFault": _FAULT},
        "securitySchemes": _SECURITY,
    }


def _content(model: str) -> dict[str, Any]:
    return {"application/json": {"schema": {"$ref": f"#/components/schemas/{model}"}}} if model else {}

"""Requests of the stateless revisions, 2026-07-28 and later: which requests these are, and their checks in order.

    JSON (-32700) -> one request (-32600) -> envelope (-32602) -> headers equal the body (-32020) -> version (-32022)

The era of a request depends on this request alone: the server remembers nothing of a connection, token or client.
Source: Model Context Protocol 2026-07-28, Versioning and Streamable HTTP
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import orjson

from deployments.archive.mcp.jsonrpc import NO_ID, PARSE_ERROR, RpcCall, RpcError

REVISION = "2026-07-28"
INVALID_REQUEST = -32600
UNKNOWN_METHOD = -32601
INVALID_PARAMS = -32602
HEADER_MISMATCH = -32020
UNSUPPORTED_VERSION = -32022
PREFIX = "io.modelcontextprotocol/"

_VERSION_KEY = f"{PREFIX}protocolVersion"
_CAPABILITIES_KEY = f"{PREFIX}clientCapabilities"
_HANDSHAKE_REVISIONS = frozenset({"2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"})
_DATE = re.compile(r"\d{4}-\d{2}-\d{2}", re.ASCII)
_ENCODED = re.compile(r"=\?base64\?(.*)\?=", re.DOTALL)
_LONGEST = 200

Header = Callable[[bytes], bytes | None]
"Returns a header by its name in lower case; `None` if it is absent."


def validate_stateless_request(
    message: RpcCall | RpcError | None, body: bytes, header: Header
) -> RpcCall | RpcError | None:
    """Return a message unchanged if it belongs to the handshake; else its checked form.

    Cost: two dictionary look-ups for a request of the handshake.
    """
    if message is None:
        return None
    version = _text(header(b"mcp-protocol-version"))
    if isinstance(message, RpcError):
        return _refuse_message(message, body, version)
    meta = message.params.get("_meta")
    named = meta.get(_VERSION_KEY, "") if type(meta) is dict else ""
    has_envelope = type(meta) is dict and _VERSION_KEY in meta
    if not _is_stateless(has_envelope, named, version, message.method):
        return message
    return _check(message, meta, version, header)


def _is_stateless(has_envelope: bool, named: Any, version: str, method: Any) -> bool:
    if has_envelope:
        # The SDKs send this envelope with old versions as well; then the rules of the handshake hold.
        is_handshake = isinstance(named, str) and named in _HANDSHAKE_REVISIONS
        return not is_handshake or _is_new_date(version)
    return method != "initialize" and _is_new_date(version)


def _is_new_date(version: str) -> bool:
    # Such dates are ordered as texts. No list, so that clients of later revisions learn which ones are
    # supported.
    return _DATE.fullmatch(version) is not None and version >= REVISION


def _refuse_message(message: RpcError, body: bytes, version: str) -> RpcError:
    """Return the error of a message that is no request; its parameters may still name the revision."""
    try:
        given = orjson.loads(body)
    except orjson.JSONDecodeError:
        given = None
    fields = given if type(given) is dict else {}
    params = fields.get("params")
    meta = params.get("_meta") if type(params) is dict else None
    has_envelope = type(meta) is dict and _VERSION_KEY in meta
    named = meta[_VERSION_KEY] if type(meta) is dict and has_envelope else ""
    if not _is_stateless(has_envelope, named, version, fields.get("method")):
        return message
    if message.code == PARSE_ERROR:
        return replace(message, status=400)
    is_request = (
        message.id != NO_ID and fields.get("jsonrpc") == "2.0" and isinstance(fields.get("method"), str)
    )
    return replace(message, code=INVALID_PARAMS if is_request else INVALID_REQUEST, status=400)


def _check(call: RpcCall, meta: Any, version: str, header: Header) -> RpcCall | RpcError:
    if type(meta) is not dict:
        return _refuse(
            call, INVALID_PARAMS, "Invalid params: _meta must be an object with the protocol version"
        )
    named = meta.get(_VERSION_KEY)
    if not isinstance(named, str):
        return _refuse(call, INVALID_PARAMS, f"Invalid params: _meta must name {_VERSION_KEY} as a string")
    if type(meta.get(_CAPABILITIES_KEY)) is not dict:
        return _refuse(
            call, INVALID_PARAMS, f"Invalid params: _meta must have {_CAPABILITIES_KEY} as an object"
        )
    # Before the version itself: a client that contradicts itself is told so.
    if version != named:
        return _refuse(
            call, HEADER_MISMATCH, "The header MCP-Protocol-Version must equal the version in _meta"
        )
    if _text(header(b"mcp-method")) != call.method:
        return _refuse(call, HEADER_MISMATCH, "The header Mcp-Method must equal the method")
    if call.method == "tools/call" and not _is_name(header(b"mcp-name"), call.params.get("name")):
        return _refuse(call, HEADER_MISMATCH, "The header Mcp-Name must equal the name of the tool")
    if named != REVISION:
        facts = {"supported": [REVISION], "requested": named[:_LONGEST]}
        return _refuse(call, UNSUPPORTED_VERSION, "Unsupported protocol version", facts)
    return replace(call, is_stateless=True)


def _is_name(value: bytes | None, name: Any) -> bool:
    """Return whether a header names the tool, plain or as the base64 form of UTF-8."""
    if not isinstance(name, str):
        return value is None
    if value is None:
        return False
    text = _text(value)
    encoded = _ENCODED.fullmatch(text)
    if encoded is None:
        return text == name
    try:
        return base64.b64decode(encoded[1].encode("latin-1"), validate=True).decode() == name
    except (binascii.Error, ValueError):
        return False


def _refuse(call: RpcCall, code: int, message: str, data: Any = "") -> RpcError:
    return RpcError(message, code, data, call.id, status=400)


def _text(value: bytes | None) -> str:
    return "" if value is None else value.decode("latin-1").strip(" \t")

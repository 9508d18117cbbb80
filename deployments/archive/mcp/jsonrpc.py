"""JSON-RPC 2.0 as bytes: read one message, write one answer.

The checks run in this order: valid JSON, one object, notification, id, and the form of the other members. An answer
contains the JSON of the request's id unchanged, so an id of any size is returned as the client sent it.

Source: JSON-RPC 2.0, sections 4 and 5
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from typing import Any

import orjson

PARSE_ERROR = -32700
INTERNAL_ERROR = -32603
NO_ID = b"null"

_NOTIFICATION = "notifications/"
_MOST_DATA = 300
"Characters of a parser's message in an error."
REPLACED = "\ufffd"
_HALF = re.compile(rb"\\u[dD][89a-fA-F]")
_ESCAPE = re.compile(
    rb"\\(?:u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}|(u[dD][89a-fA-F][0-9a-fA-F]{2})|.)",
    re.DOTALL,
)
"Any escape in a JSON text; the group is a surrogate."


@dataclass(frozen=True, slots=True)
class RpcCall:
    """A request that needs an answer."""

    id: bytes
    "The id as JSON."
    method: str
    params: dict[str, Any] = field(default_factory=dict)
    has_params: bool = False
    is_stateless: bool = False
    "Whether the request is one of revision 2026-07-28, which has no handshake."


@dataclass(frozen=True, slots=True)
class RpcError:
    """An error answer; for clients of the handshake its HTTP status is 200."""

    message: str
    code: int = INTERNAL_ERROR
    data: Any = ""
    id: bytes = NO_ID
    status: int = 200


def read_message(body: bytes) -> RpcCall | RpcError | None:
    """Parse the body of a request; return None for a notification, which gets no answer."""
    try:
        message = orjson.loads(body)
    except orjson.JSONDecodeError as error:
        message = _repair_halves(body)
        if message is None:
            return RpcError("Parse error", PARSE_ERROR, str(error)[:_MOST_DATA])
    if type(message) is not dict:
        return RpcError("Invalid request: the body must be one JSON object; batches are not supported")
    method = message.get("method")
    # By presence and not by value: many clients begin with the id 0.
    if "id" not in message:
        if isinstance(method, str) and method.startswith(_NOTIFICATION):
            return None
        return RpcError("Invalid request: id is missing")
    if "method" not in message and ("result" in message or "error" in message):
        return RpcError("Invalid request: the server asks nothing, so it takes no answers")
    call_id = _id_of(message["id"], body)
    if call_id is None:
        return RpcError("Invalid request: id must be a string or an integer")
    return _call(message, method, call_id)


def render_result(call_id: bytes, result: bytes) -> bytes:
    """Return a success answer around a result that is already JSON."""
    return b'{"jsonrpc":"2.0","id":' + call_id + b',"result":' + result + b"}"


def render_error(problem: RpcError) -> bytes:
    """Return an error answer; `data` is optional."""
    error: dict[str, Any] = {"code": problem.code, "message": problem.message}
    if problem.data:
        error["data"] = problem.data
    return b'{"jsonrpc":"2.0","id":' + problem.id + b',"error":' + dumps(error) + b"}"


def dumps(value: Any) -> bytes:
    """Return a value as JSON; text that UTF-8 can't encode is written with replacement characters."""
    try:
        return orjson.dumps(value)
    except orjson.JSONEncodeError:
        text = json.dumps(value, ensure_ascii=False, allow_nan=False)
        return text.encode("utf-8", "replace")


def _call(message: dict[str, Any], method: Any, call_id: bytes) -> RpcCall | RpcError:
    if message.get("jsonrpc") != "2.0":
        return RpcError('Invalid request: jsonrpc must be "2.0"', id=call_id)
    if not isinstance(method, str):
        return RpcError("Invalid request: method must be a string", id=call_id)
    params = message.get("params")
    if "params" in message and type(params) is not dict:
        return RpcError("Invalid request: params must be an object", id=call_id)
    return RpcCall(call_id, method, params or {}, "params" in message)


def _repair_halves(body: bytes) -> Any:
    """Parse JSON whose only fault is lone surrogates in texts; return None for other faults.

    A program that cuts a text to a length may cut an emoji in two. Its JSON then has one half as an escape. The
    grammar
    of JSON allows this, and without an answer to its id the client would wait.
    """
    if _HALF.search(body) is None:
        return None
    try:
        message = orjson.loads(_ESCAPE.sub(_whole, body))
    except orjson.JSONDecodeError:
        return None
    # An id must be returned unchanged.
    return None if type(message) is dict and REPLACED in str(message.get("id")) else message


def _whole(escape: re.Match[bytes]) -> bytes:
    return escape[0] if escape[1] is None else rb"\ufffd"


def _id_of(value: Any, body: bytes) -> bytes | None:
    """Return an id as JSON; None if it is invalid."""
    # `type`, because a bool is an `int` for `isinstance`.
    if isinstance(value, str) or type(value) is int:
        return orjson.dumps(value)
    if type(value) is float:
        return _large_id(body)
    return None


def _large_id(body: bytes) -> bytes | None:
    """Parse an integer beyond 64 bits, which the parser would read as a float."""
    try:
        value = json.loads(body)["id"]
    except (ValueError, RecursionError):
        return None
    return str(value).encode() if type(value) is int else None

"""`POST /mcp`, row by row: what is sent, and exactly what is answered."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any

import pytest

from deployments.archive.archive_apps import DefaultArchive
from tests.contract.scenario import differences
from tests.fakes.archive import NOT_ISSUED, ORIGIN, ArchiveCorner, open_archive_corner

METADATA = f"{ORIGIN}/.well-known/oauth-protected-resource/mcp"
UNAUTHORIZED = {
    "error": {
        "code": "unauthorized",
        "message": "valid bearer token required",
        "status": 401,
        "hint": METADATA,
    },
    "message": "valid bearer token required",
}
WRONG_METHOD = {
    "error": {"code": "method_not_allowed", "message": "Method Not Allowed", "status": 405},
    "message": "Method Not Allowed",
}
FORBIDDEN = {
    "error": {"code": "forbidden", "message": "origin is not allowed", "status": 403},
    "message": "origin is not allowed",
}
PING = {"jsonrpc": "2.0", "id": 1, "method": "ping"}
PONG = {"jsonrpc": "2.0", "id": 1, "result": {}}
INITIALIZE = {
    "protocolVersion": "2024-11-05",
    "capabilities": {},
    "clientInfo": {"name": "x", "version": "1"},
}


def call_of(tool: str, arguments: Any, id: Any = 1) -> dict[str, Any]:
    """Write a call of a tool."""
    return {
        "jsonrpc": "2.0",
        "id": id,
        "method": "tools/call",
        "params": {"name": tool, "arguments": arguments},
    }


def error(message: str, id: Any = 1, code: int = -32603, **more: Any) -> dict[str, Any]:
    """Write an error answer."""
    return {"jsonrpc": "2.0", "id": id, "error": {"code": code, "message": message, **more}}


@dataclass(frozen=True)
class Row:
    """One rule: a request and its answer."""

    name: str
    body: Any
    expect: int = 200
    exactly: Any = None
    "The whole answer; None: no body at all."
    headers: dict[str, str | bytes] = field(default_factory=dict)
    token: str | None = None
    "None: a good one; empty: none."
    method: str = "POST"
    target: str = "/mcp"
    header: dict[str, str] = field(default_factory=dict)


PARSE_ERROR = {
    "jsonrpc": "2.0",
    "id": None,
    "error": {"code": -32700, "message": "Parse error", "data": "<str>"},
}
INVALID_ID = error("Invalid request: id must be a string or an integer", None)
NO_ID = error("Invalid request: id is missing", None)
NO_BATCHES = error("Invalid request: the body must be one JSON object; batches are not supported", None)

TRANSPORT = [
    *(
        Row(f"{method} is no method of the endpoint", None, 405, WRONG_METHOD, method=method, header={"allow": "POST"})
        for method in ("GET", "PUT", "DELETE", "PATCH", "OPTIONS", "TRACE", "BREW")
    ),
    Row("HEAD is answered without a body", None, 405, None, method="HEAD", header={"allow": "POST"}),
    Row("a GET without a token is 405, never 401", None, 405, WRONG_METHOD, method="GET", token=""),
    Row("a GET for an event stream is 405", None, 405, WRONG_METHOD, {"accept": "text/event-stream"}, method="GET"),
    Row("no token", PING, 401, UNAUTHORIZED, token="",
        header={"www-authenticate": f'Bearer resource_metadata="{METADATA}"'}),
    Row("a made-up token", PING, 401, UNAUTHORIZED, token="made-up"),
    Row("another scheme", PING, 401, UNAUTHORIZED, {"authorization": "Basic YTpi"}),
    Row("a scheme without a token", PING, 401, UNAUTHORIZED, {"authorization": "Bearer "}),
    Row("two tokens", PING, 401, UNAUTHORIZED, {"authorization": "Bearer a, Bearer b"}),
    Row("a token that is no text", PING, 401, UNAUTHORIZED, {"authorization": b"Bearer \xff\xfe"}),
    Row("a token of a megabyte", PING, 401, UNAUTHORIZED, {"authorization": "Bearer " + "a" * 1_000_000}),
    Row("a token in the query", PING, 401, UNAUTHORIZED, token="", target="/mcp?access_token=x"),
    Row("401 comes before the body is read", b"{nonsense", 401, UNAUTHORIZED, token=""),
    Row("401 also for a notification", {"jsonrpc": "2.0", "method": "notifications/initialized"}, 401, UNAUTHORIZED,
        token=""),
    Row("401 also for initialize", {**PING, "method": "initialize", "params": INITIALIZE}, 401, UNAUTHORIZED, token=""),
    Row("a stranger's page", PING, 403, FORBIDDEN, {"origin": "https://evil.example"}),
    Row("403 comes before 401", PING, 403, FORBIDDEN, {"origin": "https://evil.example"}, token=""),
    *(
        Row(f"origin {origin}", PING, 403, FORBIDDEN, {"origin": origin})
        for origin in (
            "null", "https://news.example.com.evil.example", "https://news.example.com@evil.example",
            "http://news.example.com", "https://news.example.com:8443", "https://evil.example/news.example.com",
            "http://localhost.evil.example", "http://127.0.0.1.evil.example", "file://", "", "https://tools.example",
            "tauri://localhost", "chrome-extension://abcdefg", "chrome-extension://abcdef/x",
        )
    ),
    *(
        Row(f"origin {origin} may call", PING, 200, PONG, {"origin": origin},
            header={"access-control-allow-origin": origin})
        for origin in (
            ORIGIN, "https://tools.example.org", "http://localhost:6274", "http://127.0.0.1", "http://[::1]:3000",
            "chrome-extension://abcdef",
        )
    ),
    Row("a rebound host changes nothing in the addresses", PING, 401, UNAUTHORIZED, {"host": "evil.example"}, token=""),
    Row("a preflight of an allowed page", None, 204, None,
        {"origin": "http://localhost:6274", "access-control-request-method": "POST"}, method="OPTIONS", token="",
        header={"access-control-allow-methods": "GET, POST, DELETE", "access-control-allow-origin": "http://localhost:6274"}),
    Row("a preflight for all that clients in a browser send", None, 204, None,
        {"origin": ORIGIN, "access-control-request-method": "GET"}, method="OPTIONS", token="",
        header={"access-control-allow-headers": "Content-Type, Accept, Authorization, MCP-Protocol-Version, "
                "Mcp-Session-Id, Mcp-Method, Mcp-Name, Last-Event-ID"}),
    Row("a preflight of a stranger's page", None, 405, WRONG_METHOD,
        {"origin": "https://evil.example", "access-control-request-method": "POST"}, method="OPTIONS", token=""),
    Row("a slash at the end", PING, 200, PONG, target="/mcp/"),
    *(
        Row(f"Accept {accept}", PING, 200, PONG, {"accept": accept}, header={"content-type": "application/json"})
        for accept in ("*/*", "application/json", "text/event-stream", "application/json, text/event-stream", "a/b")
    ),
    *(
        Row(f"Content-Type {kind}", PING, 200, PONG, {"content-type": kind})
        for kind in ("application/json", "application/json; charset=utf-8", "text/plain", "")
    ),
    Row("the scheme in other letters", PING, 200, PONG, {"x-scheme": "bEaReR"}),
    Row("headers of sessions and streams", PING, 200, PONG,
        {"mcp-session-id": "x", "last-event-id": "7", "mcp-method": "ping", "mcp-name": "x"},
        header={"mcp-session-id": "<absent>"}),
]  # fmt: skip

ENVELOPE = [
    Row("no JSON", b"{nonsense", 200, PARSE_ERROR),
    Row("nothing", b"", 200, PARSE_ERROR),
    Row("bad UTF-8", b'{"jsonrpc": "2.0", "id": 1, "method": "\xff"}', 200, PARSE_ERROR),
    Row("UTF-16", json.dumps(PING).encode("utf-16"), 200, PARSE_ERROR),
    Row("a byte order mark", b"\xef\xbb\xbf" + json.dumps(PING).encode(), 200, PARSE_ERROR),
    Row("NaN", b'{"jsonrpc": "2.0", "id": NaN, "method": "ping"}', 200, PARSE_ERROR),
    Row("Infinity", b'{"jsonrpc": "2.0", "id": 1, "method": "ping", "params": {"a": -Infinity}}', 200, PARSE_ERROR),
    Row("a lone surrogate", b'{"jsonrpc": "2.0", "id": "\\ud800", "method": "ping"}', 200, PARSE_ERROR),
    Row("half an emoji in a text", b'{"jsonrpc": "2.0", "id": 1, "method": "x\\ud83d\\\\ud83d\\ud83d\\ude00"}', 200,
        error("Unknown method: x\ufffd\\ud83d\U0001f600")),
    Row("half an emoji in a question", b'{"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": '
        b'{"name": "ask_archive", "arguments": {"question": "zzz \\ud83d"}}}', 200,
        {"jsonrpc": "2.0", "id": 1, "result": {"content": [{"type": "text", "text": '{"results":[]}'}],
         "structuredContent": {"results": []}, "isError": False}}),
    Row("half an emoji in what is no JSON", b'{"jsonrpc": "2.0", "id": 1, "method": "\\ud83d"', 200, PARSE_ERROR),
    Row("half an emoji in a batch", b'["\\ud83d"]', 200, NO_BATCHES),
    Row("100,000 brackets", b"[" * 100_000 + b"]" * 100_000, 200, PARSE_ERROR),
    Row("100,000 brackets in params", b'{"jsonrpc":"2.0","id":1,"method":"ping","params":{"a":' + b"[" * 100_000, 200,
        PARSE_ERROR),
    Row("5,000 digits", b'{"jsonrpc": "2.0", "id": ' + b"9" * 5000 + b', "method": "ping"}', 200, PARSE_ERROR),
    Row("a compressed body", b"\x1f\x8b", 200, PARSE_ERROR, {"content-encoding": "gzip"}),
    Row("a megabyte too much", b" " * 1_100_000, 200,
        error("The request is larger than 1024 kB; send less", None)),
    Row("a length that is none", json.dumps(PING).encode(), 200, PARSE_ERROR, {"content-length": "many"}),
    Row("a batch", [PING, PING], 200, NO_BATCHES),
    Row("an empty batch", [], 200, NO_BATCHES),
    *(Row(f"a bare {value!r}", value, 200, NO_BATCHES) for value in ("text", 7, 1.5, True, None)),
    Row("no id", {"jsonrpc": "2.0", "method": "ping"}, 200, NO_ID),
    Row("no id and no method", {}, 200, NO_ID),
    Row("no id and a method that is no text", {"jsonrpc": "2.0", "method": 7}, 200, NO_ID),
    *(
        Row(f"the id {value!r}", {**PING, "id": value}, 200, INVALID_ID)
        for value in (None, True, False, 1.5, 1.0, [], {}, [1], {"a": 1})
    ),
    *(
        Row(f"the id {value!r:.40} comes back", {**PING, "id": value}, 200, {**PONG, "id": value})
        for value in (
            0, -1, "0", "", "a" * 1000, "ü\u2028\"\\", 2**53, -(2**63), 2**64 - 1, 2**64, -(2**70), 10**300,
        )
    ),
    Row("no jsonrpc", {"id": 1, "method": "ping"}, 200, error('Invalid request: jsonrpc must be "2.0"')),
    *(
        Row(f"jsonrpc {value!r}", {**PING, "jsonrpc": value}, 200, error('Invalid request: jsonrpc must be "2.0"'))
        for value in ("1.0", "2", 2.0, 2, None, ["2.0"])
    ),
    *(
        Row(f"the method {value!r}", {**PING, "method": value}, 200, error("Invalid request: method must be a string"))
        for value in (None, 7, ["ping"], {})
    ),
    Row("no method", {"jsonrpc": "2.0", "id": 1}, 200, error("Invalid request: method must be a string")),
    *(
        Row(f"params {value!r}", {**PING, "params": value}, 200, error("Invalid request: params must be an object"))
        for value in ([], "a", 7, None, False)
    ),
    Row("an answer of the client", {"jsonrpc": "2.0", "id": 1, "result": {}}, 200,
        error("Invalid request: the server asks nothing, so it takes no answers", None)),
    Row("unknown members", {**PING, "extra": 1, "params": {"_meta": {"progressToken": 1}}}, 200, PONG),
    Row("an initialized client", {"jsonrpc": "2.0", "method": "notifications/initialized"}, 202),
    Row("any notification", {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 1}}, 202),
    Row("a broken notification", {"method": "notifications/x", "jsonrpc": 1, "params": 7}, 202,
        headers={"mcp-protocol-version": "1999-01-01"}),
    Row("a notification with an id is a call of an unknown method",
        {"jsonrpc": "2.0", "id": 5, "method": "notifications/initialized"}, 200,
        error("Unknown method: notifications/initialized", 5)),
    Row("a notification with the id null", {"jsonrpc": "2.0", "id": None, "method": "notifications/initialized"}, 200,
        INVALID_ID),
]  # fmt: skip

METHODS = [
    Row("ping", PING, 200, PONG),
    Row("ping with empty params", {**PING, "params": {}}, 200, PONG),
    *(
        Row(f"the unknown method {method}", {**PING, "method": method, "params": {}}, 200,
            error(f"Unknown method: {method}"))
        for method in ("server/discover", "prompts/list", "resources/list", "logging/setLevel", "Ping", "", "tools")
    ),
    *(
        Row(f"version {version} in the header", PING, 200, PONG, {"mcp-protocol-version": version})
        for version in ("2024-11-05", "2025-03-26", "2025-06-18")
    ),
    *(
        Row(f"version {version!r} in the header", PING, 200,
            error("Unsupported MCP-Protocol-Version; supported are 2024-11-05, 2025-03-26, 2025-06-18"),
            {"mcp-protocol-version": version})
        for version in ("2025-11-25", "", "x", "2024-11-05, 2025-03-26")
    ),
    Row("initialize without params", {**PING, "method": "initialize"}, 200,
        error("Invalid arguments for initialize: params is missing")),
    *(
        Row(f"initialize without {name}",
            {**PING, "method": "initialize", "params": {key: INITIALIZE[key] for key in INITIALIZE if key != name}},
            200,
            error(f"Invalid arguments for initialize: missing required arguments: {name}"))
        for name in ("protocolVersion", "capabilities", "clientInfo")
    ),
    Row("initialize without anything", {**PING, "method": "initialize", "params": {}}, 200,
        error("Invalid arguments for initialize: missing required arguments: protocolVersion, capabilities, "
              "clientInfo")),
    Row("a version that is no text", {**PING, "method": "initialize", "params": {"protocolVersion": 5}}, 200,
        error("Invalid arguments for initialize: protocolVersion must be a string")),
    Row("capabilities that are no object",
        {**PING, "method": "initialize", "params": {**INITIALIZE, "capabilities": []}}, 200,
        error("Invalid arguments for initialize: capabilities must be an object")),
    Row("tools/call without params", {**PING, "method": "tools/call"}, 200,
        error("Invalid arguments for tools/call: name must be the name of a tool")),
    Row("an unknown tool", call_of("nope", {}), 200, error("Unknown tool: nope")),
    Row("a tool in other letters", call_of("Ask_Archive", {"question": "x"}), 200, error("Unknown tool: Ask_Archive")),
    Row("arguments that are no object", call_of("ask_archive", ["x"]), 200,
        error("Invalid arguments for ask_archive: arguments must be an object")),
    Row("no arguments", {**PING, "method": "tools/call", "params": {"name": "ask_archive"}}, 200,
        error("Invalid arguments for ask_archive: missing required arguments: question")),
    Row("null where an argument is required", call_of("ask_archive", {"question": None}), 200,
        error("Invalid arguments for ask_archive: missing required arguments: question")),
    Row("all that is missing at once", call_of("get_archive_article", {}), 200,
        error("Invalid arguments for get_archive_article: missing required arguments: product_id, offset")),
    *(
        Row(f"the question {value!r}", call_of("ask_archive", {"question": value}), 200,
            error("Invalid arguments for ask_archive: question must be a string"))
        for value in (7, True, [], {}, ["x"])
    ),
    *(
        Row(f"the question {value!r}", call_of("ask_archive", {"question": value}), 200,
            error("Invalid arguments for ask_archive: question must not be empty"))
        for value in ("", "  \n")
    ),
    Row("a question of a book's length", call_of("ask_archive", {"question": "a" * 4001}), 200,
        error("Invalid arguments for ask_archive: question is longer than 4000 characters; shorten it")),
    Row("a skill that is no text", call_of("ask_archive", {"question": "x", "skill_used": 7}), 200,
        error("Invalid arguments for ask_archive: skill_used must be a string")),
    Row("context that is no text", call_of("ask_archive", {"question": "x", "context": {"a": 1}}), 200,
        error("Invalid arguments for ask_archive: context must be a string")),
    *(
        Row(f"the offset {value!r}", call_of("get_archive_article", {"product_id": "na-1002", "offset": value}), 200,
            error("Invalid arguments for get_archive_article: offset must be an integer"))
        for value in ("61", True, 1.5, [], {})
    ),
    *(
        Row(f"the made-up offset {value!r}", call_of("get_archive_article", {"product_id": "na-1002", "offset": value}),
            200, error(NOT_ISSUED))
        for value in (0, 1, -1, 61, 2**53 - 1, 2**53, 2**64, -(2**80), 1e300)
    ),
    Row("an unknown product", call_of("get_archive_article", {"product_id": "na-1", "offset": 0}), 200,
        error(NOT_ISSUED)),
    Row("a product that is no text", call_of("get_archive_article", {"product_id": 1002, "offset": 0}), 200,
        error("Invalid arguments for get_archive_article: product_id must be a string")),
    Row("nothing is found", call_of("ask_archive", {"question": "zzz"}), 200,
        {"jsonrpc": "2.0", "id": 1, "result": {"content": [{"type": "text", "text": '{"results":[]}'}],
         "structuredContent": {"results": []}, "isError": False}}),
]  # fmt: skip


@pytest.mark.parametrize("row", [*TRANSPORT, *ENVELOPE, *METHODS], ids=lambda row: row.name)
async def test_every_row_is_answered_exactly(row: Row, corner: ArchiveCorner) -> None:
    body = (
        row.body
        if isinstance(row.body, bytes)
        else b""
        if row.method != "POST"
        else json.dumps(row.body).encode()
    )
    headers = dict(row.headers)
    if "x-scheme" in headers:
        headers["authorization"] = f"{headers['x-scheme']!s} {corner.token()}"
    answer = await corner.post(body, token=row.token, headers=headers, method=row.method, target=row.target)
    assert answer.status == row.expect, answer
    assert len(answer.names) == len(set(answer.names)), answer.names
    if row.exactly is None:
        assert answer.body == b""
        assert answer.headers["content-length"] == "0" or row.method == "HEAD"
    else:
        assert answer.headers["content-type"] == "application/json"
        assert differences(row.exactly, answer.json(), whole=True) == []
    for name, value in row.header.items():
        assert answer.headers.get(name) == (None if value == "<absent>" else value), name
    if row.expect != 401:
        assert "www-authenticate" not in answer.headers
    assert "mcp-session-id" not in answer.headers


class ChosenApp(DefaultArchive):
    """The choice of an administrator."""

    app_id = "news"

    def default_archive_app(self, default: str) -> str:
        assert default == "playground"
        return self.app_id


async def test_agents_read_the_chosen_app_without_a_restart() -> None:
    chosen = ChosenApp()
    corner = await open_archive_corner(apps=chosen)
    (first, *_) = await corner.ask("river water rules")
    chosen.app_id = "second"
    await corner.ask("river water rules")
    assert [query.app_id for query in corner.archive.queries] == ["news", "second"]
    again = await corner.tool(
        "get_archive_article", {"product_id": first["product_id"], "offset": first["offset"]}
    )
    assert "ask_archive first" in again["error"]["message"]

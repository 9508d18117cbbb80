"""Calls of the archive's MCP endpoint over the playground's newspaper: methods, both tools, all refusals."""

from __future__ import annotations

import json
from typing import Any

from cluster.records.account import Grant
from tests.fakes.archive_oauth import RESOURCE
from tests.fakes.golden_questions import read_golden_questions
from tests.golden.caller import Caller
from tests.golden.installation import Installation, parsed

_HOST = "news.example.com"
_BETWEEN_MS = 3_000
"Pause between calls of tools, so that no limit is met."
_CALLS: list[Any] = [
    {"method": "ping"},
    {"method": "initialize"},
    {"method": "tools/list"},
    {"method": "tools/list", "params": {"cursor": "x"}},
    {
        "method": "initialize",
        "params": {
            "protocolVersion": "2024-11-05",
            "capabilities": {},
            "clientInfo": {"name": "x", "version": "1"},
        },
    },
    {
        "method": "initialize",
        "params": {"protocolVersion": "2030-01-01", "capabilities": {}, "clientInfo": {}},
    },
    {"method": "initialize", "params": {"protocolVersion": 5}},
    {"method": "resources/list"},
    {"method": "prompts/list"},
    {"method": "tools/call"},
    {"method": "tools/call", "params": {}},
    {"method": "tools/call", "params": {"name": "nothing"}},
    {"method": "tools/call", "params": {"name": 5}},
    {"method": "tools/call", "params": []},
    {"method": 5},
    {},
    {"method": "ping", "id": None},
    {"method": "ping", "id": {}},
    {"method": "ping", "id": 1.5},
    {"method": "ping", "id": "text"},
    {"method": "ping", "jsonrpc": "1.0"},
    {"method": "notifications/initialized", "id": ...},
    {"method": "ping", "id": ...},
]
_ARGUMENTS: list[Any] = [
    {},
    {"question": ""},
    {"question": "  "},
    {"question": 5},
    {"question": "x" * 4_001},
    {"question": "river", "context": 5},
    {"question": "river", "rows": 3},
    {"question": "river", "rows": "3"},
    {"question": "river", "skill_used": "s" * 600},
    {"question": "river", "skill_used": "digest", "context": "water law"},
    "text",
    None,
    [],
    {"question": None},
]
_WRONG_ARTICLES: list[Any] = [
    {},
    {"product_id": "ardle-water-treaty"},
    {"product_id": "ardle-water-treaty", "offset": 0},
    {"product_id": "x", "offset": "one"},
    {"product_id": 5, "offset": 5},
    {"product_id": "x" * 600, "offset": 1},
    {"product_id": "ardle-water-treaty", "offset": 2.0},
    {"product_id": "ardle-water-treaty", "offset": -1},
]


def make_token(process: Installation) -> str:
    """Make an access token as a finished sign-in does."""
    grant = Grant(
        grant_id="grant-golden",
        user_id="ida",
        username="ida",
        client_id="client-1",
        client_name="Agent",
        resource=RESOURCE,
        created_at=process.world.clock.now_ms(),
    )
    return process.archive.oauth.access_tokens.issue(grant, 7_200)


async def use_archive(caller: Caller, token: str) -> None:
    """Call all methods and tools."""
    signed = {"host": _HOST, "authorization": f"Bearer {token}", "content-type": "application/json"}
    for call in _CALLS:
        message = {
            name: value for name, value in {"jsonrpc": "2.0", "id": 1, **call}.items() if value is not ...
        }
        await caller.send(
            "POST", "/mcp", json=message, headers=signed, what=str(call.get("method", "no method"))
        )
    for raw in (
        b"",
        b"{",
        b"[]",
        b"[{}]",
        b"\xff",
        b"null",
        b"7",
        b'{"a":' * 500,
        b'{"jsonrpc":"2.0","id":1,"id":2}',
    ):
        await caller.send("POST", "/mcp", body=raw, headers=signed, what="raw")
    for arguments in _ARGUMENTS:
        await _tool(caller, signed, "ask_archive", arguments)
    for arguments in _WRONG_ARTICLES:
        await _tool(caller, signed, "get_archive_article", arguments)
    questions = [golden.question for golden in read_golden_questions()] + [
        "tulip",
        "Vertrag Fluss",
        "2024",
        "sport results",
        "zzz",
    ]
    for number, question in enumerate(questions):
        more = {"context": "I write about water."} if number % 5 == 0 else {}
        answer = await _tool(caller, signed, "ask_archive", {"question": question, **more})
        results = parsed(answer.body).get("result", {}).get("structuredContent", {}).get("results", [])
        for result in results[: 2 if number % 3 == 0 else 0]:
            chosen = {"product_id": result["product_id"], "offset": result["offset"]}
            await _tool(caller, signed, "get_archive_article", chosen)


async def refuse_transport(caller: Caller, token: str) -> None:
    """Send what is refused before a message is read."""
    ping = {"jsonrpc": "2.0", "id": 1, "method": "ping"}
    signed = {"host": _HOST, "authorization": f"Bearer {token}"}
    for method in ("GET", "PUT", "DELETE", "PATCH", "HEAD", "OPTIONS", "BREW"):
        for target in ("/mcp", "/mcp/"):
            await caller.send(method, target, headers=signed)
    for value in (
        "",
        "Bearer ",
        "Bearer made-up",
        "Basic YTpi",
        f"bearer {token}",
        f"Bearer {token}x",
        token,
    ):
        await caller.send(
            "POST", "/mcp", json=ping, headers={"host": _HOST, "authorization": value}, what="token"
        )
    await caller.send("POST", "/mcp", json=ping, headers={"host": _HOST}, what="no token")
    await caller.send("POST", "/mcp", body=b"{nonsense", headers={"host": _HOST}, what="no token and no JSON")
    origins = [
        "https://evil.example",
        "null",
        "https://news.example.com",
        "http://localhost:3000",
        "https://tools.example.org",
        "chrome-extension://abcdef",
        "file://",
        "https://news.example.com.evil.example",
        "",
    ]
    for origin in origins:
        for method in ("POST", "OPTIONS"):
            await caller.send(
                method, "/mcp", json=ping, headers={**signed, "origin": origin}, what=f"{method} {origin}"
            )
    for name, value in (
        ("host", "evil.example"),
        ("mcp-protocol-version", "1999-01-01"),
        ("accept", "text/html"),
        ("content-type", "text/plain"),
        ("mcp-session-id", "x"),
        ("content-encoding", "gzip"),
    ):
        await caller.send("POST", "/mcp", json=ping, headers={**signed, name: value}, what=f"{name}: {value}")


async def _tool(caller: Caller, signed: dict[str, str], name: str, arguments: Any) -> Any:
    message = {
        "jsonrpc": "2.0",
        "id": 7,
        "method": "tools/call",
        "params": {"name": name, "arguments": arguments},
    }
    return await caller.send("POST", "/mcp", body=json.dumps(message).encode(), headers=signed, what=name)

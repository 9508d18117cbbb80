"""Requests of MCP revision 2026-07-28 at `POST /mcp`, row by row: era, order of checks, results, refusals."""

from __future__ import annotations

import base64
import json
from dataclasses import dataclass, field
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from cluster.errors import Unavailable
from tests.fakes.archive import NOT_ISSUED, ArchiveCorner, open_archive_corner
from tests.fakes.asgi import Answer

NOW = "2026-07-28"
VERSION = "io.modelcontextprotocol/protocolVersion"
CAPABILITIES = "io.modelcontextprotocol/clientCapabilities"
SERVER = {
    "io.modelcontextprotocol/serverInfo": {
        "name": "archive", "title": "News Archive Search", "version": "0.1.0"
    }
}  # fmt: skip
ENVELOPE = {VERSION: NOW, CAPABILITIES: {}}
OLD_VERSION = "Unsupported MCP-Protocol-Version; supported are 2024-11-05, 2025-03-26, 2025-06-18"


async def send(corner: ArchiveCorner, body: Any, headers: dict[str, str] | None = None) -> Answer:
    """Post a body, as JSON unless it is bytes."""
    raw = body if isinstance(body, bytes) else json.dumps(body).encode()
    return await corner.post(raw, headers=headers or {})


def message(method: str, *, envelope: Any = ENVELOPE, id: Any = 7, **params: Any) -> dict[str, Any]:
    """Write a request with its envelope."""
    return {"jsonrpc": "2.0", "id": id, "method": method, "params": {"_meta": envelope, **params}}


def headers_of(body: dict[str, Any], **more: str) -> dict[str, str]:
    """Return the headers that a correct client sends with a request."""
    named = {"mcp-name": body["params"]["name"]} if "name" in body["params"] else {}
    return {"mcp-protocol-version": NOW, "mcp-method": body["method"], **named, **more}


async def call_tool(corner: ArchiveCorner, tool: str, **arguments: Any) -> dict[str, Any]:
    """Call a tool as a correct client, and return the result."""
    body = message("tools/call", name=tool, arguments=arguments)
    answer = await send(corner, body, headers_of(body))
    assert answer.status == 200
    result: dict[str, Any] = answer.json()["result"]
    assert result["resultType"] == "complete"
    assert result["_meta"] == SERVER
    assert not {"ttlMs", "cacheScope"} & set(result)
    return result


@dataclass(frozen=True)
class Row:
    """One rule: a request, its status and the code of its error; no code: a result."""

    name: str
    body: Any
    status: int
    code: int | None = None
    headers: dict[str, str] = field(default_factory=dict)
    id: Any = 7


DISCOVER = message("server/discover")
ASK = message("tools/call", name="ask_archive", arguments={"question": "river"})
NEW = {"mcp-protocol-version": NOW}
LATER = {**ENVELOPE, VERSION: "2027-01-01"}
OLD_KEY = {**ENVELOPE, VERSION: "2025-11-25"}
PING = {"jsonrpc": "2.0", "id": 7, "method": "ping"}

ERAS = [
    Row("the envelope selects the new era", DISCOVER, 200, None, headers_of(DISCOVER)),
    Row("the envelope without the header is refused", DISCOVER, 400, -32020, {"mcp-method": "server/discover"}),
    Row("the envelope with an old header is refused", DISCOVER, 400, -32020,
        headers_of(DISCOVER) | {"mcp-protocol-version": "2025-06-18"}),
    Row("an envelope that names a handshake revision is old", {**PING, "params": {"_meta": OLD_KEY}}, 200, -32603,
        {"mcp-protocol-version": "2025-11-25"}),
    Row("an envelope that names a spoken handshake revision is old",
        {**PING, "params": {"_meta": {VERSION: "2025-06-18"}}}, 200, None, {"mcp-protocol-version": "2025-06-18"}),
    Row("the new header without an envelope is new, and refused", PING, 400, -32602, NEW),
    Row("a later date in the header is new, too", PING, 400, -32602, {"mcp-protocol-version": "2031-01-01"}),
    Row("no envelope and no header is old", PING, 200),
    Row("a text that is no date is old", PING, 200, -32603, {"mcp-protocol-version": "9999"}),
    Row("only progressToken is old", {**PING, "params": {"_meta": {"progressToken": 1}}}, 200),
    Row("server/discover without an envelope is an unknown method of the old era",
        {"jsonrpc": "2.0", "id": 7, "method": "server/discover"}, 200, -32603),
]  # fmt: skip

CHECKS = [
    Row("1: no JSON", b"{", 400, -32700, NEW, None),
    Row("2: a batch", [DISCOVER], 400, -32600, NEW, None),
    Row("2: a posted response", {"jsonrpc": "2.0", "id": 7, "result": {}}, 400, -32600, NEW, None),
    Row("2: jsonrpc is not 2.0", {**DISCOVER, "jsonrpc": "1.0"}, 400, -32600, NEW),
    Row("2: the method is no text", {**DISCOVER, "method": 5}, 400, -32600, NEW),
    Row("2: the id is null", {**DISCOVER, "id": None}, 400, -32600, NEW, None),
    Row("2: the id is an object", {**DISCOVER, "id": {}}, 400, -32600, NEW, None),
    Row("2: a fault of form is found by the envelope alone", {**DISCOVER, "jsonrpc": "1.0"}, 400, -32600),
    Row("3: params is no object", {**DISCOVER, "params": []}, 400, -32602, NEW),
    Row("3: _meta is no object", message("server/discover", envelope="x"), 400, -32602, NEW),
    Row("3: the capabilities are missing", message("server/discover", envelope={VERSION: NOW}), 400, -32602,
        headers_of(DISCOVER)),
    Row("3: the capabilities are no object", message("server/discover", envelope={**ENVELOPE, CAPABILITIES: []}),
        400, -32602, headers_of(DISCOVER)),
    Row("3: the version is no text", message("server/discover", envelope={**ENVELOPE, VERSION: 5}), 400, -32602,
        headers_of(DISCOVER)),
    Row("3 comes before 4", message("server/discover", envelope={VERSION: NOW}), 400, -32602, NEW),
    Row("4: Mcp-Method is missing", DISCOVER, 400, -32020, NEW),
    Row("4: Mcp-Method differs", DISCOVER, 400, -32020, headers_of(DISCOVER, **{"mcp-method": "tools/list"})),
    Row("4: Mcp-Method differs in case", DISCOVER, 400, -32020,
        headers_of(DISCOVER) | {"mcp-method": "Server/Discover"}),
    Row("4: Mcp-Name is missing", ASK, 400, -32020, {**NEW, "mcp-method": "tools/call"}),
    Row("4: Mcp-Name differs", ASK, 400, -32020, headers_of(ASK) | {"mcp-name": "search"}),
    Row("4: the base64 form is broken", ASK, 400, -32020, headers_of(ASK) | {"mcp-name": "=?base64?%%?="}),
    Row("4: Mcp-Name is ignored for other methods", DISCOVER, 200, None, headers_of(DISCOVER) | {"mcp-name": "x"}),
    Row("4: blanks around a header are dropped", DISCOVER, 200, None,
        headers_of(DISCOVER) | {"mcp-method": " server/discover "}),
    Row("4 comes before 5", message("server/discover", envelope=LATER), 400, -32020, headers_of(DISCOVER)),
    Row("5: another version", message("server/discover", envelope=LATER), 400, -32022,
        headers_of(DISCOVER) | {"mcp-protocol-version": "2027-01-01"}),
    Row("5 comes before 6", message("x", envelope=LATER), 400, -32022,
        {"mcp-protocol-version": "2027-01-01", "mcp-method": "x"}),
    *(
        Row(f"6: {method} is unknown", message(method), 404, -32601, headers_of(message(method)))
        for method in ("initialize", "ping", "logging/setLevel", "resources/subscribe", "subscriptions/listen", "x")
    ),
    Row("7: an unknown tool", message("tools/call", name="nothing"), 400, -32602,
        headers_of(message("tools/call", name="nothing"))),
    Row("7: no name of a tool", message("tools/call"), 400, -32602, headers_of(message("tools/call"))),
    Row("7: arguments are no object", message("tools/call", name="ask_archive", arguments=[]), 400, -32602,
        headers_of(ASK)),
    Row("7: a cursor", message("tools/list", cursor="x"), 400, -32602, headers_of(message("tools/list"))),
]  # fmt: skip


@pytest.mark.parametrize("row", [*ERAS, *CHECKS], ids=lambda row: row.name)
async def test_every_row_gets_its_status_and_code(corner: ArchiveCorner, row: Row) -> None:
    answer = await send(corner, row.body, row.headers)
    assert answer.status == row.status, answer
    document = answer.json()
    assert document["jsonrpc"] == "2.0"
    assert document["id"] == row.id
    assert document.get("error", {}).get("code") == row.code
    assert ("result" in document) == (row.code is None)


async def test_an_unknown_version_names_the_supported_one(corner: ArchiveCorner) -> None:
    body = message("server/discover", envelope=LATER)
    answer = await send(corner, body, headers_of(body) | {"mcp-protocol-version": "2027-01-01"})
    assert answer.json()["error"]["data"] == {"supported": [NOW], "requested": "2027-01-01"}


async def test_transport_checks_come_first_in_their_old_form(corner: ArchiveCorner) -> None:
    body, headers = json.dumps(DISCOVER).encode(), headers_of(DISCOVER)
    for method in ("GET", "DELETE", "PUT"):
        assert (await corner.post(b"", method=method, headers=headers)).status == 405
    foreign = await corner.post(body, headers=headers | {"origin": "https://evil.example"})
    assert (foreign.status, foreign.json()["error"]["code"]) == (403, "forbidden")
    nobody = await corner.post(body, token="", headers=headers)
    assert (nobody.status, nobody.json()["error"]["code"]) == (401, "unauthorized")


@pytest.mark.parametrize("method", ["notifications/initialized", "notifications/cancelled"])
async def test_notifications_are_accepted_and_dropped(corner: ArchiveCorner, method: str) -> None:
    body = {key: value for key, value in message(method).items() if key != "id"}
    answer = await send(corner, body, NEW)
    assert (answer.status, answer.body) == (202, b"")


async def test_discover_describes_the_server(corner: ArchiveCorner) -> None:
    answer = await send(corner, DISCOVER, headers_of(DISCOVER))
    result = answer.json()["result"]
    initialized = await corner.rpc(
        "initialize", {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "x"}}
    )
    assert result == {
        "resultType": "complete",
        "supportedVersions": [NOW],
        "capabilities": {"tools": {}},
        "instructions": initialized["result"]["instructions"],
        "ttlMs": 300_000,
        "cacheScope": "public",
        "_meta": SERVER,
    }


async def test_the_new_era_has_the_tools_of_connectors_and_the_old_one_has_not(corner: ArchiveCorner) -> None:
    body = message("tools/list")
    result = (await send(corner, body, headers_of(body))).json()["result"]
    assert [tool["name"] for tool in result["tools"]] == [
        "ask_archive",
        "get_archive_article",
        "check_citations",
        "search",
        "fetch",
    ]
    assert all(tool["annotations"]["readOnlyHint"] for tool in result["tools"])
    assert (result["resultType"], result["ttlMs"], result["cacheScope"]) == ("complete", 300_000, "public")
    assert "nextCursor" not in result
    old = (await corner.rpc("tools/list"))["result"]["tools"]
    assert old == result["tools"][:3]
    refused = await corner.tool("search", {"query": "river"})
    assert refused["error"]["message"] == "Unknown tool: search"


async def test_a_switch_shows_the_connectors_to_the_old_era() -> None:
    corner = await open_archive_corner(connectors=True)
    assert len((await corner.rpc("tools/list"))["result"]["tools"]) == 5
    assert (await corner.tool("search", {"query": "river"}))["result"]["structuredContent"]["results"]
    guide = await corner.post(b"", token="", method="GET", target="/llms.txt")
    assert b"with five tools" in guide.body
    assert b"- `search`: " in guide.body


async def test_search_and_fetch_have_the_form_of_connectors(corner: ArchiveCorner) -> None:
    reply = await call_tool(corner, "search", query="river rules")
    assert json.loads(reply["content"][0]["text"]) == reply["structuredContent"]
    assert len(reply["content"]) == 1
    first = reply["structuredContent"]["results"][0]
    assert (first["title"], first["url"]) == (
        "Parliament votes on river water rules",
        "https://news.example.com/articles/na-1002",
    )
    fetched = (await call_tool(corner, "fetch", id=first["id"]))["structuredContent"]
    assert set(fetched) == {"id", "title", "text", "url", "metadata"}
    assert fetched["id"] == first["id"]
    assert "The river rules passed by nine votes." in fetched["text"]
    assert fetched["metadata"]["published_date"] == "2020-11-19"
    assert fetched["metadata"]["citation_format"].startswith("[Parliament votes")
    assert all(isinstance(value, str) and value for value in fetched["metadata"].values())


async def test_an_article_without_an_address_still_has_one_to_cite(corner: ArchiveCorner) -> None:
    reply = await call_tool(corner, "search", query="comet returns june")
    assert {"na-8": "urn:article:na-8"}.items() <= {
        entry["id"].partition(".")[2]: entry["url"] for entry in reply["structuredContent"]["results"]
    }.items()


async def test_a_pair_belongs_to_the_person_in_both_eras(corner: ArchiveCorner) -> None:
    first = (await corner.ask("river rules"))[0]
    pair = {"product_id": first["product_id"], "offset": first["offset"]}
    assert (await call_tool(corner, "get_archive_article", **pair))["structuredContent"][
        "product_id"
    ] == "na-1002"
    results = (await call_tool(corner, "search", query="river rules"))["structuredContent"]["results"]
    article_id = results[0]["id"]
    body = message("tools/call", name="fetch", arguments={"id": article_id})
    other = await corner.post(json.dumps(body).encode(), token=corner.token("eve"), headers=headers_of(body))
    assert other.json()["result"]["isError"] is True
    offset, _, product_id = article_id.partition(".")
    article = await corner.tool("get_archive_article", {"product_id": product_id, "offset": int(offset)})
    assert article["result"]["structuredContent"]["product_id"] == "na-1002"


@pytest.mark.parametrize(
    ("tool", "arguments", "words"),
    [
        ("ask_archive", {}, "Invalid arguments for ask_archive: missing required arguments: question"),
        ("get_archive_article", {"product_id": "na-1002", "offset": 5}, NOT_ISSUED),
        ("fetch", {"id": "5.na-1002"}, "Invalid arguments for fetch: id was not returned by search; call search first"),
        ("fetch", {"id": "na-1002"}, "Invalid arguments for fetch: id was not returned by search; call search first"),
    ],
)  # fmt: skip
async def test_a_tool_refuses_with_a_result_that_a_model_reads(
    corner: ArchiveCorner, tool: str, arguments: dict[str, Any], words: str
) -> None:
    result = await call_tool(corner, tool, **arguments)
    assert result["isError"] is True
    assert "structuredContent" not in result
    assert result["content"] == [{"type": "text", "text": words}]
    if tool in ("ask_archive", "get_archive_article"):
        assert (await corner.tool(tool, arguments))["error"] == {"code": -32603, "message": words}


async def test_a_fault_of_the_server_keeps_status_200(corner: ArchiveCorner) -> None:
    corner.archive.wrong = RuntimeError("secret place")
    answer = await send(corner, ASK, headers_of(ASK))
    assert (answer.status, answer.json()["error"]["code"]) == (200, -32603)
    assert b"secret" not in answer.body


async def test_a_tool_refuses_with_a_result_also_while_tokens_can_not_be_checked(
    corner: ArchiveCorner, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def away(token: str, resource: str) -> None:
        raise Unavailable("away", retry_after_s=3)

    monkeypatch.setattr(corner.services.oauth.access_tokens, "find_caller", away)
    words = "The archive is busy or restarting; try again in 3 s"
    answer = (await send(corner, ASK, headers_of(ASK))).json()
    assert answer["result"]["content"] == [{"type": "text", "text": words}]
    assert (answer["id"], answer["result"]["isError"]) == (7, True)
    for body in (DISCOVER, PING):
        headers = headers_of(body) if body is DISCOVER else {}
        assert (await send(corner, body, headers)).json()["error"] == {"code": -32603, "message": words}


async def test_a_name_may_be_encoded(corner: ArchiveCorner) -> None:
    encoded = f"=?base64?{base64.b64encode(b'ask_archive').decode()}?="
    assert (await send(corner, ASK, headers_of(ASK) | {"mcp-name": encoded})).status == 200


_SCALARS = st.none() | st.booleans() | st.integers(-(10**6), 10**6) | st.text(max_size=8)
_VALUES = st.recursive(
    _SCALARS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
)
_META = st.fixed_dictionaries(
    {},
    optional={
        VERSION: st.sampled_from([NOW, "2025-06-18", "2027-01-01", "x"]) | _VALUES,
        CAPABILITIES: st.just({}) | _VALUES,
    },
)
_METHODS = st.sampled_from(["server/discover", "tools/list", "tools/call", "initialize", "ping"]) | _VALUES
_BODIES = st.fixed_dictionaries(
    {},
    optional={
        "jsonrpc": st.just("2.0") | _VALUES,
        "id": st.integers(0, 9) | _VALUES,
        "method": _METHODS,
        "params": st.fixed_dictionaries(
            {}, optional={"_meta": _META, "name": st.sampled_from(["search", "ask_archive"]) | _VALUES}
        )
        | _VALUES,
    },
)


@settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(body=_BODIES, version=st.sampled_from(["", NOW, "2025-06-18", "2027-01-01"]), method=_METHODS)
async def test_no_request_gets_a_server_error_or_the_form_of_the_other_era(
    body: dict[str, Any], version: str, method: Any
) -> None:
    corner = await open_archive_corner()
    headers = {"mcp-protocol-version": version} if version else {}
    if isinstance(method, str) and method.isascii() and method.isprintable():
        headers["mcp-method"] = method
    answer = await send(corner, body, headers)
    assert answer.status in (200, 202, 400, 404)
    if answer.status == 202:
        return
    document = answer.json()
    result, error = document.get("result"), document.get("error")
    assert (result is None) != (error is None)
    if answer.status != 200:
        assert error["code"] in (-32600, -32601, -32602, -32020, -32022)
    elif error is not None:
        assert error["code"] == -32603
    is_stateless = result is not None and "resultType" in result
    meta = body.get("params", {}).get("_meta") if isinstance(body.get("params"), dict) else None
    if is_stateless:
        assert (meta or {}).get(VERSION) == NOW == version

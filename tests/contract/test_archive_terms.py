"""Terms that machines read: licence files, headers, results of tools, pages; and no trace of them without terms."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from cluster.records.archive.archive_terms import ArchiveTerms
from cluster.records.archive.named_archive import NamedArchive
from cluster.records.archive.rsl_document import render_rsl
from tests.contract.mcp_eras.test_stateless import ENVELOPE
from tests.contract.test_named_archives import Apps
from tests.fakes.archive import HOST, ORIGIN, ArchiveCorner, open_archive_corner
from tests.fakes.asgi import Answer, call

SEARCH_ONLY = ArchiveTerms(permits=("search", "ai-input"), payment="attribution", holder="The Gazette")
AGENCY = ArchiveTerms(prohibits=("all",), paths=("/agency/",))
FILE = f"{ORIGIN}/mcp/license.xml"
LINK = f'<{FILE}>; rel="license"; type="application/rsl+xml"'
PREFERENCES = "train-ai=n, search=y"


@pytest.fixture
async def corner() -> ArchiveCorner:
    apps = Apps(
        {"sports": NamedArchive(title="Sports"), "wine": NamedArchive(title="Wine")},
        {"playground": {"": SEARCH_ONLY, "agency-wire": AGENCY}, "sports": {"": AGENCY}},
    )
    corner = await open_archive_corner(apps=apps)
    article = corner.archive.articles["na-8"]
    corner.archive.articles["na-8"] = replace(article, licence="Agency Wire")
    return corner


async def get(corner: ArchiveCorner, target: str, method: str = "GET", **headers: str) -> Answer:
    return await call(corner.app, method, target, headers={"host": HOST, **headers})


@pytest.mark.parametrize(
    ("target", "terms"),
    [
        ("/license.xml", [SEARCH_ONLY, AGENCY]), ("/mcp/license.xml", [SEARCH_ONLY, AGENCY]),
        ("/mcp/license-agency-wire.xml", [AGENCY]), ("/mcp/sports/license.xml", [AGENCY]),
    ],
)  # fmt: skip
async def test_licence_files_are_public_and_carry_a_tag(
    corner: ArchiveCorner, target: str, terms: list[ArchiveTerms]
) -> None:
    answer = await get(corner, target)
    assert (answer.status, answer.headers["content-type"]) == (200, "application/rsl+xml")
    assert answer.body.decode() == render_rsl(terms)
    assert answer.headers["access-control-allow-origin"] == "*"
    again = await get(corner, target, **{"if-none-match": answer.headers["etag"]})
    assert (again.status, again.body) == (304, b"")
    assert (await get(corner, target, "POST")).status == 405


@pytest.mark.parametrize(
    "target",
    [
        "/mcp/wine/license.xml", "/mcp/nobody/license.xml", "/mcp/license-cc.xml",
        "/mcp/sports/license-agency-wire.xml",
        "/mcp/license-.xml", "/mcp/license-%2e%2e%2fx.xml",
    ],
)  # fmt: skip
async def test_there_are_no_files_of_other_terms(corner: ArchiveCorner, target: str) -> None:
    answer = await get(corner, target)
    assert answer.status in (404, 405)
    assert b"rsl" not in answer.body


async def test_replies_and_pages_lead_to_the_terms(corner: ArchiveCorner) -> None:
    ping = await corner.post(b'{"jsonrpc": "2.0", "id": 1, "method": "ping"}')
    assert (ping.headers["link"], ping.headers["content-usage"]) == (LINK, PREFERENCES)
    for page in ("/llms.txt", "/mcp/server-card", "/.well-known/mcp-server-card"):
        answer = await get(corner, page)
        assert (answer.headers["link"], answer.headers["content-usage"]) == (LINK, PREFERENCES), page
    assert f"[Terms for machines (RSL)]({FILE})." in (await get(corner, "/llms.txt")).body.decode()
    sports = await get(corner, "/mcp/sports/llms.txt")
    assert sports.headers["link"] == LINK.replace("/mcp/", "/mcp/sports/")
    assert sports.headers["content-usage"] == "train-ai=n, search=n"
    wine = await get(corner, "/mcp/wine/llms.txt")
    assert wine.status == 200
    assert not {"link", "content-usage"} & wine.headers.keys()


async def read(corner: ArchiveCorner, product_id: str) -> dict[str, Any]:
    results = await corner.ask("comet river water rules")
    pair = next(result for result in results if result["product_id"] == product_id)
    answer = await corner.tool("get_archive_article", {"product_id": product_id, "offset": pair["offset"]})
    article: dict[str, Any] = answer["result"]["structuredContent"]
    return article


async def test_results_name_the_terms_of_the_archive_and_of_each_article(corner: ArchiveCorner) -> None:
    answered = await corner.tool("ask_archive", {"question": "comet river water rules"})
    document = answered["result"]["structuredContent"]
    assert (document["license_url"], document["content_usage"]) == (FILE, PREFERENCES)
    named = {result["product_id"]: result.get("license_url") for result in document["results"]}
    assert named == {"na-1002": None, "na-7 (b)": None, "na-8": f"{ORIGIN}/mcp/license-agency-wire.xml"}
    article = await read(corner, "na-1002")
    assert (article["license_url"], article["content_usage"]) == (FILE, PREFERENCES)
    wire = await read(corner, "na-8")
    assert (wire["license_url"], wire["content_usage"]) == (named["na-8"], "train-ai=n, search=n")
    followed = await get(corner, wire["license_url"].removeprefix(ORIGIN))
    assert b'<prohibits type="usage">all</prohibits>' in followed.body


async def test_connectors_read_the_terms_in_the_metadata(corner: ArchiveCorner) -> None:
    listed = await stateless(corner, "search", {"query": "comet"})
    assert listed.keys() == {"results"}, "connectors expect nothing else"
    product = next(result for result in listed["results"] if result["id"].endswith("na-8"))
    article = await stateless(corner, "fetch", {"id": product["id"]})
    assert article["metadata"]["license_url"] == f"{ORIGIN}/mcp/license-agency-wire.xml"
    assert article["metadata"]["content_usage"] == "train-ai=n, search=n"


async def stateless(corner: ArchiveCorner, name: str, arguments: dict[str, str]) -> dict[str, Any]:
    message = {
        "jsonrpc": "2.0", "id": 1, "method": "tools/call",
        "params": {"_meta": ENVELOPE, "name": name, "arguments": arguments},
    }  # fmt: skip
    headers = {"mcp-protocol-version": "2026-07-28", "mcp-method": "tools/call", "mcp-name": name}
    answer = await corner.post(json.dumps(message).encode(), headers=headers)
    assert answer.headers["link"] == LINK
    document: dict[str, Any] = answer.json()["result"]["structuredContent"]
    return document


async def test_without_terms_nothing_differs(corner: ArchiveCorner) -> None:
    bare = await open_archive_corner()
    corner.services.apps.list_archive_terms().clear()  # type: ignore[attr-defined]
    for each in (bare, corner):
        answer = await each.post(b'{"jsonrpc": "2.0", "id": 1, "method": "ping"}')
        assert not {"link", "content-usage"} & answer.headers.keys()
        answered = await each.tool("ask_archive", {"question": "comet"})
        assert answered["result"]["structuredContent"].keys() == {"results"}
        assert "license_url" not in await read(each, "na-8")
        assert (await get(each, "/license.xml")).status == 404
        assert "RSL" not in (await get(each, "/llms.txt")).body.decode()


async def test_changed_terms_apply_at_once(corner: ArchiveCorner) -> None:
    tag = (await get(corner, "/mcp/license.xml")).headers["etag"]
    corner.services.apps.list_archive_terms()["playground"][""] = AGENCY  # type: ignore[index]
    changed = await get(corner, "/mcp/license.xml", **{"if-none-match": tag})
    assert changed.status == 200
    ping = await corner.post(b'{"jsonrpc": "2.0", "id": 1, "method": "ping"}')
    assert ping.headers["content-usage"] == "train-ai=n, search=n"

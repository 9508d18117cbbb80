from __future__ import annotations

import re
from typing import Any

import pytest

from deployments.archive.card import DESCRIPTION, build_card, list_installs
from deployments.archive.citation import CitationRules
from tests.fakes.archive import BASE, ArchiveCorner, open_archive_corner

CARD = "/.well-known/mcp-server-card"
GUIDE = "/llms.txt"


@pytest.fixture
async def corner() -> ArchiveCorner:
    return await open_archive_corner(
        title="The Gazette", citation=CitationRules("CC BY 4.0", "Name the Gazette."), version="9.9"
    )


async def fetch(corner: ArchiveCorner, target: str, method: str = "GET", **headers: str) -> Any:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return await corner.post(b"", token="", method=method, target=target, headers=named)


@pytest.mark.parametrize("path", [CARD, "/mcp/server-card"])
async def test_the_card_tells_the_live_configuration_to_everybody(corner: ArchiveCorner, path: str) -> None:
    answer = await fetch(corner, path)
    assert answer.status == 200
    assert answer.headers["access-control-allow-origin"] == "*"
    assert answer.headers["cache-control"] == "public, max-age=3600"
    assert answer.json() == {
        "$schema": "https://static.modelcontextprotocol.io/schemas/v1/server-card.schema.json",
        "name": "com.example.news/archive",
        "version": "9.9",
        "title": "The Gazette",
        "description": DESCRIPTION,
        "websiteUrl": f"{BASE}/llms.txt",
        "remotes": [
            {
                "type": "streamable-http",
                "url": f"{BASE}/mcp",
                "supportedProtocolVersions": ["2024-11-05", "2025-03-26", "2025-06-18"],
            }
        ],
    }


def test_names_and_lengths_fit_the_draft_schema() -> None:
    assert len(DESCRIPTION) <= 100
    for base in (BASE, "http://127.0.0.1:8000", "http://[::1]:8000", "http://localhost:8000"):
        assert re.fullmatch(r"[a-zA-Z0-9.-]+/[a-zA-Z0-9._-]+", build_card(base, "t", "1")["name"])


async def test_the_guide_names_every_address_tool_and_the_licence(corner: ArchiveCorner) -> None:
    answer = await fetch(corner, GUIDE)
    assert answer.headers["content-type"] == "text/plain; charset=utf-8"
    text = answer.body.decode()
    assert text.startswith("# The Gazette\n")
    for wanted in (f"{BASE}/mcp", "ask_archive", "get_archive_article", "citation_format", "mcp-remote",
                   "Creative Commons Attribution 4.0", "Name the Gazette.", f"{BASE}{CARD}"):  # fmt: skip
        assert wanted in text, wanted
    assert all(f"{BASE}/mcp" in how for _, how in list_installs(f"{BASE}/mcp"))
    assert not re.search(r"(?<!\{)\{[a-z]+\}(?!\})", text), "a place was not filled in"


@pytest.mark.parametrize("path", [CARD, GUIDE])
async def test_an_unchanged_list_is_not_sent_again(corner: ArchiveCorner, path: str) -> None:
    tag = (await fetch(corner, path)).headers["etag"]
    again = await fetch(corner, path, if_none_match=f'W/"x", W/{tag}')
    assert (again.status, again.body) == (304, b"")
    assert again.headers["etag"] == tag
    other = await open_archive_corner(title="Another")
    assert (await fetch(other, path, if_none_match=tag)).status == 200


@pytest.mark.parametrize("path", [CARD, GUIDE])
async def test_pages_are_for_reading_only(corner: ArchiveCorner, path: str) -> None:
    head = await fetch(corner, path, "HEAD")
    assert (head.status, head.body) == (200, b"")
    wrong = await fetch(corner, path, "POST")
    assert (wrong.status, wrong.headers["allow"]) == (405, "GET, HEAD")
    asked = await fetch(
        corner, path, "OPTIONS", origin="https://x.example", access_control_request_method="GET"
    )
    assert asked.status == 204
    assert "MCP-Protocol-Version" in asked.headers["access-control-allow-headers"]


@pytest.mark.parametrize("path", [CARD, GUIDE])
async def test_a_strangers_host_header_is_never_repeated(corner: ArchiveCorner, path: str) -> None:
    answer = await fetch(corner, path, host="evil.example", x_forwarded_host="evil.example")
    assert b"evil.example" not in answer.body

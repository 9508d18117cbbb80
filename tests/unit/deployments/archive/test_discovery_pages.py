from __future__ import annotations

import re
from dataclasses import replace
from datetime import date
from typing import Any

import pytest

from cluster.errors import Invalid, InvalidSetting
from cluster.settings import Settings
from deployments.api.http.docs import render_docs
from deployments.api.http.openapi import extend_openapi
from deployments.archive.archive_apps import DefaultArchive
from deployments.archive.archive_config import ArchiveConfig
from deployments.archive.citation_rules import CitationRules
from deployments.archive.discovery_pages import (
    DESCRIPTION,
    build_card,
    build_catalog,
    build_server_json,
    list_install_instructions,
)
from deployments.archive.openapi import describe_archive
from deployments.archive.tools import TOOLS, Tool, ToolDeprecation
from tests.fakes.archive import ORIGIN, ArchiveCorner, open_archive_corner

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


@pytest.mark.parametrize(
    ("path", "kind", "newest"),
    [
        (CARD, "application/json", []),
        ("/mcp/server-card", "application/mcp-server-card+json", ["2026-07-28"]),
    ],
)
async def test_the_card_tells_the_live_configuration_to_everybody(
    corner: ArchiveCorner, path: str, kind: str, newest: list[str]
) -> None:
    answer = await fetch(corner, path)
    assert answer.status == 200
    assert answer.headers["content-type"] == kind
    assert answer.headers["access-control-allow-origin"] == "*"
    assert answer.headers["cache-control"] == "public, max-age=3600"
    assert answer.json() == {
        "$schema": "https://static.modelcontextprotocol.io/schemas/v1/server-card.schema.json",
        "name": "com.example.news/archive",
        "version": "9.9",
        "title": "The Gazette",
        "description": DESCRIPTION,
        "websiteUrl": f"{ORIGIN}/llms.txt",
        "remotes": [
            {
                "type": "streamable-http",
                "url": f"{ORIGIN}/mcp",
                "supportedProtocolVersions": ["2024-11-05", "2025-03-26", "2025-06-18", *newest],
            }
        ],
    }


def _deprecated() -> tuple[Tool, ...]:
    notice = ToolDeprecation(date(2026, 3, 1), date(2026, 3, 31), "search_archive")
    article = replace(TOOLS[1].arguments[0], deprecation=notice)
    return replace(TOOLS[0], deprecation=notice), replace(
        TOOLS[1], arguments=(article, *TOOLS[1].arguments[1:])
    )


async def test_a_removal_is_announced_wherever_the_interface_is_described(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(ArchiveConfig, "tools", property(lambda config: _deprecated()))
    corner = await open_archive_corner()
    sentence = "Deprecated since 2026-03-01; it will be removed on 2026-03-31. Use search_archive instead."
    notices = [
        f"The tool ask_archive: {sentence}",
        f"The argument product_id of get_archive_article: {sentence}",
    ]
    guide = (await fetch(corner, GUIDE)).body.decode()
    card = (await fetch(corner, CARD)).json()
    described = describe_archive(_deprecated())
    assert card["_meta"] == {"kiosk/deprecations": notices}
    for notice in notices:
        assert f"- {notice}\n" in guide
        assert notice in described["paths"]["/mcp"]["post"]["description"]
        assert notice in described["tags"][0]["description"]
    answer = await corner.post(b'{"jsonrpc": "2.0", "id": 1, "method": "tools/list"}')
    listed = [tool["description"] for tool in answer.json()["result"]["tools"]]
    assert [text.endswith(notice) for text, notice in zip(listed, notices, strict=True)] == [True, True]


async def test_without_a_removal_nothing_is_announced(corner: ArchiveCorner) -> None:
    assert "_meta" not in (await fetch(corner, CARD)).json()
    assert "eprecated" not in (await fetch(corner, GUIDE)).body.decode()
    assert "eprecated." not in str(describe_archive(TOOLS))


async def test_the_subjects_are_those_of_the_publisher() -> None:
    guide = (await fetch(await open_archive_corner(subjects="recipes"), GUIDE)).body.decode()
    assert "> A news archive (recipes) for AI agents:" in guide
    assert (
        "> A news archive for AI agents:"
        in (await fetch(await open_archive_corner(subjects=""), GUIDE)).body.decode()
    )
    assert Settings(archive_subjects="Kochen, Küche").archive_subjects == "Kochen, Küche"
    for wrong in ("a\nb", "{x}", "a" * 201):
        with pytest.raises(InvalidSetting, match="KIOSK_ARCHIVE_SUBJECTS"):
            Settings(archive_subjects=wrong)


class ChosenApp(DefaultArchive):
    app_id = "gazette"

    def default_archive_app(self, default: str) -> str:
        return self.app_id


async def test_an_app_of_the_publisher_announces_no_subjects_that_nobody_set() -> None:
    apps = ChosenApp()
    corner = await open_archive_corner(apps=apps)

    async def descriptions() -> list[str]:
        answer = await corner.post(b'{"jsonrpc": "2.0", "id": 1, "method": "tools/list"}')
        return [
            answer.json()["result"]["tools"][0]["description"],
            (await fetch(corner, GUIDE)).body.decode(),
        ]

    assert [text for text in await descriptions() if "politics" in text] == []
    apps.app_id = "playground"
    assert [text for text in await descriptions() if "(world, politics, " in text] == await descriptions()


def test_the_endpoint_for_agents_stands_in_the_openapi_document() -> None:
    document = {
        "tags": [], "paths": {}, "components": {"schemas": {}, "securitySchemes": {}},
    }  # fmt: skip
    extended = extend_openapi(document, describe_archive(TOOLS))
    assert "ask_archive" in extended["paths"]["/mcp"]["post"]["description"]
    assert b"archive.mcp" in render_docs(
        {**extended, "info": {"title": "Kiosk", "version": "0", "description": ""}}
    )


def test_names_and_lengths_fit_the_draft_schema() -> None:
    assert len(DESCRIPTION) <= 100
    for origin in (ORIGIN, "http://127.0.0.1:8000", "http://[::1]:8000", "http://localhost:8000"):
        assert re.fullmatch(r"[a-zA-Z0-9.-]+/[a-zA-Z0-9._-]+", build_card(origin, "t", "1")["name"])


async def test_the_guide_names_every_address_tool_and_the_licence(corner: ArchiveCorner) -> None:
    answer = await fetch(corner, GUIDE)
    assert answer.headers["content-type"] == "text/plain; charset=utf-8"
    text = answer.body.decode()
    assert text.startswith("# The Gazette\n")
    for part in (f"{ORIGIN}/mcp", "ask_archive", "get_archive_article", "citation_format", "mcp-remote",
                   "Creative Commons Attribution 4.0", "Name the Gazette.", f"{ORIGIN}{CARD}"):  # fmt: skip
        assert part in text, part
    assert all(f"{ORIGIN}/mcp" in how for _, how in list_install_instructions(f"{ORIGIN}/mcp"))
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
    preflight = await fetch(
        corner, path, "OPTIONS", origin="https://x.example", access_control_request_method="GET"
    )
    assert preflight.status == 204
    assert "MCP-Protocol-Version" in preflight.headers["access-control-allow-headers"]


@pytest.mark.parametrize("path", [CARD, GUIDE])
async def test_a_strangers_host_header_is_never_repeated(corner: ArchiveCorner, path: str) -> None:
    answer = await fetch(corner, path, host="evil.example", x_forwarded_host="evil.example")
    assert b"evil.example" not in answer.body


async def test_the_catalog_names_the_card_at_its_new_address(corner: ArchiveCorner) -> None:
    answer = await fetch(corner, "/.well-known/ai-catalog.json", origin="https://x.example")
    assert (answer.status, answer.headers["content-type"]) == (200, "application/ai-catalog+json")
    assert answer.json() == {
        "specVersion": "1.0",
        "host": {"displayName": "The Gazette"},
        "entries": [
            {
                "identifier": "urn:air:news.example.com:mcp:archive",
                "type": "application/mcp-server-card+json",
                "url": f"{ORIGIN}/mcp/server-card",
            }
        ],
    }
    again = await fetch(corner, "/.well-known/ai-catalog.json", if_none_match=answer.headers["etag"])
    assert (again.status, again.body) == (304, b"")


@pytest.mark.parametrize("path", ["/mcp/server-card", "/.well-known/ai-catalog.json"])
async def test_a_page_of_another_origin_may_read_the_new_documents(corner: ArchiveCorner, path: str) -> None:
    answer = await fetch(corner, path)
    assert answer.headers["access-control-allow-origin"] == "*"
    assert answer.headers["access-control-expose-headers"] == "ETag"
    request_headers = {"origin": "https://x.example", "access_control_request_method": "GET"}
    preflight = await fetch(corner, path, "OPTIONS", **request_headers)
    assert preflight.status == 204
    assert preflight.headers["access-control-allow-headers"] == "Content-Type, If-None-Match"


def test_an_app_named_archive_shares_no_name_with_the_default_archive() -> None:
    archives = ("", "archive", "sports")
    catalog = build_catalog(ORIGIN, dict.fromkeys(archives, "x"))
    urns = [entry["identifier"] for entry in catalog["entries"]]
    assert urns == [f"urn:air:news.example.com:mcp:{name}" for name in ("archive", "archive_app", "sports")]
    names = [f"com.example.news/{name}" for name in ("archive", "archive_app", "sports")]
    assert [build_card(ORIGIN, "x", "1", archive_id=name)["name"] for name in archives] == names
    assert [build_server_json(ORIGIN, "x", "1", archive_id=name)["name"] for name in archives] == names


def test_the_file_for_the_registry() -> None:
    document = build_server_json("https://news.example.com", "News Archive Search", "0.2.0")
    assert document == {
        "$schema": "https://static.modelcontextprotocol.io/schemas/2025-12-11/server.schema.json",
        "name": "com.example.news/archive",
        "title": "News Archive Search",
        "description": DESCRIPTION,
        "version": "0.2.0",
        "remotes": [{"type": "streamable-http", "url": "https://news.example.com/mcp"}],
    }
    assert len(DESCRIPTION) <= 100
    assert build_server_json("https://a.example", "x", "1", "com.example/news")["name"] == "com.example/news"


@pytest.mark.parametrize(
    "name", ["com.example", "com.example/a/b", "/a", "com.example/", "com example/a", "x" * 200 + "/a"]
)
def test_names_that_the_registry_refuses(name: str) -> None:
    with pytest.raises(Invalid, match="MCP Registry"):
        build_server_json("https://a.example", "x", "1", name)


async def test_the_guide_names_the_revision_and_the_tools_that_only_its_clients_see() -> None:
    guide = (await fetch(await open_archive_corner(), GUIDE)).body.decode()
    assert "\nProtocol versions: 2024-11-05, 2025-03-26, 2025-06-18, 2026-07-28\n" in guide
    assert "Clients of 2026-07-28 also see `search` and `fetch`" in guide
    guide = (await fetch(await open_archive_corner(connectors=True), GUIDE)).body.decode()
    assert "also see" not in guide
    assert "- `search`:" in guide

"""Discovery pages for programs: the server card and `/llms.txt`.

Both pages are rendered from the live configuration, with the origin of the request, and carry an ETag.

The addresses are listed in `docs/guides/archive.md`. The card follows the draft schema of MCP server cards.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any
from urllib.parse import urlsplit

from starlette.routing import BaseRoute, Route

from cluster.errors import Invalid
from cluster.records.archive.rsl_document import LICENCE_FILE, MEDIA_TYPE, licence_path
from deployments.archive.archive_config import ArchiveConfig, ArchiveConfigs
from deployments.archive.citation_rules import publisher_licence
from deployments.archive.etag_page import CROSS_ORIGIN, ETagPage
from deployments.archive.mcp.methods import VERSIONS
from deployments.archive.mcp.stateless_validation import REVISION
from deployments.archive.oauth.addresses import MCP_PATH, mcp_path, resource_metadata_of, resource_of
from deployments.archive.tools import Tool, build_tools, list_notices
from deployments.edge.http.replies import Header
from deployments.edge.http.server_origin import ServerOrigin

CARD_PATH = "/.well-known/mcp-server-card"
"The first address of the card; its bytes stay as they were."
NEW_CARD_PATH = MCP_PATH + "/server-card"
CATALOG_PATH = "/.well-known/ai-catalog.json"
CARD_TYPE = "application/mcp-server-card+json"
CATALOG_TYPE = "application/ai-catalog+json"
GUIDE_PATH = "/llms.txt"
SCHEMA = "https://static.modelcontextprotocol.io/schemas/v1/server-card.schema.json"
REGISTRY_SCHEMA = "https://static.modelcontextprotocol.io/schemas/2025-12-11/server.schema.json"
_DEFAULT_NAME = "archive"
_REGISTRY_NAME = re.compile(r"(?=.{3,200}\Z)[a-zA-Z0-9.-]+/[a-zA-Z0-9._-]+")
DESCRIPTION = "Searches a licensed news archive and returns citable articles."


def build_pages(configs: ArchiveConfigs, addresses: ServerOrigin) -> list[BaseRoute]:
    """Return the routes of all pages, those of named archives included."""

    def show_card(origin: str, place: Mapping[str, str]) -> tuple[str, str] | None:
        config = configs.find(_named(place))
        return None if config is None else (json.dumps(_card_of(origin, config)), "application/json")

    def show_new_card(origin: str, place: Mapping[str, str]) -> tuple[str, str] | None:
        config = configs.find(_named(place))
        if config is None:
            return None
        card = _card_of(origin, config)
        # Only here: the bytes at the first address of the card stay as they were.
        card["remotes"][0]["supportedProtocolVersions"].append(REVISION)
        return json.dumps(card), CARD_TYPE

    def show_catalog(origin: str, _: Mapping[str, str]) -> tuple[str, str]:
        return json.dumps(build_catalog(origin, configs.list_titles())), CATALOG_TYPE

    def show_guide(origin: str, place: Mapping[str, str]) -> tuple[str, str] | None:
        config = configs.find(_named(place))
        terms = configs.find_terms(_named(place))
        if config is None or terms is None:
            return None
        licence_file = terms.describe("").get("license_url", "")
        return render_llms_txt(origin, config, VERSIONS, licence_file), "text/plain; charset=utf-8"

    def show_licence(_: str, place: Mapping[str, str]) -> tuple[str, str] | None:
        terms = configs.find_terms(_named(place))
        text = None if terms is None else terms.render_file(place.get("licence", ""))
        return None if text is None else (text, MEDIA_TYPE)

    def list_links(place: Mapping[str, str]) -> Iterable[Header]:
        terms = configs.find_terms(_named(place))
        return () if terms is None else terms.list_headers()

    named = mcp_path("{archive}")
    card = ETagPage(show_new_card, addresses, CROSS_ORIGIN, list_links)
    guide = ETagPage(show_guide, addresses, list_links=list_links)
    licence = ETagPage(show_licence, addresses, CROSS_ORIGIN)
    files = (LICENCE_FILE, licence_path("{licence}"))
    return [
        Route(CARD_PATH, endpoint=ETagPage(show_card, addresses, list_links=list_links)),
        Route(CATALOG_PATH, endpoint=ETagPage(show_catalog, addresses, CROSS_ORIGIN)),
        *(Route(path, endpoint=card) for path in (NEW_CARD_PATH, named + "/server-card")),
        *(Route(path, endpoint=guide) for path in (GUIDE_PATH, named + GUIDE_PATH)),
        *(Route(root + name, endpoint=licence) for root in (MCP_PATH, named) for name in files),
        Route(LICENCE_FILE, endpoint=licence),
    ]


def _named(place: Mapping[str, str]) -> str:
    """Return the archive in a path; empty for the default one."""
    return place.get("archive", "")


def _card_of(origin: str, config: ArchiveConfig) -> dict[str, Any]:
    return build_card(
        origin, config.title, config.version, list_notices(config.tools), archive_id=config.archive_id
    )


def build_card(
    origin: str, title: str, version: str, notices: Sequence[str] = (), *, archive_id: str = ""
) -> dict[str, Any]:
    """Return the server card of an archive.

    `notices` announce removals, in the member that the schema keeps for extensions.
    """
    announced = {"_meta": {"kiosk/deprecations": list(notices)}} if notices else {}
    versions = list(VERSIONS)
    return {
        "$schema": SCHEMA,
        "name": f"{_reverse_host(origin)}/{_name_of(archive_id)}",
        "version": version,
        "title": title,
        "description": DESCRIPTION,
        "websiteUrl": _guide_of(origin, archive_id),
        "remotes": [
            {
                "type": "streamable-http",
                "url": resource_of(origin, archive_id),
                "supportedProtocolVersions": versions,
            }
        ],
        **announced,
    }


def build_server_json(
    origin: str, title: str, version: str, name: str = "", *, archive_id: str = ""
) -> dict[str, Any]:
    """Return the file by which the MCP Registry lists an archive; `name` replaces the one made from the origin.

    Errors:
        Invalid: the name is no reversed domain with a slash and a word
    Source: MCP Registry, schema of 2025-12-11
    """
    name = name or f"{_reverse_host(origin)}/{_name_of(archive_id)}"
    if not _REGISTRY_NAME.fullmatch(name):
        raise Invalid(
            f"{name[:100]!r} is no name of the MCP Registry; name a domain of yours, as com.example/archive"
        )
    return {
        "$schema": REGISTRY_SCHEMA,
        "name": name,
        "title": title[:100],
        "description": DESCRIPTION,
        "version": version,
        "remotes": [{"type": "streamable-http", "url": resource_of(origin, archive_id)}],
    }


def build_catalog(origin: str, titles: Mapping[str, str]) -> dict[str, Any]:
    """Return the catalog of what this host offers to agents: its archives, by name; the default one has none.

    Source: Agent Card project, AI catalog 1.0
    """
    host = urlsplit(origin).hostname or "localhost"
    cards = [
        {
            "identifier": f"urn:air:{host}:mcp:{_name_of(archive_id)}",
            "type": CARD_TYPE,
            "url": f"{resource_of(origin, archive_id)}/server-card",
        }
        for archive_id in titles
    ]
    return {"specVersion": "1.0", "host": {"displayName": titles[""]}, "entries": cards}


def _name_of(archive_id: str) -> str:
    """Return the name of an archive to programs; no two archives of a host share one."""
    # The default archive has always had this name. No app has an underscore in its id.
    return {"": _DEFAULT_NAME, _DEFAULT_NAME: f"{_DEFAULT_NAME}_app"}.get(archive_id, archive_id)


def _guide_of(origin: str, archive_id: str) -> str:
    return (resource_of(origin, archive_id) if archive_id else origin) + GUIDE_PATH


def _reverse_host(origin: str) -> str:
    """Return a host name reversed, as packages use it: com.example.news."""
    host = urlsplit(origin).hostname or "localhost"
    # An IP address has no reversed name.
    if ":" in host or host.replace(".", "").isdigit():
        return "localhost"
    return ".".join(reversed(host.split(".")))


_CONNECTORS = f"Clients of {REVISION} also see `search` and `fetch`, the two tools of connectors\n"
_COUNTS = {3: "three", 5: "five"}
_TEXT = """# {title}

> A news archive{subjects} for AI agents: a remote MCP server over streamable HTTP \
with {count} tools. Sign-in is OAuth 2.1; clients find everything from the one address below.

Endpoint: {mcp}
Transport: streamable-http (POST only; there is no event stream)
Protocol versions: {versions}
{connectors}{languages}Sign-in: opens in the browser at the first use; accounts are made by the archive's publisher

## Install

{install}

## Tools

{tools}
{notices}
## Workflow

1. Call `ask_archive` with one whole question; `context` may say what the user is working on.
2. Call `get_archive_article` with the `product_id` and the `offset` of a result. Other pairs are refused; a pair \
stays good for the user who got it, also after a new sign-in.
3. Cite whatever you take with `citation_format`, a clickable markdown link.

## Licence

{licence}. Each article's `citation_instruction` says the licence of that article.{extra}{terms}

## More

- [Server card]({card})
- [Protected-resource metadata]({metadata})
- [Clients you allowed]({base}/oauth/authorize/clients)
"""


def render_llms_txt(
    origin: str, config: ArchiveConfig, versions: tuple[str, ...], licence_file: str = ""
) -> str:
    """Return the page for clients that requested it at `origin`; `licence_file` has terms for machines."""
    archive_id = config.archive_id
    tools = config.tools
    rules = config.citation
    mcp = resource_of(origin, archive_id)
    notices = "".join(f"- {notice}\n" for notice in list_notices(tools))
    return _TEXT.format(
        base=origin,
        card=f"{mcp}/server-card" if archive_id else origin + CARD_PATH,
        metadata=resource_metadata_of(origin, archive_id),
        languages=f"Languages: {', '.join(config.languages)}\n" if config.languages else "",
        title=config.title,
        subjects=f" ({config.subjects})" if config.subjects else "",
        notices=f"\n### Deprecated\n\n{notices}" if notices else "",
        count=_COUNTS.get(len(tools), len(tools)),
        mcp=mcp,
        versions=", ".join((*versions, REVISION)),
        connectors=_CONNECTORS if len(tools) == len(build_tools()) else "",
        install="\n".join(
            f"- {where}: {how}" for where, how in list_install_instructions(mcp, _name_of(archive_id))
        ),
        tools="\n".join(f"- `{tool.name}`: {tool.title}. {_arguments(tool)}" for tool in tools),
        licence=publisher_licence(rules.licence),
        extra=f" {rules.extra}" if rules.extra else "",
        terms=f" [Terms for machines (RSL)]({licence_file})." if licence_file else "",
    )


def list_install_instructions(mcp: str, name: str = "archive") -> tuple[tuple[str, str], ...]:
    """Return the instructions by which common clients add a server under a name, one line each."""
    cursor = json.dumps({"mcpServers": {name: {"url": mcp}}})
    code = json.dumps({"servers": {name: {"type": "http", "url": mcp}}})
    proxy = json.dumps({"mcpServers": {name: {"command": "npx", "args": ["-y", "mcp-remote", mcp]}}})
    return (
        ("Claude (web, desktop)", f"Settings, Connectors, Add custom connector, address `{mcp}`"),
        ("Claude Code", f"`claude mcp add --transport http {name} {mcp}`, then `/mcp` to sign in"),
        ("ChatGPT", f"Settings, Connectors (developer mode), Create, address `{mcp}`, authentication OAuth"),
        ("Codex", f"`codex mcp add {name} --url {mcp}`, then `codex mcp login {name}`"),
        ("Cursor", f"`.cursor/mcp.json`: `{cursor}`"),
        ("VS Code", f"`.vscode/mcp.json`: `{code}`"),
        ("Hosts that only start programs", f"`{proxy}`"),
        ("Inspector", f"`npx @modelcontextprotocol/inspector`, transport Streamable HTTP, address `{mcp}`"),
        ("Python", f'`fastmcp.Client("{mcp}", auth="oauth")`'),
    )


def _arguments(tool: Tool) -> str:
    words = [
        f"`{argument.name}` ({argument.type}{', required' if argument.required else ''})"
        for argument in tool.arguments
    ]
    return f"Arguments: {', '.join(words)}."

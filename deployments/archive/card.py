"""Discovery pages for programs: the server card and `/llms.txt`.

Both pages are rendered from the live configuration, with the origin of the request, and carry an ETag.

The addresses are listed in `docs/guides/archive.md`. The card follows the draft schema of MCP server cards.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Protocol
from urllib.parse import urlsplit

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route

from cluster.errors import Invalid
from deployments.archive.citation import CitationRules, licence_sentence
from deployments.archive.methods import VERSIONS
from deployments.archive.oauth.addresses import MCP_PATH, mcp_path, resource_metadata_of, resource_of
from deployments.archive.stateless_request import REVISION
from deployments.archive.tools import Tool, build_tools, list_notices
from deployments.edge.http.server_addresses import ServerAddresses

CARD_PATH = "/.well-known/mcp-server-card"
"The first address of the card; its bytes stay as they were."
NEW_CARD_PATH = MCP_PATH + "/server-card"
CATALOG_PATH = "/.well-known/ai-catalog.json"
CARD_TYPE = "application/mcp-server-card+json"
CATALOG_TYPE = "application/ai-catalog+json"
GUIDE_PATH = "/llms.txt"
SCHEMA = "https://static.modelcontextprotocol.io/schemas/v1/server-card.schema.json"
REGISTRY_SCHEMA = "https://static.modelcontextprotocol.io/schemas/2025-12-11/server.schema.json"
_REGISTRY_NAME = re.compile(r"(?=.{3,200}\Z)[a-zA-Z0-9.-]+/[a-zA-Z0-9._-]+")
DESCRIPTION = "Searches a licensed news archive and returns citable articles."
_NOSNIFF = {"x-content-type-options": "nosniff"}
_HEADERS = {
    "access-control-allow-origin": "*",
    "cache-control": "public, max-age=3600",
    "vary": "Host",
    **_NOSNIFF,
}
_CROSS_ORIGIN = {
    "access-control-allow-methods": "GET",
    "access-control-allow-headers": "Content-Type, If-None-Match",
    "access-control-expose-headers": "ETag",
}
_PREFLIGHT = {
    **_NOSNIFF,
    "access-control-allow-origin": "*",
    "access-control-allow-methods": "GET, HEAD",
    "access-control-allow-headers": "MCP-Protocol-Version, Content-Type, Authorization",
    "access-control-max-age": "86400",
}


_NOTHING_MORE: Mapping[str, str] = MappingProxyType({})


class CardConfig(Protocol):
    """The fields of a configuration that the pages show."""

    @property
    def title(self) -> str:
        """Name of the archive."""
        ...

    @property
    def archive_id(self) -> str:
        """Name of the archive in its path; empty for the default one."""
        ...

    @property
    def subjects(self) -> str | None:
        """What the archive covers; empty or None: nothing is said."""
        ...

    @property
    def languages(self) -> tuple[str, ...]:
        """Languages of the articles."""
        ...

    @property
    def tools(self) -> tuple[Tool, ...]:
        """Tools of the archive."""
        ...

    @property
    def version(self) -> str:
        """Version of Kiosk."""
        ...

    @property
    def citation(self) -> CitationRules:
        """Licence and citation."""
        ...


class CardConfigs(Protocol):
    """The configurations of all archives."""

    def find(self, archive_id: str) -> CardConfig | None:
        """Return the configuration of an archive; None if there is none of this name."""
        ...

    def list_titles(self) -> Mapping[str, str]:
        """Return the titles of all archives by name."""
        ...


def build_pages(configs: CardConfigs, addresses: ServerAddresses) -> list[BaseRoute]:
    """Return the routes of all pages, those of named archives included."""

    def show_card(origin: str, archive_id: str) -> tuple[str, str] | None:
        config = configs.find(archive_id)
        return None if config is None else (json.dumps(_card_of(origin, config)), "application/json")

    def show_new_card(origin: str, archive_id: str) -> tuple[str, str] | None:
        config = configs.find(archive_id)
        if config is None:
            return None
        card = _card_of(origin, config)
        card["remotes"][0]["supportedProtocolVersions"].append(REVISION)
        return json.dumps(card), CARD_TYPE

    def show_catalog(origin: str, _: str) -> tuple[str, str]:
        return json.dumps(build_catalog(origin, configs.list_titles())), CATALOG_TYPE

    def show_guide(origin: str, archive_id: str) -> tuple[str, str] | None:
        config = configs.find(archive_id)
        if config is None:
            return None
        return render_guide(origin, config, VERSIONS), "text/plain; charset=utf-8"

    named = mcp_path("{archive}")
    return [
        Route(CARD_PATH, endpoint=_Page(show_card, addresses)),
        Route(NEW_CARD_PATH, endpoint=_Page(show_new_card, addresses, _CROSS_ORIGIN)),
        Route(CATALOG_PATH, endpoint=_Page(show_catalog, addresses, _CROSS_ORIGIN)),
        Route(GUIDE_PATH, endpoint=_Page(show_guide, addresses)),
        Route(named + "/server-card", endpoint=_Page(show_new_card, addresses, _CROSS_ORIGIN)),
        Route(named + GUIDE_PATH, endpoint=_Page(show_guide, addresses)),
    ]


def _card_of(origin: str, config: CardConfig) -> dict[str, Any]:
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
        "name": f"{_reverse_host(origin)}/{archive_id or 'archive'}",
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


def build_server_json(origin: str, title: str, version: str, name: str = "") -> dict[str, Any]:
    """Return the file by which the MCP Registry lists the archive; `name` replaces the one made from the origin.

    Errors:
        Invalid: the name is no reversed domain with a slash and a word
    Source: MCP Registry, schema of 2025-12-11
    """
    name = name or f"{_reverse_host(origin)}/archive"
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
        "remotes": [{"type": "streamable-http", "url": origin + MCP_PATH}],
    }


def build_catalog(origin: str, titles: Mapping[str, str]) -> dict[str, Any]:
    """Return the catalog of what this host offers to agents: its archives, by name; the default one has none.

    Source: Agent Card project, AI catalog 1.0
    """
    host = urlsplit(origin).hostname or "localhost"
    cards = [
        {
            "identifier": f"urn:air:{host}:mcp:{archive_id or 'archive'}",
            "type": CARD_TYPE,
            "url": f"{resource_of(origin, archive_id)}/server-card",
        }
        for archive_id in titles
    ]
    return {"specVersion": "1.0", "host": {"displayName": titles[""]}, "entries": cards}


def _guide_of(origin: str, archive_id: str) -> str:
    return (resource_of(origin, archive_id) if archive_id else origin) + GUIDE_PATH


class _Page:
    """A text that changes only with the configuration; an object, so that the framework does not filter methods."""

    def __init__(
        self,
        show: Callable[[str, str], tuple[str, str] | None],
        addresses: ServerAddresses,
        cross_origin: Mapping[str, str] = _NOTHING_MORE,
    ) -> None:
        self._show = show
        self._addresses = addresses
        self._cross_origin = cross_origin

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        response = self._answer(Request(scope))
        await response(scope, receive, send)

    def _answer(self, request: Request) -> Response:
        if request.method == "OPTIONS" and "access-control-request-method" in request.headers:
            return Response(None, 204, {**_PREFLIGHT, **self._cross_origin})
        if request.method not in ("GET", "HEAD"):
            body = b'{"message":"method not allowed"}'
            return Response(
                body,
                405,
                {"allow": "GET, HEAD", "cache-control": "no-store", **_NOSNIFF},
                media_type="application/json",
            )
        origin = self._addresses.origin_for_host(request.headers.get("host", ""))
        shown = self._show(origin, request.path_params.get("archive", ""))
        if shown is None:
            headers = {"cache-control": "no-store", **_NOSNIFF}
            return Response(b'{"message":"not found"}', 404, headers, media_type="application/json")
        text, kind = shown
        body = text.encode()
        tag = f'"{hashlib.sha256(body).hexdigest()[:20]}"'
        headers = {**_HEADERS, **self._cross_origin, "etag": tag, "content-type": kind}
        tags = [
            given_tag.strip().removeprefix("W/")
            for given_tag in request.headers.get("if-none-match", "").split(",")
        ]
        if tag in tags or tags == ["*"]:
            return Response(None, 304, headers)
        if request.method == "HEAD":
            return Response(None, 200, {**headers, "content-length": str(len(body))})
        return Response(body, 200, headers)


def _reverse_host(origin: str) -> str:
    """Return a host name reversed, as packages use it: com.example.news."""
    host = urlsplit(origin).hostname or "localhost"
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

{licence}. Each article's `citation_instruction` says the licence of that article.{extra}

## More

- [Server card]({card})
- [Protected-resource metadata]({metadata})
- [Clients you allowed]({base}/oauth/authorize/clients)
"""


def render_guide(origin: str, config: CardConfig, versions: tuple[str, ...]) -> str:
    """Return the page for clients that requested it at `origin`."""
    archive_id, tools, rules = config.archive_id, config.tools, config.citation
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
        install="\n".join(f"- {where}: {how}" for where, how in list_installs(mcp, archive_id or "archive")),
        tools="\n".join(f"- `{tool.name}`: {tool.title}. {_arguments(tool)}" for tool in tools),
        licence=licence_sentence(rules.licence),
        extra=f" {rules.extra}" if rules.extra else "",
    )


def list_installs(mcp: str, name: str = "archive") -> tuple[tuple[str, str], ...]:
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

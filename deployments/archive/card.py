"""Pages for programs that look around before they connect: the server card and `/llms.txt`.

Both are written from the live configuration at the origin the request came to, and carry an ETag.

Source: specification (addresses); draft schema of server cards
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from typing import Any, Protocol
from urllib.parse import urlsplit

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route

from deployments.archive.citation import CitationRules
from deployments.archive.guide import render_guide
from deployments.archive.methods import VERSIONS
from deployments.archive.oauth.addresses import MCP_PATH, ServerAddresses

CARD_PATH = "/.well-known/mcp-server-card"
GUIDE_PATH = "/llms.txt"
SCHEMA = "https://static.modelcontextprotocol.io/schemas/v1/server-card.schema.json"
DESCRIPTION = "Searches a licensed news archive and returns citable articles."
_NOSNIFF = {"x-content-type-options": "nosniff"}
_HEADERS = {
    "access-control-allow-origin": "*",
    "cache-control": "public, max-age=3600",
    "vary": "Host",
    **_NOSNIFF,
}
_PREFLIGHT = {
    **_NOSNIFF,
    "access-control-allow-origin": "*",
    "access-control-allow-methods": "GET, HEAD",
    "access-control-allow-headers": "MCP-Protocol-Version, Content-Type, Authorization",
    "access-control-max-age": "86400",
}


class CardConfig(Protocol):
    """What the pages tell of a configuration."""

    @property
    def title(self) -> str:
        """What the archive is called."""
        ...

    @property
    def version(self) -> str:
        """Our release."""
        ...

    @property
    def citation(self) -> CitationRules:
        """Licence and citation."""
        ...


def build_pages(config: CardConfig, addresses: ServerAddresses) -> list[BaseRoute]:
    """Make the routes of both pages."""

    def show_card(base: str) -> tuple[str, str]:
        return json.dumps(build_card(base, config.title, config.version)), "application/json"

    def show_guide(base: str) -> tuple[str, str]:
        rules = config.citation
        return render_guide(
            base, config.title, VERSIONS, rules.licence, rules.extra
        ), "text/plain; charset=utf-8"

    return [
        Route(CARD_PATH, endpoint=_Page(show_card, addresses)),
        Route(MCP_PATH + "/server-card", endpoint=_Page(show_card, addresses)),
        Route(GUIDE_PATH, endpoint=_Page(show_guide, addresses)),
    ]


def build_card(base: str, title: str, version: str) -> dict[str, Any]:
    """Describe the server as server cards do."""
    return {
        "$schema": SCHEMA,
        "name": f"{_reverse_host(base)}/archive",
        "version": version,
        "title": title,
        "description": DESCRIPTION,
        "websiteUrl": base + GUIDE_PATH,
        "remotes": [
            {"type": "streamable-http", "url": base + MCP_PATH, "supportedProtocolVersions": list(VERSIONS)}
        ],
    }


class _Page:
    """A text that is the same until the configuration changes. An object, so that methods are left to it."""

    def __init__(self, show: Callable[[str], tuple[str, str]], addresses: ServerAddresses) -> None:
        self._show = show
        self._addresses = addresses

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        response = self._answer(Request(scope))
        await response(scope, receive, send)

    def _answer(self, request: Request) -> Response:
        if request.method == "OPTIONS" and "access-control-request-method" in request.headers:
            return Response(None, 204, _PREFLIGHT)
        if request.method not in ("GET", "HEAD"):
            body = b'{"message":"method not allowed"}'
            return Response(
                body,
                405,
                {"allow": "GET, HEAD", "cache-control": "no-store", **_NOSNIFF},
                media_type="application/json",
            )
        text, kind = self._show(self._addresses.origin_for_host(request.headers.get("host", "")))
        body = text.encode()
        tag = f'"{hashlib.sha256(body).hexdigest()[:20]}"'
        headers = {**_HEADERS, "etag": tag, "content-type": kind}
        known = [
            one.strip().removeprefix("W/") for one in request.headers.get("if-none-match", "").split(",")
        ]
        if tag in known or known == ["*"]:
            return Response(None, 304, headers)
        if request.method == "HEAD":
            return Response(None, 200, {**headers, "content-length": str(len(body))})
        return Response(body, 200, headers)


def _reverse_host(base: str) -> str:
    """Name the owner as packages do: com.example.news."""
    host = urlsplit(base).hostname or "localhost"
    if ":" in host or host.replace(".", "").isdigit():
        return "localhost"
    return ".".join(reversed(host.split(".")))

"""`kiosk doctor archive`: the walk of `kiosk doctor mcp`, then every document, and the stateless revision.

It names what a proxy or a delivery network in front breaks: headers that it drops, bodies of errors that it replaces,
answers that it keeps. A document or a rule that fails does not end the walk, because the others still matter.

Source: MCP 2026-07-28, transports and discovery
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from cluster.records.archive.archive_client import CHECK_CLIENT
from cluster.records.archive.named_archive import mcp_path
from cluster.records.archive.rsl_document import MEDIA_TYPE
from deployments.archive.discovery_pages import (
    CARD_PATH,
    CARD_TYPE,
    CATALOG_PATH,
    CATALOG_TYPE,
    GUIDE_PATH,
)
from deployments.archive.mcp.methods import VERSIONS
from deployments.archive.mcp.stateless_validation import REVISION
from deployments.cli.doctor.http_session import HttpResponse
from deployments.cli.doctor.mcp_check import ALL_TOOLS, PUBLIC, McpCheck, require

_META = "io.modelcontextprotocol/"
_BODIES = "a proxy in front replaces the bodies of errors; let it pass 4xx of /mcp unchanged"
_HEADERS = "a proxy in front drops or changes Mcp-* headers; let it pass all headers of /mcp"
_CACHES = "a proxy in front keeps answers; turn caching off for /mcp and /oauth"
_ORIGIN = "a proxy in front drops Access-Control-Allow-Origin; clients in browsers need it"
_RESOURCE = "/.well-known/oauth-protected-resource"
_SERVERS = ("/.well-known/oauth-authorization-server/archive", "/.well-known/oauth-authorization-server")


class ArchiveCheck(McpCheck):
    """The whole walk, in both eras."""

    def steps(self) -> tuple[tuple[str, Callable[[], str]], ...]:
        """Return the steps of a client of the handshake, with those of documents and of the revision inside."""
        *first, last = super().steps()
        return (*first, *self.checks(), last)

    def checks(self) -> tuple[tuple[str, Callable[[], str]], ...]:
        """Return the steps after which the walk goes on, whatever they find."""
        return (
            ("metadata", self._metadata),
            ("server cards", self._cards),
            ("catalog", self._catalog),
            ("guide", self._guide),
            ("licence file", self._licence),
            ("keys of statements", self._keys),
            ("server/discover", self._discover),
            ("stateless tools", self._stateless_tools),
            ("header rules", self._header_rules),
            ("bodies of errors", self._bodies),
            ("caching", self._caching),
        )

    @property
    def _card_path(self) -> str:
        return mcp_path(self.archive_id) + "/server-card"

    def _metadata(self) -> str:
        # The address without a path is that of the default archive.
        resources = (self.resource_path,) if self.archive_id else (self.resource_path, _RESOURCE)
        for path in (*resources, *_SERVERS):
            self._page(path, "application/json")
        for path, *aliases in (resources, _SERVERS):
            for alias in aliases:
                require(
                    self._document(path) == self._document(alias), f"{alias} is another document", _CACHES
                )
        documents = self.server.get("client_id_metadata_document_supported", False)
        how = "may bring a metadata document" if documents else "register"
        count = "three" if self.archive_id else "four"
        return f"{count} addresses, for every origin; clients {how}"

    def _cards(self) -> str:
        cards = [(self._card_path, [*VERSIONS, REVISION])]
        if not self.archive_id:
            self._page(CARD_PATH, "application/json")
            cards.append((CARD_PATH, [*VERSIONS]))
        page = self._page(self._card_path, CARD_TYPE)
        for path, versions in cards:
            card = self._document(path)
            (remote,) = card.get("remotes") or [{}]
            require(remote.get("url") == self.endpoint_url, f"{path} names {remote.get('url')}", PUBLIC)
            require(
                remote.get("supportedProtocolVersions") == versions, f"{path} names other revisions", _CACHES
            )
        tag = page.headers.get("etag", "")
        again = self.session.send("GET", self.address + self._card_path, headers={"If-None-Match": tag})
        require(
            bool(tag) and again.status == 304,
            "the card's ETag is not answered with 304",
            "a proxy drops or changes ETags",
        )
        return f"{'it names' if self.archive_id else 'both name'} this endpoint and its revisions"

    def _catalog(self) -> str:
        self._page(CATALOG_PATH, CATALOG_TYPE)
        entries = self._document(CATALOG_PATH).get("entries") or []
        addresses = [entry.get("url") for entry in entries]
        require(self.address + self._card_path in addresses, f"the catalog names {addresses}", PUBLIC)
        return "names the server card"

    def _guide(self) -> str:
        path = (mcp_path(self.archive_id) if self.archive_id else "") + GUIDE_PATH
        page = self._page(path, "text/plain")
        require(self.endpoint_url.encode() in page.body, f"{path} names another endpoint", PUBLIC)
        return "names this endpoint"

    def _licence(self) -> str:
        link = self.session.send("GET", self.address + self._card_path).headers.get("link", "")
        if not link:
            return "no terms are set, so no reply names any"
        address = link.partition(">")[0].removeprefix("<")
        require(address.startswith(f"{self.endpoint_url}/"), f"the Link header names {address}", PUBLIC)
        page = self._page(address.removeprefix(self.address), MEDIA_TYPE)
        require(page.body.startswith(b"<?xml") and b"<rsl " in page.body, f"{address} is no RSL", _CACHES)
        return f"{address} holds the terms that replies name"

    def _keys(self) -> str:
        path = mcp_path(self.archive_id) + "/jwks.json"
        # Pages of any origin must be able to verify a statement.
        reply = self.session.send("GET", self.address + path, headers={"Origin": "https://stranger.example"})
        require(reply.status == 200, f"{path} answered {reply.status}", "is it routed here?")
        require(
            reply.headers.get("access-control-allow-origin") == "*", f"{path} is closed to pages", _ORIGIN
        )
        keys = (reply.parse_json() or {}).get("keys") or []
        is_public = all(key.get("kty") == "OKP" and key.get("kid") and "d" not in key for key in keys)
        require(bool(keys) and is_public, f"{path} lists no public keys of signatures", _CACHES)
        return f"statements are verified by {len(keys)} public key{'s' * (len(keys) > 1)}"

    def _discover(self) -> str:
        result = self._stateless("server/discover")
        require(result.get("supportedVersions") == [REVISION], f"it names {result.get('supportedVersions')}")
        require(result.get("resultType") == "complete", "the result has no resultType")
        return f"speaks {REVISION}"

    def _stateless_tools(self) -> str:
        names = [tool["name"] for tool in self._stateless("tools/list")["tools"]]
        require(names == ALL_TOOLS, f"the tools are {', '.join(names) or 'none'}")
        refused = self._stateless("tools/call", {"name": "search", "arguments": {}})
        require(refused.get("isError") is True, "a call without its argument is not refused as a result")
        hits = self._stateless("tools/call", {"name": "search", "arguments": {"query": self.question}})
        results = hits["structuredContent"]["results"]
        if not results:
            return f"! {len(names)} tools, but search found nothing; is the archive filled?"
        article = self._stateless("tools/call", {"name": "fetch", "arguments": {"id": results[0]["id"]}})
        require(bool(article["structuredContent"].get("url")), "fetch names no address to cite")
        return f"{len(names)} tools; search and fetch agree"

    def _header_rules(self) -> str:
        for headers in ({"Mcp-Method": "tools/call"}, {"MCP-Protocol-Version": VERSIONS[0]}):
            reply = self._send("tools/list", headers=headers)
            self._expect(reply, 400, -32020, _HEADERS)
        return "a header that contradicts the body is refused"

    def _bodies(self) -> str:
        self._expect(self._send("server/unknown"), 404, -32601, _BODIES)
        reply = self._send("server/discover", version="2099-01-01")
        error = self._expect(reply, 400, -32022, _BODIES)
        require(
            (error.get("data") or {}).get("supported") == [REVISION],
            "the refusal names no revisions",
            _BODIES,
        )
        return "400 and 404 arrive with their JSON"

    def _caching(self) -> str:
        for number in (11, 12):
            reply = self._send("server/discover", request_id=number)
            require(
                (reply.parse_json() or {}).get("id") == number,
                "an answer of another request came back",
                _CACHES,
            )
            kept = [
                name
                for name in ("age", "cf-cache-status", "x-cache")
                if "hit" in reply.headers.get(name, "").lower()
            ]
            require(not kept, f"{', '.join(kept)} says that an answer was kept", _CACHES)
            policy = reply.headers.get("cache-control", "")
            require(
                "no-store" in policy, f"Cache-Control of /mcp is {policy or 'missing'}, not no-store", _CACHES
            )
        return "every answer is fresh"

    def _page(self, path: str, kind: str) -> HttpResponse:
        reply = self.session.send("GET", self.address + path, headers={"Origin": "https://stranger.example"})
        require(reply.status == 200, f"{path} answered {reply.status}", "is it routed here?")
        actual = reply.headers.get("content-type", "nothing")
        require(
            actual.partition(";")[0] == kind,
            f"the type of {path} is {actual}",
            "a proxy changes Content-Type",
        )
        require(
            reply.headers.get("access-control-allow-origin") == "*", f"{path} is closed to pages", _ORIGIN
        )
        return reply

    def _stateless(self, method: str, params: dict[str, Any] | None = None) -> dict[str, Any]:
        """Return the result of a request of the stateless revision."""
        reply = self._send(method, params)
        answer = reply.parse_json()
        require(isinstance(answer, dict), f"{method} answered {reply.status} without JSON", _BODIES)
        error = answer.get("error") or {}
        advice = _HEADERS if error.get("code") in (-32020, -32603) else ""
        require(
            reply.status == 200,
            f"{method} answered {reply.status}: {error.get('message', 'no error')}",
            advice,
        )
        require("result" in answer, f"{method}: {error.get('message', 'no result')}", advice)
        return dict(answer["result"])

    def _expect(self, reply: HttpResponse, status: int, code: int, advice: str) -> dict[str, Any]:
        answer = reply.parse_json()
        error = answer.get("error") if isinstance(answer, dict) else None
        require(
            isinstance(error, dict), f"a refusal arrived with {reply.status} and no JSON-RPC error", _BODIES
        )
        actual = (reply.status, error.get("code")) if isinstance(error, dict) else ()
        require(actual == (status, code), f"a refusal is {actual}, not {(status, code)}", advice)
        return dict(error or {})

    def _send(
        self,
        method: str,
        params: dict[str, Any] | None = None,
        *,
        version: str = REVISION,
        request_id: int = 0,
        headers: dict[str, str] | None = None,
    ) -> HttpResponse:
        meta = {
            f"{_META}protocolVersion": version,
            f"{_META}clientCapabilities": {},
            f"{_META}clientInfo": {"name": CHECK_CLIENT, "version": "1"},
        }
        message = {
            "jsonrpc": "2.0",
            "id": request_id,
            "method": method,
            "params": {**(params or {}), "_meta": meta},
        }
        sent = {
            "Accept": "application/json, text/event-stream",
            "MCP-Protocol-Version": version,
            "Mcp-Method": method,
            "Authorization": f"Bearer {self.tokens['access_token']}",
        }
        if params and "name" in params:
            sent["Mcp-Name"] = params["name"]
        return self.session.send(
            "POST", self.endpoint_url, message=message, headers={**sent, **(headers or {})}
        )

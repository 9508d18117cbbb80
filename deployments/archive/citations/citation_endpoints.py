"""What everybody may read about citations, without a token: the check, the feed of corrections, and the public keys.

    POST /mcp/citations.json      {"citations": [...]} -> states with a signed statement
    GET  /mcp/corrections.json    the newest corrections and withdrawals, a JSON Feed 1.1
    GET  /mcp/jwks.json           the public keys, old ones included (RFC 7517)

Named archives have the same below `/mcp/{archive}`; one for members only has the public keys alone. Open articles
alone are compared and listed.
"""

from __future__ import annotations

import hashlib
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

import orjson
import structlog
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route

from cluster.access_tier import NOBODY, may_read
from cluster.clock import Clock, iso_ms
from cluster.errors import Invalid, KioskError, NotFound, TooMany
from cluster.records.archive.article_revision import ArticleRevision
from deployments.archive.citation_rules import sanitize_url
from deployments.archive.mcp.endpoint import ArchiveFinder, McpArchive
from deployments.archive.oauth.addresses import mcp_path
from deployments.archive.oauth.replies import ANY_ORIGIN, NOSNIFF, is_preflight, preflight
from deployments.edge.http.body_pace import BodyPace
from deployments.edge.http.client_address import ClientAddresses
from deployments.edge.http.errors import status_from_error
from deployments.edge.http.request import DeadlineExceeded
from deployments.edge.http.request_log import ClientDisconnected, ResponseEndpoint
from deployments.edge.limits.token_buckets import BucketRate, TokenBuckets

MOST_BYTES = 512_000
BODY_S = 10.0
MOST_ITEMS = 1_000
RATE = BucketRate(10.0, 100)
"Requests of one address and replica."
_FEED = "application/feed+json"
_KEYS = "application/jwk-set+json"
_JSON = "application/json"
_EXPECTED = frozenset({400, 404, 413, 422, 429, 503})
"Statuses of errors whose messages are for callers."

_log = structlog.get_logger()
_Answer = Callable[[McpArchive, Request], Awaitable[tuple[Any, str]]]


def build_citation_routes(
    archives: ArchiveFinder, addresses: ClientAddresses, clock: Clock
) -> list[BaseRoute]:
    """Return the routes, for the default archive and for named ones."""
    limits = TokenBuckets(clock)
    feed = _CorrectionFeed()
    pages: tuple[tuple[str, str, _Answer], ...] = (
        ("/citations.json", "POST", _check),
        ("/corrections.json", "GET", feed.answer),
        ("/jwks.json", "GET", _list_keys),
    )
    return [
        Route(
            root + name,
            endpoint=ResponseEndpoint(_PublicPage(method, answer, archives, addresses, limits).answer),
        )
        for root in (mcp_path(), mcp_path("{archive}"))
        for name, method, answer in pages
    ]


class _PublicPage:
    """A page whose errors are JSON, for every origin."""

    def __init__(
        self,
        method: str,
        answer: _Answer,
        archives: ArchiveFinder,
        addresses: ClientAddresses,
        limits: TokenBuckets,
    ) -> None:
        self._method = method
        self._page = answer
        self._archives = archives
        self._addresses = addresses
        self._limits = limits

    async def answer(self, request: Request) -> Response:
        """Answer the request; every exception becomes a reply."""
        if is_preflight(request.method, request.headers):
            return preflight(self._method)
        if request.method != self._method and not (self._method == "GET" and request.method == "HEAD"):
            return _reply({"message": "method not allowed"}, 405, {"allow": self._method})
        try:
            # These pages need no token, so the address is all by which a caller can be limited.
            wait_s = self._limits.wait_s("citations", self._addresses.find(request.scope), RATE)
            if wait_s:
                raise TooMany("too many requests; try again later", retry_after_s=wait_s)
            archive = await self._archives.find(request.path_params.get("archive", ""))
            # The check shows passages, and the feed titles: of an archive for its members, nobody else may read them.
            if archive is None or (archive.members_only and self._page is not _list_keys):
                raise NotFound("not found")
            document, kind = await self._page(archive, request)
        except ClientDisconnected:
            # Nobody is left to read a reply.
            raise
        except DeadlineExceeded:
            return _reply({"message": "the body did not arrive in time"}, 408, {})
        except KioskError as error:
            status = status_from_error(error)
            if status not in _EXPECTED:
                # The message may contain internals, and anybody may read this reply.
                return _fault(error)
            wait = (
                {"retry-after": str(error.facts["retry_after_s"])} if "retry_after_s" in error.facts else {}
            )
            return _reply({"message": error.message}, status, wait)
        except Exception as error:  # noqa: BLE001 - the last layer: everything becomes a reply
            return _fault(error)
        return _render(document, kind, request)


async def _check(archive: McpArchive, request: Request) -> tuple[Any, str]:
    body = await BodyPace(BODY_S).read(request, MOST_BYTES)
    try:
        given = orjson.loads(body)
    except orjson.JSONDecodeError as error:
        raise Invalid(f"the body is no JSON: {error}") from error
    if not isinstance(given, dict):
        raise Invalid("the body must be an object with citations")
    document, _ = await archive.citations.check_for(given.get("citations"), NOBODY)
    return document, _JSON


async def _list_keys(archive: McpArchive, request: Request) -> tuple[Any, str]:
    citations = archive.citations
    return {"keys": await citations.keys.list_keys(citations.find_app())}, _KEYS


class _CorrectionFeed:
    """The feed of each archive, made again after a revision."""

    def __init__(self) -> None:
        self._feeds: dict[str, tuple[Any, dict[str, Any]]] = {}

    async def answer(self, archive: McpArchive, request: Request) -> tuple[Any, str]:
        citations = archive.citations
        name = archive.archive_id
        app_id = citations.find_app()
        revisions = await citations.archive.get_article_revisions(app_id)
        newest_first = list(revisions.items())[::-1]
        # Each revision is the newest one when it comes, so these change with it.
        state = (app_id, len(newest_first), newest_first[:1])
        before, feed = self._feeds.get(name, (None, {}))
        if before == state:
            return feed, _FEED
        items = [
            _item(product_id, revision)
            for product_id, revision in newest_first
            if may_read(revision.access, NOBODY)
        ][:MOST_ITEMS]
        # A new statement with the same items would show that a locked article was revised.
        if before is None or (before[0], feed["items"]) != (app_id, items):
            # Signed once for each revision: anybody may request the feed, and a signature for each request
            # costs time.
            statement = await citations.sign(app_id, {"corrections": items})
            feed = {
                "version": "https://jsonfeed.org/version/1.1",
                "title": "Corrections",
                "feed_url": f"{citations.issuer}/corrections.json",
                "items": items,
                "_kiosk": {"statement": statement},
            }
        self._feeds[name] = state, feed
        return feed, _FEED


def _item(product_id: str, revision: ArticleRevision) -> dict[str, Any]:
    optional = {"url": sanitize_url(revision.url), "title": revision.title}
    more = {"corrected_at": revision.corrected_at} if revision.corrected_at else {}
    return {
        "id": product_id,
        **{name: value for name, value in optional.items() if value},
        "content_text": revision.note or revision.status.capitalize(),
        "date_modified": iso_ms(revision.at),
        "_kiosk": {"status": revision.status, **more},
    }


def _render(document: Any, kind: str, request: Request) -> Response:
    body = orjson.dumps(document)
    headers = {"cache-control": "no-store" if request.method == "POST" else "no-cache"}
    if request.method != "POST":
        tag = f'"{hashlib.sha256(body).hexdigest()[:20]}"'
        headers["etag"] = tag
        given = request.headers.get("if-none-match", "")
        # Proxies that compress a reply make its tag weak.
        if tag in [part.strip().removeprefix("W/") for part in given.split(",")]:
            return Response(None, 304, {**ANY_ORIGIN, **NOSNIFF, **headers})
    return Response(body, 200, {**ANY_ORIGIN, **NOSNIFF, **headers}, media_type=kind)


def _reply(document: Any, status: int, headers: Mapping[str, str]) -> Response:
    more = {**ANY_ORIGIN, **NOSNIFF, "cache-control": "no-store", **headers}
    return Response(orjson.dumps(document), status, more, media_type=_JSON)


def _fault(error: Exception) -> Response:
    _log.error("citations_failed", kind=type(error).__name__)
    return _reply({"message": "internal error"}, 500, {})

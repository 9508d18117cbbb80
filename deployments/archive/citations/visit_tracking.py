"""The addresses by which visits of linked articles are counted. They need no key: the mark itself is the proof.

    POST /visits           the mark as the body, from `kiosk.js` on the article's page -> 204, also for a mark that is
                           not genuine, so that the reply tells nothing
    GET  /visits/{mark}    302 to the article, by its stored address; 404 for a mark that is not genuine

A genuine mark leads to its article after the end of its life too, but the visit then does not count. Visits of robots,
fetches ahead of a click, and visits of one address beyond a rate do not count either.
"""

from __future__ import annotations

from collections.abc import Callable

import orjson
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import BaseRoute, Route

from cluster.clock import Clock
from cluster.errors import KioskError, Malformed, TooLarge
from cluster.store.data.records import RecordStore
from deployments.archive.archive_apps import ArchiveApps
from deployments.archive.citation_rules import sanitize_url
from deployments.archive.citations.citation_marks import (
    MOST_MARK,
    VISITS,
    CitationMark,
    MarkSigner,
    archive_of_mark,
)
from deployments.archive.oauth.replies import ANY_ORIGIN, NO_STORE, NOSNIFF, is_preflight, preflight
from deployments.archive.usage_log import UsageLog
from deployments.edge.access.robot_detection import detect_robot
from deployments.edge.http.body_pace import BodyPace
from deployments.edge.http.client_address import ClientAddresses
from deployments.edge.http.request import DeadlineExceeded
from deployments.edge.http.request_log import ResponseEndpoint
from deployments.edge.limits.token_buckets import BucketRate, TokenBuckets

RATE = BucketRate(2.0, 120)
"Visits of one address and replica that count: offices share an address."
BODY_S = 5.0
_HEADERS = {**ANY_ORIGIN, **NOSNIFF, **NO_STORE, "referrer-policy": "no-referrer"}


class VisitTracker:
    """Counts visits of one installation's archives."""

    def __init__(
        self,
        signer: MarkSigner,
        find_default: Callable[[], str],
        apps: ArchiveApps,
        usage: UsageLog,
        records: RecordStore,
        addresses: ClientAddresses,
        clock: Clock,
    ) -> None:
        """`find_default` returns the app of the default archive."""
        self._signer = signer
        self._find_default = find_default
        self._apps = apps
        self._usage = usage
        self._records = records
        self._addresses = addresses
        self._clock = clock
        self._limits = TokenBuckets(clock)

    def build_routes(self) -> list[BaseRoute]:
        """Return the routes of the two addresses."""
        return [
            Route(VISITS, endpoint=ResponseEndpoint(self.report_visit)),
            Route(VISITS + "/{mark:path}", endpoint=ResponseEndpoint(self.redirect)),
        ]

    async def report_visit(self, request: Request) -> Response:
        """Count the visit that a page reports."""
        if is_preflight(request.method, request.headers):
            return preflight("POST")
        if request.method != "POST":
            return Response(None, 405, {**_HEADERS, "allow": "POST"})
        try:
            body = await BodyPace(BODY_S).read(request, 6 * MOST_MARK)
        except TooLarge:
            return Response(None, 413, _HEADERS)
        except Malformed:
            return Response(None, 400, _HEADERS)
        except DeadlineExceeded:
            return Response(None, 408, _HEADERS)
        app_id, mark = self._verify(body.decode("utf-8", "replace"))
        if mark is not None:
            self._count(app_id, mark, request)
        return Response(None, 204, _HEADERS)

    async def redirect(self, request: Request) -> Response:
        """Lead a user to the article of a genuine mark, and count the visit."""
        if request.method not in ("GET", "HEAD"):
            return Response(None, 405, {**_HEADERS, "allow": "GET, HEAD"})
        app_id, mark = self._verify(request.path_params["mark"])
        if mark is None:
            return Response("not found", 404, _HEADERS, media_type="text/plain")
        try:
            # Never an address out of the link, or this would be an open redirect.
            (stored,) = await self._records.get_many(app_id, "product", [mark.product_id])
        except KioskError:
            return Response("try again in a moment", 503, {**_HEADERS, "retry-after": "1"})
        address = "" if stored is None else sanitize_url(str(orjson.loads(stored).get("url") or ""))
        if not address:
            return Response("not found", 404, _HEADERS, media_type="text/plain")
        # HEAD and fetches ahead show nobody the article.
        if request.method == "GET" and "prefetch" not in request.headers.get("sec-purpose", ""):
            self._count(app_id, mark, request)
        return RedirectResponse(address, 302, _HEADERS)

    def _verify(self, text: str) -> tuple[str, CitationMark | None]:
        """Return the app of a mark, and what it says; None if it is not genuine."""
        if len(text) > MOST_MARK:
            return "", None
        archive_id = archive_of_mark(text)
        if archive_id and self._apps.find_archive(archive_id) is None:
            return "", None
        app_id = archive_id or self._find_default()
        return app_id, self._signer.verify(app_id, text)

    def _count(self, app_id: str, mark: CitationMark, request: Request) -> None:
        if mark.is_expired(self._clock.now_ms()):
            return
        agent = request.headers.get("user-agent", "").encode("latin-1", "replace")
        if self._apps.settings_of(app_id).bot_rule != "off" and detect_robot(agent):
            return
        if self._limits.wait_s("visits", self._addresses.find(request.scope), RATE):
            return
        self._usage.record_visit(app_id, mark.call_id, mark.product_id)

"""Documents that are the same for every client: written once, compressed once, revalidated by their tag."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from functools import cached_property

from starlette.requests import Request
from starlette.responses import Response

from deployments.edge.http.compression import accepts_gzip, gzip
from deployments.edge.http.replies import compute_etag, matches_etag


class CachedDocument:
    """A document that `write` creates on the first request."""

    def __init__(self, write: Callable[[], bytes], media_type: str, headers: Mapping[str, str]) -> None:
        self._write = write
        self._media_type = media_type
        self._headers = {**headers, "vary": "Accept-Encoding"}
        self._building: asyncio.Future[None] | None = None

    @cached_property
    def body(self) -> bytes:
        return self._write()

    @cached_property
    def _compressed(self) -> bytes:
        return gzip(self.body)

    @cached_property
    def _etag(self) -> bytes:
        return compute_etag(self.body)

    async def _build_off_loop(self) -> None:
        """Create the document on a thread: it takes up to half a second, and other requests continue."""
        building = self._building
        # The cause of a failure may pass, such as too many open files.
        if building is None or (building.done() and building.exception() is not None):
            building = self._building = asyncio.ensure_future(asyncio.to_thread(self._write_once))
        # A client that disconnects must not end the work that others wait for.
        await asyncio.shield(building)

    def _write_once(self) -> None:
        _ = self._etag, self._compressed

    def respond(self, request: Request) -> Response:
        """Return the document, or status 304 if the client has it."""
        etag = self._etag
        headers = {**self._headers, "etag": etag.decode()}
        if_none_match = request.headers.get("if-none-match")
        if if_none_match is not None and matches_etag(etag, if_none_match.encode("latin-1")):
            return Response(status_code=304, headers=headers)
        if not accepts_gzip(request.headers.get("accept-encoding", "").encode("latin-1")):
            return Response(self.body, media_type=self._media_type, headers=headers)
        # Both encodings share one weak tag: it means equal content, not equal bytes.
        headers |= {"content-encoding": "gzip", "etag": "W/" + etag.decode()}
        return Response(self._compressed, media_type=self._media_type, headers=headers)

    @property
    def endpoint(self) -> Callable[[Request], Awaitable[Response]]:
        """The document as the endpoint of a route."""

        async def show(request: Request) -> Response:
            await self._build_off_loop()
            return self.respond(request)

        return show

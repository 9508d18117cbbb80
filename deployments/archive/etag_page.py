"""Pages for programs that change only with the configuration: with an ETag, for every origin."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Mapping
from types import MappingProxyType
from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from deployments.edge.http.replies import Header
from deployments.edge.http.server_origin import ServerOrigin

Show = Callable[[str, Mapping[str, str]], tuple[str, str] | None]
"(origin, parameters of the path) -> text and media type; None: there is no such page."
_NOSNIFF = {"x-content-type-options": "nosniff"}
_HEADERS = {
    "access-control-allow-origin": "*",
    "cache-control": "public, max-age=3600",
    # The text contains the host of the request, so a shared cache needs a copy for each host.
    "vary": "Host",
    **_NOSNIFF,
}
CROSS_ORIGIN = {
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


class ETagPage:
    """A text that changes only with the configuration; an object, so that the framework does not filter methods."""

    def __init__(
        self,
        show: Show,
        addresses: ServerOrigin,
        more_headers: Mapping[str, str] = _NOTHING_MORE,
        list_links: Callable[[Mapping[str, str]], Iterable[Header]] = lambda params: (),
    ) -> None:
        """`show` returns text and type; `list_links` returns further headers of one archive."""
        self._list_links = list_links
        self._show = show
        self._addresses = addresses
        self._more_headers = more_headers

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        response = self._answer(Request(scope))
        await response(scope, receive, send)

    def _answer(self, request: Request) -> Response:
        if request.method == "OPTIONS" and "access-control-request-method" in request.headers:
            return Response(None, 204, {**_PREFLIGHT, **self._more_headers})
        if request.method not in ("GET", "HEAD"):
            body = b'{"message":"method not allowed"}'
            return Response(
                body,
                405,
                {"allow": "GET, HEAD", "cache-control": "no-store", **_NOSNIFF},
                media_type="application/json",
            )
        origin = self._addresses.origin_for_host(request.headers.get("host", ""))
        shown = self._show(origin, request.path_params)
        if shown is None:
            # Not cached, because an archive of this name may be created at any time.
            headers = {"cache-control": "no-store", **_NOSNIFF}
            return Response(b'{"message":"not found"}', 404, headers, media_type="application/json")
        text, kind = shown
        body = text.encode()
        tag = f'"{hashlib.sha256(body).hexdigest()[:20]}"'
        headers = {**_HEADERS, **self._more_headers, "etag": tag, "content-type": kind}
        headers |= {name.decode(): value.decode() for name, value in self._list_links(request.path_params)}
        # Proxies that compress a reply make its tag weak.
        tags = [
            given_tag.strip().removeprefix("W/")
            for given_tag in request.headers.get("if-none-match", "").split(",")
        ]
        if tag in tags or tags == ["*"]:
            return Response(None, 304, headers)
        if request.method == "HEAD":
            # The length of the body that GET returns (RFC 9110, 9.3.2).
            return Response(None, 200, {**headers, "content-length": str(len(body))})
        return Response(body, 200, headers)

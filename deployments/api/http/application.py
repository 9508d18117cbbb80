"""The Starlette application, whose routes are generated from the table of endpoints.

Every route calls the same request handler as `HotPathMiddleware`, so both behave alike.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from functools import cache, reduce
from typing import Any

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import BaseRoute, Route

from deployments.api.http.docs import HEADERS, render_docs
from deployments.api.http.html_pages import (
    page_headers,
    render_start_json,
    render_start_page,
    render_try_page,
)
from deployments.api.http.openapi import TITLE, build_openapi, extend_openapi
from deployments.api.http.request_handler import RequestHandler
from deployments.edge.http.cached_document import CachedDocument
from deployments.edge.http.replies import CORS_ORIGIN, NOSNIFF, dumps

Closing = Callable[[], Awaitable[None]]

_OPEN = {name.decode(): value.decode() for name, value in (CORS_ORIGIN, NOSNIFF)} | {
    "cache-control": "public, max-age=300"
}


def build_application(
    handler: RequestHandler,
    *,
    version: str,
    close: Closing | None = None,
    more: Sequence[BaseRoute] = (),
    first_path: str = "",
    describe_more: Sequence[Callable[[], Mapping[str, Any]]] = (),
    pages: bool = False,
) -> Starlette:
    """Build the application; `close` runs at shutdown, `more` are routes beside the API.

    `first_path` is the path that Starlette tries first.
    Each function of `describe_more` returns paths, tags, schemas and security schemes of such routes for the OpenAPI
    document.
    `pages` tells whether they include the console and the demonstrations: then `/` leads there.
    """

    @asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncIterator[None]:
        yield
        if close is not None:
            await close()

    @cache
    def document() -> dict[str, Any]:
        # Requested rarely, so it is not built while a replica starts.
        schema = build_openapi(handler.endpoints, version)
        return reduce(extend_openapi, (describe() for describe in describe_more), schema)

    routes: list[BaseRoute] = []
    paths = dict.fromkeys(endpoint.path for endpoint in handler.endpoints)
    # Starlette takes the first route that fits, and a path with an id would also take the fixed ones.
    for path in sorted(paths, key=lambda path: "{" in path):
        # No methods: the request handler checks them and renders the error.
        routes.append(Route(path.replace("}", ":path}"), endpoint=handler))
    described = CachedDocument(lambda: dumps(document()), "application/json", _OPEN)
    written = CachedDocument(lambda: render_docs(document()), "text/html", HEADERS)
    administered = CachedDocument(lambda: render_docs(document(), administration=True), "text/html", HEADERS)
    routes.append(Route("/openapi.json", endpoint=described.endpoint, methods=["GET"]))
    routes.append(Route("/docs", endpoint=written.endpoint, methods=["GET"]))
    routes.append(Route("/docs/administration", endpoint=administered.endpoint, methods=["GET"]))
    routes.append(Route("/docs/try", endpoint=_show_try_page, methods=["GET"]))
    routes.append(Route("/", endpoint=_build_start_page(version, pages), methods=["GET"]))
    routes.extend(more)
    # Starlette tries the routes in order, and each one that does not fit costs 4,000 instructions.
    routes.sort(key=lambda route: getattr(route, "path", "") != first_path)
    app = Starlette(routes=routes, lifespan=lifespan, exception_handlers={HTTPException: _render_http_error})
    # A redirect to the other spelling would lose the body of a POST in some clients; the path table takes
    # both.
    app.router.redirect_slashes = False
    app.router.default = handler
    return app


async def _render_http_error(_: Request, error: Exception) -> Response:
    """Render what a route refuses by its method, as JSON."""
    assert isinstance(error, HTTPException)
    return JSONResponse({"detail": error.detail}, error.status_code, headers=error.headers)


async def _show_try_page(_: Request) -> Response:
    written, headers = render_try_page()
    return Response(written, media_type="text/html", headers=headers)


def _build_start_page(version: str, pages: bool) -> Callable[[Request], Awaitable[Response]]:
    """Return the endpoint of `/`: a page for browsers, JSON for other clients."""

    async def show(request: Request) -> Response:
        vary = {"vary": "Accept"}
        if "text/html" in request.headers.get("accept", ""):
            page_bytes = render_start_page(TITLE, version, pages=pages)
            return Response(page_bytes, media_type="text/html", headers={**page_headers(), **vary})
        return JSONResponse(render_start_json(TITLE, version, pages=pages), headers={**_OPEN, **vary})

    return show

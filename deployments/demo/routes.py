"""The routes of the two demonstrations. They hold no logic of recommendation: the pages call the public API."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from typing import Final

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route

from cluster.ids import AppId
from deployments.demo.browser_script import JAVASCRIPT, STATIC
from deployments.edge.access.keyring import Keyring
from deployments.edge.http.cached_document import CachedDocument

POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data:; "
    "base-uri 'none'; frame-ancestors 'none'; form-action 'self'"
)
HEADERS = {
    "content-security-policy": POLICY,
    "x-frame-options": "DENY",
    "x-content-type-options": "nosniff",
    "referrer-policy": "same-origin",
    "cross-origin-opener-policy": "same-origin",
    "cache-control": "no-cache",
}
PAGES = {"/demo": "index.html", "/demo/shop": "shop.html", "/demo/news": "news.html"}
"Path -> template."

_TEMPLATES = Path(__file__).with_name("templates")


@cache
def _environment() -> Environment:
    return Environment(
        loader=FileSystemLoader(_TEMPLATES),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )


def render_demo(path: str, key: str) -> Response:
    """Return a page of the demonstrations with a publishable key; without a key, status 404 and what to do."""
    name = PAGES[path] if key else "missing.html"
    text = _environment().get_template(name).render(key=key, path=path)
    return Response(text.encode(), 200 if key else 404, HEADERS, media_type="text/html")


PLAYGROUND: Final = AppId("playground")
ASSETS = {
    "calls.js": JAVASCRIPT,
    "demo.css": "text/css",
    "demo.js": JAVASCRIPT,
    "icon.svg": "image/svg+xml",
    "kiosk.js": JAVASCRIPT,
    "lists.js": JAVASCRIPT,
    "news.js": JAVASCRIPT,
    "page.js": JAVASCRIPT,
    "questions.js": JAVASCRIPT,
    "search.js": JAVASCRIPT,
    "shop.js": JAVASCRIPT,
}
"File in `static` -> content type; no other file is served."

_ASSET_HEADERS = {"cache-control": "public, max-age=300", "x-content-type-options": "nosniff"}


@dataclass(frozen=True, slots=True)
class DemoServices:
    """What the demonstrations depend on."""

    keyring: Keyring
    app_id: AppId = PLAYGROUND
    "An app with sample data. The pages publish its publishable key, so it must be read-only."


def build_demo_routes(services: DemoServices) -> list[BaseRoute]:
    """Return the routes of the demonstrations and their assets."""
    pages = [Route(path, endpoint=_page(services, path), methods=["GET"]) for path in PAGES]
    assets = [
        Route(f"/demo/static/{name}", endpoint=_asset(name, media_type).endpoint, methods=["GET"])
        for name, media_type in ASSETS.items()
    ]
    return [*pages, *assets]


def _page(services: DemoServices, path: str) -> Callable[[Request], Awaitable[Response]]:
    async def show(_: Request) -> Response:
        return render_demo(path, _find_key(services))

    return show


def _find_key(services: DemoServices) -> str:
    """Return the publishable key of the sample app; empty if the app is missing or accepts writes.

    The page discloses the key to everybody. In an app with real data it would let strangers read and write there.
    """
    credential = services.keyring.find_publishable(services.app_id)
    return credential.text if credential is not None and credential.app.read_only else ""


def _asset(name: str, media_type: str) -> CachedDocument:
    return CachedDocument(partial(STATIC.joinpath(name).read_bytes), media_type, _ASSET_HEADERS)

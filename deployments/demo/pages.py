"""The pages of the demonstrations: templates that carry one value, a publishable key, and no code."""

from __future__ import annotations

from functools import cache
from pathlib import Path

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from starlette.responses import Response

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

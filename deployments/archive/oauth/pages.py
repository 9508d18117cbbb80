"""The pages people see: plain HTML that needs no script, loads nothing, and can't be framed.

Every value is escaped by the template engine. The policy names no `form-action`: browsers apply it to the redirect
that follows the form, which leads to the client.
"""

from __future__ import annotations

import base64
import hashlib
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from starlette.responses import RedirectResponse, Response

FOLDER = Path(__file__).parents[1] / "templates"
MOST_SHOWN = 60
"Characters of a client's name in a heading."
PRIVATE = {
    "cache-control": "no-store",
    "referrer-policy": "no-referrer",
    "x-content-type-options": "nosniff",
}


class OAuthPages:
    """Writes pages."""

    def __init__(self, title: str) -> None:
        self._title = title
        self._style = (FOLDER / "page.css").read_text("utf-8")
        digest = base64.b64encode(hashlib.sha256(self._style.encode()).digest()).decode()
        self._policy = (
            f"default-src 'none'; style-src 'sha256-{digest}'; img-src data:; base-uri 'none'; "
            "frame-ancestors 'none'"
        )
        self._environment = Environment(
            loader=FileSystemLoader(FOLDER), autoescape=True, undefined=StrictUndefined,
            trim_blocks=True, lstrip_blocks=True,
        )  # fmt: skip

        self._environment.filters["shortened"] = _shortened
        self._environment.filters["shortened_host"] = _shortened_host

    def show(self, name: str, status: int = 200, *, retry_after_s: int = 0, **values: Any) -> Response:
        """Write a page of its template."""
        template = self._environment.get_template(f"{name}.html")
        text = template.render(title=self._title, style=self._style, **values)
        headers = {**PRIVATE, "content-security-policy": self._policy, "x-frame-options": "DENY"}
        if retry_after_s:
            headers["retry-after"] = str(retry_after_s)
        return Response(text.encode("utf-8", "replace"), status, headers, media_type="text/html")

    def show_error(self, heading: str, text: str, status: int = 400, *, retry_after_s: int = 0) -> Response:
        """Write a page at which the way ends."""
        return self.show("stop", status, retry_after_s=retry_after_s, heading=heading, text=text)


def _shortened(name: str) -> str:
    """Keep a stranger's name from pushing the rest of the page out of sight."""
    return name if len(name) <= MOST_SHOWN else name[: MOST_SHOWN - 1].rstrip() + "…"


def _shortened_host(host: str) -> str:
    """Keep the end of a long host: it says whose host it is, and its beginning may claim anything."""
    return host if len(host) <= MOST_SHOWN else "…" + host[1 - MOST_SHOWN :]


def redirect(location: str, status: int = 303) -> Response:
    """Send the browser elsewhere; 303 makes it forget what it posted."""
    response = RedirectResponse(location, status, PRIVATE)
    # As it is: the framework would escape once more what stands there escaped.
    response.headers["location"] = location
    return response

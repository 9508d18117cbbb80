"""The HTML pages of sign-in and consent: they need no script, load nothing, and can't be framed.

The template engine escapes every value. The content security policy has no `form-action`, because browsers also apply
it to the redirect after the form, which leads to the client.
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
"Maximum characters of a client's name in a heading."
PRIVATE = {
    "cache-control": "no-store",
    "referrer-policy": "no-referrer",
    "x-content-type-options": "nosniff",
}


class OAuthPages:
    """Renders pages."""

    def __init__(self, title: str) -> None:
        self._title = title
        self._style = (FOLDER / "page.css").read_text("utf-8")
        digest = base64.b64encode(hashlib.sha256(self._style.encode()).digest()).decode()
        self._policy = (
            f"default-src 'none'; style-src 'sha256-{digest}'; img-src data:; base-uri 'none'; "
            "frame-ancestors 'none'"
        )
        self._environment = Environment(
            loader=FileSystemLoader(FOLDER),
            autoescape=True,
            undefined=StrictUndefined,
            trim_blocks=True,
            lstrip_blocks=True,
        )

        self._environment.filters["shortened"] = _shortened
        self._environment.filters["shortened_host"] = _shortened_host

    def show(self, name: str, status: int = 200, *, retry_after_s: int = 0, **values: Any) -> Response:
        """Return the page of a template; a `title` names an archive beside the default one."""
        template = self._environment.get_template(f"{name}.html")
        values["title"] = values.get("title") or self._title
        text = template.render(style=self._style, **values)
        headers = {**PRIVATE, "content-security-policy": self._policy, "x-frame-options": "DENY"}
        if retry_after_s:
            headers["retry-after"] = str(retry_after_s)
        return Response(text.encode("utf-8", "replace"), status, headers, media_type="text/html")

    def show_error(self, heading: str, text: str, status: int = 400, *, retry_after_s: int = 0) -> Response:
        """Return an error page without further links."""
        return self.show("stop", status, retry_after_s=retry_after_s, heading=heading, text=text)


def _shortened(name: str) -> str:
    """Shorten the name of a client, so that it can't push the rest of the page out of sight."""
    return name if len(name) <= MOST_SHOWN else name[: MOST_SHOWN - 1].rstrip() + "…"


def _shortened_host(host: str) -> str:
    """Shorten a long host to its end: the end names the owner of the host, and its owner may choose the beginning
    freely.
    """
    return host if len(host) <= MOST_SHOWN else "…" + host[1 - MOST_SHOWN :]


def redirect(location: str, status: int = 303) -> Response:
    """Redirect the browser; with status 303 it does not post the form again."""
    response = RedirectResponse(location, status, PRIVATE)
    # The address is written unchanged, because the framework would escape it a second time.
    response.headers["location"] = location
    return response

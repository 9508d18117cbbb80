"""`kiosk.js`, which customers put into their pages: its version, its integrity hash, and its routes.

/kiosk.js          the newest version
/kiosk-1.js        the newest version with the interface of version 1
/kiosk-1.0.0.js    exactly this version; its bytes never change, so a page may pin them by `integrity`
"""

from __future__ import annotations

import base64
import hashlib
import re
from collections.abc import Mapping
from functools import cache
from pathlib import Path

from starlette.routing import BaseRoute, Route

from deployments.edge.envelope import CORS_ORIGIN, NOSNIFF
from deployments.edge.published_pages import PublishedDocument

STATIC = Path(__file__).with_name("static")
JAVASCRIPT = "text/javascript"
MOST_BYTES = 8_192
"Size of the minified script."

_VERSION = re.compile(rb'const VERSION = "(\d+)\.(\d+)\.(\d+)";')
_OPEN = {name.decode(): value.decode() for name, value in (CORS_ORIGIN, NOSNIFF)} | {
    # A page of another origin may load the script also under `cross-origin-embedder-policy`.
    "cross-origin-resource-policy": "cross-origin",
}


@cache
def read_script() -> bytes:
    """Return the minified script."""
    return (STATIC / "kiosk.min.js").read_bytes()


@cache
def script_version() -> str:
    """Return the version of the script.

    Errors:
        ValueError: the source names none
    """
    found = _VERSION.search((STATIC / "kiosk.js").read_bytes())
    if found is None:
        raise ValueError("kiosk.js names no version")
    return b".".join(found.groups()).decode()


def script_integrity() -> str:
    """Return the value of the attribute `integrity` for the exact version."""
    return "sha384-" + base64.b64encode(hashlib.sha384(read_script()).digest()).decode()


def build_script_routes() -> list[BaseRoute]:
    """Return the routes of the script; customers' pages load it, whether or not this installation has a console."""
    version = script_version()
    newest = _publish({"cache-control": "public, max-age=300"})
    exact = _publish({"cache-control": "public, max-age=31536000, immutable"})
    return [
        Route("/kiosk.js", endpoint=newest.endpoint, methods=["GET"]),
        Route(f"/kiosk-{version.partition('.')[0]}.js", endpoint=newest.endpoint, methods=["GET"]),
        Route(f"/kiosk-{version}.js", endpoint=exact.endpoint, methods=["GET"]),
    ]


def _publish(headers: Mapping[str, str]) -> PublishedDocument:
    return PublishedDocument(read_script, JAVASCRIPT, {**_OPEN, **headers})

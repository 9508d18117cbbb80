"""`kiosk.js`, which customers put into their pages: its version, its integrity hash, and its routes.

/kiosk.js          the newest version
/kiosk-1.js        the newest version with the interface of version 1
/kiosk-1.0.0.js    exactly this version; its bytes never change, so a page may pin them by `integrity`

`releases/` has every version that was ever served, and its checksum. None leaves it, so pinned pages go on working.
"""

from __future__ import annotations

import re
from functools import cache, partial
from pathlib import Path

from starlette.routing import BaseRoute, Route

from deployments.edge.http.cached_document import CachedDocument
from deployments.edge.http.replies import CORS_ORIGIN, NOSNIFF

STATIC = Path(__file__).with_name("static")
RELEASES = Path(__file__).with_name("releases")
JAVASCRIPT = "text/javascript"
MOST_BYTES = 9_600
"Size of the minified script."

_VERSION = re.compile(rb'const VERSION = "(\d+)\.(\d+)\.(\d+)";')
_OPEN = {name.decode(): value.decode() for name, value in (CORS_ORIGIN, NOSNIFF)} | {
    # A page of another origin may load the script also under `cross-origin-embedder-policy`.
    "cross-origin-resource-policy": "cross-origin",
}


@cache
def script_version() -> str:
    """Return the version of the script.

    Errors:
        ValueError: the source names none
    """
    match = _VERSION.search((STATIC / "kiosk.js").read_bytes())
    if match is None:
        raise ValueError("kiosk.js names no version")
    return b".".join(match.groups()).decode()


@cache
def read_script(version: str = "") -> bytes:
    """Return a version of the minified script, or the newest."""
    return (RELEASES / f"kiosk-{version or script_version()}.js").read_bytes()


def released_versions() -> list[str]:
    """Return the versions that are served."""
    return sorted(path.stem.removeprefix("kiosk-") for path in RELEASES.glob("kiosk-*.js"))


def build_script_routes() -> list[BaseRoute]:
    """Return the routes of the script; customers' pages load it, whether or not this installation has a console."""
    versions = released_versions()
    newest = {version.partition(".")[0]: version for version in sorted(versions, key=_order)}
    changing = "public, max-age=300"
    fixed = "public, max-age=31536000, immutable"
    return [
        _route("/kiosk.js", script_version(), changing),
        *(_route(f"/kiosk-{major}.js", version, changing) for major, version in newest.items()),
        *(_route(f"/kiosk-{version}.js", version, fixed) for version in versions),
    ]


def _order(version: str) -> list[int]:
    return [int(part) for part in version.split(".")]


def _route(path: str, version: str, cache_control: str) -> Route:
    headers = {**_OPEN, "cache-control": cache_control}
    document = CachedDocument(partial(read_script, version), JAVASCRIPT, headers)
    return Route(path, endpoint=document.endpoint, methods=["GET"])

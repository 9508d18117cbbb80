"""Scripts and styles of the console: served below a path that names their content, so that browsers keep them."""

from __future__ import annotations

import asyncio
import gzip
import hashlib
import mimetypes
from dataclasses import dataclass
from pathlib import Path

from starlette.requests import Request
from starlette.responses import Response

from deployments.edge.http.compression import accepts_gzip

FOLDER = Path(__file__).parent / "static"
SERVED = (".css", ".js", ".svg")
IMMUTABLE = "public, max-age=31536000, immutable"


@dataclass(slots=True)
class _Asset:
    body: bytes
    media_type: str
    compressed: bytes = b""


class Assets:
    """All files of the static folder, read once."""

    def __init__(self, prefix: str) -> None:
        paths = sorted(path for path in FOLDER.iterdir() if path.suffix in SERVED)
        self._assets = {path.name: _Asset(path.read_bytes(), _media_type(path.name)) for path in paths}
        digest = hashlib.sha256()
        for name, asset in self._assets.items():
            digest.update(name.encode() + b"\0" + asset.body)
        self.version = digest.hexdigest()[:16]
        self._prefix = prefix

    def url(self, name: str) -> str:
        """Return the address of a file.

        Errors:
            KeyError: no such file
        """
        self._assets[name]
        return f"{self._prefix}/{self.version}/{name}"

    async def answer(self, request: Request) -> Response:
        """Return a file; browsers may keep it for ever if the path names today's content."""
        asset = self._assets.get(request.path_params["name"])
        if asset is None:
            return Response("there is no such file", 404, {"cache-control": "no-store"})
        # A page of another release may name an older content; browsers must not keep today's bytes under that
        # name.
        is_current = request.path_params["version"] == self.version
        headers = {
            "cache-control": IMMUTABLE if is_current else "no-store",
            "vary": "Accept-Encoding",
            "x-content-type-options": "nosniff",
        }
        body = asset.body
        if accepts_gzip(request.headers.get("accept-encoding", "").encode("latin-1")):
            if not asset.compressed:
                # Without its time, so that all replicas send the same bytes.
                asset.compressed = await asyncio.to_thread(gzip.compress, asset.body, 9, mtime=0)
            body = asset.compressed
            headers["content-encoding"] = "gzip"
        return Response(body, 200, headers, media_type=asset.media_type)


def _media_type(name: str) -> str:
    if name.endswith(".js"):
        return "text/javascript"
    return mimetypes.guess_type(name)[0] or "application/octet-stream"

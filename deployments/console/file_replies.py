"""Files that the console sends to be saved, never to be shown by the browser."""

from __future__ import annotations

from starlette.responses import Response

from deployments.console.renderer import PAGE_HEADERS


def file_response(body: bytes, name: str, media_type: str) -> Response:
    """Return a file to save; `name` is a constant of the page, no text of clients."""
    headers = {**PAGE_HEADERS, "content-disposition": f'attachment; filename="{name}"'}
    return Response(body, 200, headers, media_type=media_type)

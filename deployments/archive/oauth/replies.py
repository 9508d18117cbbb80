"""Replies to programs: JSON without nulls, readable from every origin, never cached."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from starlette.responses import Response

ANY_ORIGIN = {"access-control-allow-origin": "*"}
NOSNIFF = {"x-content-type-options": "nosniff"}
# RFC 6749, 5.1 asks for both headers.
NO_STORE = {"cache-control": "no-store", "pragma": "no-cache"}
_ALLOWED_HEADERS = "Content-Type, Authorization, MCP-Protocol-Version"


class OAuthError(Exception):
    """A refused request of a program: `error` is an error code of OAuth."""

    def __init__(self, error: str, description: str, status: int = 400, retry_after_s: int = 0) -> None:
        super().__init__(error)
        self.error = error
        self.description = description
        self.status = status
        self.retry_after_s = retry_after_s


def render_document(
    document: Mapping[str, Any], status: int = 200, headers: Mapping[str, str] | None = None
) -> Response:
    """Return a JSON document; members that are None are left out, because clients refuse nulls."""
    body = json.dumps({name: value for name, value in document.items() if value is not None})
    return Response(body, status, {**ANY_ORIGIN, **NOSNIFF, **(headers or {})}, media_type="application/json")


def render_error(refused: OAuthError, headers: Mapping[str, str] | None = None) -> Response:
    """Return an error reply in the form of RFC 6749 section 5.2."""
    more = {"retry-after": str(refused.retry_after_s)} if refused.retry_after_s else {}
    document = {"error": refused.error, "error_description": refused.description}
    return render_document(document, refused.status, {**NO_STORE, **more, **(headers or {})})


def preflight(methods: str) -> Response:
    """Return the reply to a preflight request."""
    headers = {
        "access-control-allow-methods": methods,
        "access-control-allow-headers": _ALLOWED_HEADERS,
        "access-control-max-age": "86400",
    }
    return Response(None, 204, {**ANY_ORIGIN, **NOSNIFF, **headers})


def wrong_method(allowed: str) -> Response:
    """Return the reply to a wrong method."""
    document = {"error": "invalid_request", "error_description": "method not allowed"}
    return render_document(document, 405, {**NO_STORE, "allow": allowed})


def is_preflight(method: str, headers: Mapping[str, str]) -> bool:
    """Return whether a request is a preflight request of a browser."""
    return method == "OPTIONS" and "origin" in headers and "access-control-request-method" in headers

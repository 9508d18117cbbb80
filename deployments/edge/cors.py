"""Cross-origin headers: every origin may call, and may read errors too."""

from __future__ import annotations

from deployments.edge.envelope import Header, Reply

ORIGIN: Header = (b"access-control-allow-origin", b"*")
EXPOSE: Header = (
    b"access-control-expose-headers",
    b"X-Request-Id, Retry-After, ETag, WWW-Authenticate, X-Dry-Run, X-Kiosk-Warning",
)
METHODS: Header = (b"access-control-allow-methods", b"GET, POST, PUT, DELETE, OPTIONS")
HEADERS: Header = (
    b"access-control-allow-headers",
    b"Content-Type, Authorization, X-API-KEY, Idempotency-Key, If-None-Match, X-Requested-With",
)
MAX_AGE: Header = (b"access-control-max-age", b"86400")


def preflight() -> Reply:
    """Answer an OPTIONS request; browsers send it without a key, so it needs none."""
    return Reply(204, b"", (METHODS, HEADERS, MAX_AGE))

"""Reader tokens made by hand, good and bad."""

from __future__ import annotations

import base64
import hmac
import json
from typing import Any

HEADER: dict[str, Any] = {"alg": "HS256", "typ": "JWT"}


def segment(raw: bytes) -> str:
    """Encode one segment."""
    return base64.urlsafe_b64encode(raw).rstrip(b"=").decode()


def sign_text(head: str, secret: str, digest: str = "sha256") -> str:
    """Sign what stands before the last dot."""
    return segment(hmac.digest(secret.encode(), head.encode(), digest))


def token_of(
    claims: dict[str, Any] | bytes,
    secret: str,
    header: dict[str, Any] | bytes = HEADER,
    digest: str = "sha256",
) -> str:
    """Make a token. Bytes stand for themselves, so that a claim can be written twice."""
    parts = (
        part if isinstance(part, bytes) else json.dumps(part, separators=(",", ":")).encode()
        for part in (header, claims)
    )
    head = ".".join(segment(part) for part in parts)
    return f"{head}.{sign_text(head, secret, digest)}"

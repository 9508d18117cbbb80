"""Public addresses: an origin without a path, https but for the own machine."""

from __future__ import annotations

import re
from urllib.parse import urlsplit

from cluster.errors import Invalid

_LOOPBACK = re.compile(r"(?:localhost|127\.0\.0\.1|\[::1\])(?::\d{1,5})?")
_HOST = re.compile(r"(?:[A-Za-z0-9._-]+|\[[0-9A-Fa-f:.]+\])(?::\d{1,5})?")


def is_loopback(host: str) -> bool:
    """Is this host, with or without a port, one of the three spellings of the own machine?"""
    return _LOOPBACK.fullmatch(host) is not None


def parse_origin(text: str) -> str:
    """Read a public address: `https://` and a host, or `http://` and loopback; one slash at the end is taken off.

    Errors:
        Invalid: anything else
    """
    try:
        parts = urlsplit(text)
    except ValueError as error:
        raise Invalid("KIOSK_PUBLIC_URL does not name a host") from error
    origin = text[:-1] if text.endswith("/") else text
    if parts.scheme not in ("https", "http") or origin != f"{parts.scheme}://{parts.netloc}":
        raise Invalid("KIOSK_PUBLIC_URL is an origin without a path, as https://news.example.com")
    if not _HOST.fullmatch(parts.netloc):
        raise Invalid("KIOSK_PUBLIC_URL does not name a host")
    if parts.scheme == "http" and not is_loopback(parts.netloc):
        raise Invalid("KIOSK_PUBLIC_URL must be https: passwords and tokens would travel in the clear")
    return origin

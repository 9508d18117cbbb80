"""Origins: the public address of the installation, and those of pages that call the API."""

from __future__ import annotations

import re
from urllib.parse import urlsplit

from cluster.errors import Invalid

WEB = ("http", "https")
_LOOPBACK = re.compile(r"(?:localhost|127\.0\.0\.1|\[::1\])(?::\d{1,5})?")
_HOST = re.compile(r"(?:[A-Za-z0-9._-]+|\[[0-9A-Fa-f:.]+\])(?::\d{1,5})?")
_OF_A_PROGRAM = re.compile(r"(?!https?:|file:)[a-z][a-z0-9+.-]*://[a-z0-9_.-]+", re.IGNORECASE)
"Origins of browser extensions and of programs built on a browser, such as chrome-extension://abc."


def is_loopback(host: str) -> bool:
    """Return whether a host, with or without a port, is one of the three spellings of loopback."""
    return _LOOPBACK.fullmatch(host) is not None


def parse_origin(text: str, setting: str = "KIOSK_PUBLIC_URL") -> str:
    """Return a public address: `https://` and a host, or `http://` and loopback; one final slash is removed.

    Errors:
        Invalid: anything else
    """
    try:
        parts = urlsplit(text)
    except ValueError as error:
        raise Invalid(f"{setting} does not name a host") from error
    origin = text[:-1] if text.endswith("/") else text
    if parts.scheme not in ("https", "http") or origin != f"{parts.scheme}://{parts.netloc}":
        raise Invalid(f"{setting} is an origin without a path, as https://news.example.com")
    if not _HOST.fullmatch(parts.netloc):
        raise Invalid(f"{setting} does not name a host")
    if parts.scheme == "http" and not is_loopback(parts.netloc):
        raise Invalid(f"{setting} must be https: passwords and tokens would travel in the clear")
    return origin


def parse_origins(text: str) -> str:
    """Return origins of pages from a comma-separated list; one final slash of each is removed.

    Errors:
        Invalid: one of them is no origin
    """
    origins = []
    for origin in filter(None, (part.strip() for part in text.split(","))):
        origins.append(canonical_origin(origin))
        if not origins[-1]:
            raise Invalid("KIOSK_ARCHIVE_ORIGINS names origins without a path, as https://tools.example.com")
    return ",".join(origins)


def canonical_origin(origin: str) -> str:
    """Return an origin as browsers write it; empty for other texts."""
    if _OF_A_PROGRAM.fullmatch(origin.strip()):
        return origin.strip().lower()
    try:
        parts = urlsplit(origin.strip())
        # Raises for a number that is no port.
        port = parts.port
    except ValueError:
        return ""
    if parts.scheme not in WEB or not parts.hostname or not _HOST.fullmatch(parts.netloc):
        return ""
    if parts.path not in ("", "/") or parts.query or parts.fragment:
        return ""
    host = f"[{parts.hostname}]" if ":" in parts.hostname else parts.hostname
    # Browsers leave the default port of a scheme out of `Origin`.
    plain = port is None or port == (443 if parts.scheme == "https" else 80)
    return f"{parts.scheme}://{host}" + ("" if plain else f":{port}")

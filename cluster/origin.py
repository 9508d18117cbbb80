"""Origins: our own public address, https but for the own machine, and those of pages that call us."""

from __future__ import annotations

import re
from urllib.parse import urlsplit

from cluster.errors import Invalid

WEB = ("http", "https")
_LOOPBACK = re.compile(r"(?:localhost|127\.0\.0\.1|\[::1\])(?::\d{1,5})?")
_HOST = re.compile(r"(?:[A-Za-z0-9._-]+|\[[0-9A-Fa-f:.]+\])(?::\d{1,5})?")
_OF_A_PROGRAM = re.compile(r"(?!https?:|file:)[a-z][a-z0-9+.-]*://[a-z0-9_.-]+", re.IGNORECASE)
"Extensions of browsers and programs built on one have origins of their own, as chrome-extension://abc."


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


def parse_origins(text: str) -> str:
    """Read a list of origins of pages, separated by commas; one slash at the end of each is taken off.

    Errors:
        Invalid: one of them is none
    """
    found = []
    for origin in filter(None, (part.strip() for part in text.split(","))):
        found.append(canonical_origin(origin))
        if not found[-1]:
            raise Invalid("KIOSK_ARCHIVE_ORIGINS names origins without a path, as https://tools.example.com")
    return ",".join(found)


def canonical_origin(origin: str) -> str:
    """Write an origin the one way browsers do; empty for what is none."""
    if _OF_A_PROGRAM.fullmatch(origin.strip()):
        return origin.strip().lower()
    try:
        parts = urlsplit(origin.strip())
        port = parts.port
    except ValueError:
        return ""
    if parts.scheme not in WEB or not parts.hostname or not _HOST.fullmatch(parts.netloc):
        return ""
    if parts.path not in ("", "/") or parts.query or parts.fragment:
        return ""
    host = f"[{parts.hostname}]" if ":" in parts.hostname else parts.hostname
    plain = port is None or port == (443 if parts.scheme == "https" else 80)
    return f"{parts.scheme}://{host}" + ("" if plain else f":{port}")

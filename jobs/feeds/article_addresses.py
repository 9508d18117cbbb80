"""Addresses of articles: which ones are equal, and the id of an article."""

from __future__ import annotations

import hashlib
import re
from urllib.parse import parse_qsl, quote, urlencode, urljoin, urlsplit, urlunsplit

_LONGEST_ID = 512
_TRACKING = re.compile(
    r"(?:utm_[a-z]+|fbclid|gclid|mc_[ce]id|ref_src|cmpid|at_(?:medium|campaign)|xtor)", re.I
)
_UNSAFE = re.compile(r"[\x00-\x20,\x7f-\x9f\u2028\u2029]")


def canonical_address(address: str, place: str = "") -> str:
    """Return the form that equal addresses share: absolute, https, without fragment and marks of campaigns.

    `place` is the document in which the address was written. Return an empty text for what is no address of the web.
    """
    try:
        parts = urlsplit(urljoin(place, address.strip()))
        host = (parts.hostname or "").lower()
        port = parts.port
        host = host if host.isascii() else host.encode("idna").decode("ascii")
    except ValueError:  # of the parser, or of IDNA
        return ""
    if parts.scheme not in ("http", "https") or not host or parts.username is not None:
        return ""
    if ":" in host:
        host = f"[{host}]"
    # The result is always https, so neither of the usual ports tells addresses apart.
    netloc = host if port in (None, 80, 443) else f"{host}:{port}"
    query = parts.query
    if _TRACKING.search(query):
        pairs = parse_qsl(query[:4_000], keep_blank_values=True)
        query = urlencode([pair for pair in pairs if not _TRACKING.fullmatch(pair[0])])
    path = quote(parts.path or "/", safe="/%:@!$&'()*+,;=~-._")
    return urlunsplit(("https", netloc, path, quote(query, safe="/%:@!$&'()*+,;=~-._?"), ""))


def digest_address(address: str) -> str:
    """Return the name under which an article is found by its address."""
    return hashlib.blake2b(address.encode("utf-8", "surrogatepass"), digest_size=16).hexdigest()


def article_id(name: str, address: str, feed: str) -> str:
    """Return the id of an article: its guid if that is a URI, else its address, else the guid within its feed.

    Only a URI is unique beyond its feed. The result is valid as a product id.
    """
    chosen = name if ":" in name else address or f"{feed}:{name}"
    chosen = _UNSAFE.sub(lambda match: quote(match[0], safe=""), chosen)
    # No product id begins with an underscore.
    chosen = f":{chosen}" if chosen.startswith("_") else chosen
    if len(chosen) > _LONGEST_ID:
        chosen = f"{chosen[: _LONGEST_ID - 33]}~{digest_address(chosen)}"
    return chosen


def is_same_host(first: str, second: str) -> bool:
    """Return whether two canonical addresses have the same host, with or without `www`."""
    hosts = [urlsplit(address).netloc.removeprefix("www.") for address in (first, second)]
    return hosts[0] == hosts[1]

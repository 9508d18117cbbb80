"""Options behind a Redis URL; `cluster.store.client.address` reads them."""

from __future__ import annotations

from urllib.parse import parse_qs, quote, urlsplit


def add_options(url: str, options: dict[str, str]) -> str:
    """Return a Redis URL with options behind it; what the URL says itself stays, and empty ones are left out."""
    given = parse_qs(urlsplit(url).query)
    more = [f"{name}={quote(text, safe='/')}" for name, text in options.items() if text and name not in given]
    if not more:
        return url
    return f"{url}{'&' if '?' in url else '?'}{'&'.join(more)}"

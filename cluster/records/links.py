"""Links in what strangers typed: it is never shown to others, whatever it says."""

from __future__ import annotations

import re

_LINK = re.compile(
    r"https?:|www\.|[\w-]{2,63}\.(?:[a-z]{2,24})(?:[/:?#]|\b)|\w@\w",
    re.IGNORECASE,
)


def has_link(text: str) -> bool:
    """Check whether a text names an address: of the web, a host, or of a person."""
    return _LINK.search(text) is not None

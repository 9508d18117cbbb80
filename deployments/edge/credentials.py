"""Find the key in a request. The header wins over the query parameter.

Source: REST interface, Authentication; reference 3.1.
"""

from __future__ import annotations

from urllib.parse import parse_qsl

HEADER = b"x-api-key"
PARAMETER = "api_key"

_MOST_FIELDS = 100
_LONGEST_KEY = 256


def find_key(header: bytes | None, query: bytes) -> str:
    """Take the key a request carries; empty when it carries none or something that can't be a key.

    An empty header counts as no header.
    """
    if header:
        text = header.strip().decode("latin-1")
    elif b"api_key" in query:
        text = parse_query(query).get(PARAMETER, "")
    else:
        return ""
    return text if len(text) <= _LONGEST_KEY else ""


def parse_query(query: bytes) -> dict[str, str]:
    """Read a query string; the first value of a repeated name counts, one with too many fields is empty."""
    if not query:
        return {}
    try:
        pairs = parse_qsl(
            query.decode("latin-1"), keep_blank_values=True, errors="replace", max_num_fields=_MOST_FIELDS
        )
    except ValueError:
        return {}
    fields: dict[str, str] = {}
    for name, value in pairs:
        fields.setdefault(name, value)
    return fields

"""Finds the key in a request and explains an invalid one. The header wins over the query.

The keys are described in `docs/concepts/identities.md`.
"""

from __future__ import annotations

from urllib.parse import parse_qsl

from cluster.errors import Malformed
from cluster.secrecy import recognise_key

HEADER = b"x-api-key"
PARAMETER = "api_key"
TWO_KEYS = "api_key was sent more than once; send one key"

_MOST_FIELDS = 100
_LONGEST_KEY = 256


def find_key(header: bytes | None, query: bytes) -> str:
    """Return the key of a request; empty if it has none or if the value can't be a key.

    An empty header counts as no header.
    """
    if header:
        text = header.strip().decode("latin-1")
    elif b"api_key" in query:
        text = parse_query(query).get(PARAMETER, "")
    else:
        return ""
    return text if len(text) <= _LONGEST_KEY else ""


def check_single(query: bytes) -> None:
    """Check that a query string has at most one key, because proxies may disagree on which of two counts.

    Errors:
        Malformed: it has two
    Cost: 0.1 microseconds for one key.
    """
    if (
        query.count(PARAMETER.encode()) > 1
        and len({value for name, value in _pairs(query) if name == PARAMETER}) > 1
    ):
        raise Malformed(
            TWO_KEYS, detail=[{"loc": ["query", PARAMETER], "msg": TWO_KEYS, "type": "value_error"}]
        )


def key_fault(header: bytes | None, query: bytes, authorization: bytes | None) -> str:
    """Return why a request has no valid key; the text never repeats the key."""
    if b"ksk_" in (authorization or b"") or b"kpk_" in (authorization or b""):
        return "the key came in Authorization, which is for reader tokens; send it in the header X-API-KEY"
    key = find_key(header, query)
    if not key:
        return "no key was sent; send it in the header X-API-KEY or as the query parameter api_key"
    if recognise_key(key) is None:
        return "this is no Kiosk key: its form or its checksum is wrong; `kiosk keys list --reveal` shows the keys"
    return "no app has this key; it was revoked, or it belongs to another installation"


def parse_query(query: bytes) -> dict[str, str]:
    """Parse a query string; the first value of a repeated name counts, and one with too many fields is empty."""
    if not query:
        return {}
    fields: dict[str, str] = {}
    for name, value in _pairs(query):
        fields.setdefault(name, value)
    return fields


def _pairs(query: bytes) -> list[tuple[str, str]]:
    try:
        return parse_qsl(
            query.decode("latin-1"), keep_blank_values=True, errors="replace", max_num_fields=_MOST_FIELDS
        )
    except ValueError:
        return []

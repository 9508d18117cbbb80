"""Define one query of the query log: its text and result, without the user's id.

Links in typed queries are untrusted: the API never shows them to other users.
"""

from __future__ import annotations

import hmac
import re
from dataclasses import dataclass
from typing import Literal

from cluster.records.json_row import JsonRow

QueryKind = Literal["search", "autocomplete", "ask"]

LONGEST = 200
"Characters of a query that are kept."
UNKNOWN = -1
"A `total` that is unknown when the query is logged, because a question is answered later."


@dataclass(frozen=True, slots=True)
class LoggedQuery(JsonRow):
    """A query and its result, without user ids."""

    at: int
    "Milliseconds since 1970."
    kind: QueryKind
    text: str
    "Folded: case, accents and blanks; at most `LONGEST` characters."
    total: int
    "Number of results; `UNKNOWN` for a question that is answered later."
    language: str = ""
    served_by: str = ""
    engine_id: str = ""
    took_ms: float = 0.0
    reader: str = ""
    "Pseudonym of the user; empty when the request names no user."
    origin: str = ""
    "Represents an unverified user where users are counted; empty for all other users."
    written: str = ""
    "The text as typed, if it differs from `text`; at most `LONGEST` characters."
    typist: str = ""
    "Groups the keystrokes of one typing; removed when the typing is complete."


def pseudonym(salt: bytes, user_key: str) -> str:
    """Return a user's pseudonym: equal users are countable, and none is identifiable without the salt."""
    return hmac.digest(salt, user_key.encode("utf-8", "replace"), "sha256").hex()[:24]


_LINK = re.compile(
    r"https?:|www\.|[\w-]{2,63}\.(?:[a-z]{2,24})(?:[/:?#]|\b)|\w@\w",
    re.IGNORECASE,
)


def has_link(text: str) -> bool:
    """Check whether a text names an address: of the web, a host, or of a person."""
    return _LINK.search(text) is not None

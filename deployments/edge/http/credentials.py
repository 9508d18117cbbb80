"""The caller of a request: a live key of an app, and the user that a token names.

A key is found in the header or in the query; the header wins. The keys are described in
`docs/concepts/identities.md`.

HAProxy exempts proven secret keys from the limits per address (`cluster/local/haproxy_config.py`). This module must
find the same text as HAProxy in every request; otherwise a valid key would prove another text.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qsl

from cluster.crypto import recognise_key
from cluster.errors import Malformed
from cluster.records.api_keys import KeyKind
from cluster.records.apps import App


@dataclass(frozen=True, slots=True)
class Credential:
    """One live key, as an API replica keeps it in memory."""

    app: App
    key_id: str
    kind: KeyKind
    text: str = field(repr=False)
    "The key as text; the default anonymous id is derived from it."
    secrets: tuple[bytes, ...] = field(repr=False)
    "The app's live secret keys: they sign `user_hash` and user tokens."
    token_keys: tuple[bytes, ...] = field(default=(), repr=False)
    "The keys derived from them, which sign user tokens under `derived_token_key`."
    is_secret: bool = field(init=False)
    "Whether this is a secret key, which may call everything without proofs."
    hidden_fields: tuple[str, ...] = field(init=False)
    "Product fields that this key can't read."

    def __post_init__(self) -> None:
        # Set once: each request reads them several times.
        is_secret = self.kind == "secret"
        object.__setattr__(self, "is_secret", is_secret)
        hidden = () if is_secret else self.app.settings.confidential_fields
        object.__setattr__(self, "hidden_fields", hidden)


@dataclass(frozen=True, slots=True)
class UserToken:
    """The claims of a valid user token."""

    user_id: str = ""
    user_type: str = ""
    claims: Mapping[str, Any] = field(default_factory=dict, repr=False)
    "All claims; unknown ones are merged into the metadata of a question."


HEADER = b"x-api-key"
PARAMETER = "api_key"
TWO_KEYS = "api_key was sent more than once; send one key"

_MOST_FIELDS = 100
_LONGEST_KEY = 256
_KEYS = re.compile(rb"(?:^|[&;?])api_key=([^&;?]*)")
"""The fields that `url_param(api_key)` of HAProxy finds: it also cuts at `;` and `?`, and decodes nothing. A key has no
character that needs an escape."""


def find_key(header: bytes | None, query: bytes) -> str:
    """Return the key of a request; empty if it has none or if the value can't be a key.

    An empty header counts as no header.
    """
    text = (header.strip(b" \t") if header else read_key_parameter(query) or b"").decode("latin-1")
    # Every key is hashed before the look-up, and a client chooses its length.
    return text if len(text) <= _LONGEST_KEY else ""


def read_key_parameter(query: bytes) -> bytes | None:
    """Return the first `api_key` of a query as it is written; None without one."""
    match = _KEYS.search(query)
    return match[1] if match is not None else None


def parse_bearer(authorization: bytes | None) -> str | None:
    """Return the token of an `Authorization: Bearer` header; None without one or with another scheme."""
    if not authorization:
        return None
    scheme, _, token = authorization.strip().partition(b" ")
    if scheme.lower() != b"bearer":
        return None
    return token.strip().decode("latin-1")


def check_single_key(query: bytes) -> None:
    """Check that a query string has at most one key, because proxies may disagree on which of two counts.

    Errors:
        Malformed: it has two
    Cost: 0.1 microseconds for one key.
    """
    if query.count(b"api_key") > 1 and len(set(_KEYS.findall(query))) > 1:
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

"""Registered clients, of which we keep nothing: a client id is its own signed registration.

    c_<name, method, fingerprints of redirect addresses, nonce, signature>

Registering a hundred thousand clients leaves no trace here, and a restart forgets none. Redirect addresses stand in
it as fingerprints, so an id stays short however long they are.
"""

from __future__ import annotations

import hashlib
import hmac
import unicodedata
from dataclasses import dataclass
from typing import Literal, cast

from deployments.archive.oauth.redirects import fingerprint
from deployments.archive.oauth.signing import Signing

Method = Literal["none", "client_secret_post", "client_secret_basic"]
METHODS: tuple[Method, ...] = ("none", "client_secret_post", "client_secret_basic")
LONGEST_NAME = 100
"Characters."
UNNAMED = "A client without a name"

_PREFIX = "c_"
_HIDDEN = frozenset({"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"})
"Kinds of characters that are invisible or turn the text around them."


@dataclass(frozen=True, slots=True)
class Client:
    """A registration."""

    client_id: str
    name: str
    "Clean, but a stranger's words; may be empty."
    method: Method
    fingerprints: frozenset[str]

    @property
    def shown_name(self) -> str:
        """What people see."""
        return self.name or UNNAMED

    def allows(self, redirect_uri: str) -> bool:
        """Was this address registered, but for the port of a loopback one?"""
        return fingerprint(redirect_uri) in self.fingerprints


def mint_client(signing: Signing, name: str, method: Method, redirect_uris: list[str]) -> Client:
    """Make the id of a registration. No id is made twice, so each has a secret and a life of its own."""
    marks = sorted({fingerprint(uri) for uri in redirect_uris})
    text = signing.clients.seal([name, METHODS.index(method), ".".join(marks), signing.random(9)])
    return Client(_PREFIX + text, name, method, frozenset(marks))


def read_client(signing: Signing, client_id: str) -> Client | None:
    """Read a client id; None when we did not make it."""
    if not client_id.startswith(_PREFIX):
        return None
    value = signing.clients.open(client_id[len(_PREFIX) :])
    if not isinstance(value, list):
        return None
    name, method, marks = value[:3]
    return Client(client_id, cast(str, name), METHODS[method], frozenset(marks.split(".")))


def is_secret_of(signing: Signing, client: Client, secret: str) -> bool:
    """Compare a client's secret, in constant time."""
    wanted = signing.client_secret(client.client_id)
    return hmac.compare_digest(secret.encode("utf-8", "surrogatepass"), wanted.encode())


def short_id(client_id: str) -> str:
    """Shorten a client id for people, reports and rules."""
    return "c-" + hashlib.sha256(client_id.encode()).hexdigest()[:16]


def clean_name(text: str) -> str:
    """Take out of a name what can't be seen or turns text around, and fold white space."""
    visible = (char for char in text if char.isspace() or unicodedata.category(char) not in _HIDDEN)
    return " ".join("".join(visible).split())

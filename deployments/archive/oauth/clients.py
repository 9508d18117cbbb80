"""Registered clients, of which we keep nothing: a client id is its own signed registration.

    c_<name, method, fingerprints of redirect addresses, nonce, signature>

Registering a hundred thousand clients leaves no trace here, and a restart forgets none. Redirect addresses stand in
it as fingerprints, so an id stays short however long they are.
"""

from __future__ import annotations

import hmac
import unicodedata
from dataclasses import dataclass
from typing import cast, get_args

from cluster.records.registration import AuthMethod, Registration
from cluster.records.registration import short_id as short_id
from cluster.store.ports.accounts import RegistrationStore
from deployments.archive.oauth.redirects import fingerprint
from deployments.archive.oauth.signing import OAuthSigner

METHODS: tuple[AuthMethod, ...] = get_args(AuthMethod)
LONGEST_NAME = 100
"Characters."
UNNAMED = "A client without a name"

_PREFIX = "c_"
_HIDDEN = frozenset({"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"})
"Kinds of characters that are invisible or turn the text around them."


@dataclass(frozen=True, slots=True)
class OAuthClient:
    """A registration."""

    client_id: str
    name: str
    "Clean, but a stranger's words; may be empty."
    method: AuthMethod
    fingerprints: frozenset[str]
    is_changed: bool = False
    "The client changed its registration since; the store has it."

    @property
    def shown_name(self) -> str:
        """What people see."""
        return self.name or UNNAMED

    def allows(self, redirect_uri: str) -> bool:
        """Was this address registered, but for the port of a loopback one?"""
        return fingerprint(redirect_uri) in self.fingerprints


def issue_client(
    signing: OAuthSigner, name: str, method: AuthMethod, redirect_uris: list[str]
) -> OAuthClient:
    """Make the id of a registration. No id is made twice, so each has a secret and a life of its own."""
    marks = sorted({fingerprint(uri) for uri in redirect_uris})
    text = signing.clients.seal([name, METHODS.index(method), ".".join(marks), signing.random(9)])
    return OAuthClient(_PREFIX + text, name, method, frozenset(marks))


def read_client(signing: OAuthSigner, client_id: str) -> OAuthClient | None:
    """Read a client id; None when we did not make it."""
    if not client_id.startswith(_PREFIX):
        return None
    value = signing.clients.open(client_id[len(_PREFIX) :])
    if not isinstance(value, list):
        return None
    name, method, marks = value[:3]
    return OAuthClient(client_id, cast(str, name), METHODS[method], frozenset(marks.split(".")))


class OAuthClients:
    """Finds clients: what their ids say, or what they changed since."""

    def __init__(self, signing: OAuthSigner, store: RegistrationStore) -> None:
        self._signing = signing
        self._store = store

    async def find(self, client_id: str) -> OAuthClient | None:
        """Find a client; None when we did not make this id, or it was removed. Cost: one read of the store.

        Errors:
            Unavailable: the store is away
        """
        client = read_client(self._signing, client_id)
        if client is None:
            return None
        changed = await self._store.get(client_id)
        return client if changed is None else client_of_registration(changed)

    async def mark_used(self, client: OAuthClient, now_ms: int) -> None:
        """Note that a client was used, so that what it changed is kept."""
        if client.is_changed:
            await self._store.touch(client.client_id, now_ms=now_ms)


def client_of_registration(registration: Registration) -> OAuthClient | None:
    """Make the client of a changed registration; None when it was removed."""
    if registration.removed:
        return None
    marks = frozenset(fingerprint(uri) for uri in registration.redirect_uris)
    return OAuthClient(registration.client_id, registration.name, registration.method, marks, is_changed=True)


def is_secret_of(signing: OAuthSigner, client: OAuthClient, secret: str) -> bool:
    """Compare a client's secret, in constant time."""
    expected = signing.client_secret(client.client_id)
    return hmac.compare_digest(secret.encode("utf-8", "surrogatepass"), expected.encode())


def clean_name(text: str) -> str:
    """Take out of a name what can't be seen or turns text around, and fold white space."""
    visible = (char for char in text if char.isspace() or unicodedata.category(char) not in _HIDDEN)
    return " ".join("".join(visible).split())

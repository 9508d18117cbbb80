"""Registered clients without a stored record: a client id is its signed registration.

    c_<name, method, fingerprints of redirect addresses, nonce, signature>

Registrations need no storage: a hundred thousand clients store nothing, and a restart loses none. The id contains only
fingerprints of the redirect addresses, so it stays short however long the addresses are.
"""

from __future__ import annotations

import unicodedata
from dataclasses import dataclass
from typing import Any, Literal, cast, get_args

from cluster.addresses.ssrf_guard import find_host
from cluster.records.archive.archive_client import AuthMethod, Registration
from cluster.records.archive.archive_client import short_id as short_id
from cluster.store.administration.registrations import RegistrationStore
from deployments.archive.oauth.redirects import fingerprint
from deployments.archive.oauth.signing import OAuthSigner

METHODS: tuple[AuthMethod, ...] = get_args(AuthMethod)
LONGEST_NAME = 100
"Maximum length in characters."
UNNAMED = "A client without a name"

_PREFIX = "c_"
_HIDDEN = frozenset({"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"})
"Categories of invisible characters and of those that change the direction of text."


@dataclass(frozen=True, slots=True)
class OAuthClient:
    """A registered client."""

    client_id: str
    name: str
    "The name that the client chose, cleaned; may be empty."
    method: AuthMethod | Literal["private_key_jwt"]
    fingerprints: frozenset[str]
    is_changed: bool = False
    "Whether the client changed its registration; the store then has the new one."
    host: str = ""
    "Host of the metadata document whose address is the client's id; empty for a registered client."
    is_loopback_only: bool = False
    "Whether all redirects of the document lead to loopback, so that any program can use the document."
    keys: str = ""
    "Public keys of a client that signs (`private_key_jwt`), as JSON."

    @property
    def shown_name(self) -> str:
        """The name that users see."""
        return self.name or UNNAMED

    def form_facts(self) -> dict[str, Any]:
        """Return what the consent form of a client with a document carries."""
        return {
            "name": self.name,
            "method": self.method,
            "host": self.host,
            "is_loopback_only": self.is_loopback_only,
            "keys": self.keys,
        }

    def allows(self, redirect_uri: str) -> bool:
        """Return whether this address was registered; the port of a loopback address may differ."""
        return fingerprint(redirect_uri) in self.fingerprints


def issue_client(
    signing: OAuthSigner, name: str, method: AuthMethod, redirect_uris: list[str]
) -> OAuthClient:
    """Return a client id; each id is unique, so each client has a separate secret."""
    marks = sorted({fingerprint(uri) for uri in redirect_uris})
    text = signing.clients.seal([name, METHODS.index(method), ".".join(marks), signing.random(9)])
    return OAuthClient(_PREFIX + text, name, method, frozenset(marks))


def read_client(signing: OAuthSigner, client_id: str) -> OAuthClient | None:
    """Parse a client id; return None if this installation did not issue it."""
    if not client_id.startswith(_PREFIX):
        return None
    value = signing.clients.open(client_id[len(_PREFIX) :])
    if not isinstance(value, list):
        return None
    name, method, marks = value[:3]
    return OAuthClient(client_id, cast(str, name), METHODS[method], frozenset(marks.split(".")))


class OAuthClients:
    """Finds clients by their ids, with later changes."""

    def __init__(self, signing: OAuthSigner, store: RegistrationStore) -> None:
        self._signing = signing
        self._store = store

    async def find(self, client_id: str) -> OAuthClient | None:
        """Return a client; None if the id is not genuine or the client was removed. Cost: one read of the store.

        Errors:
            Unavailable: the store is unavailable
        """
        client = read_client(self._signing, client_id)
        if client is None:
            return None
        changed = await self._store.get(client_id)
        return client if changed is None else client_of_registration(changed)

    async def mark_used(self, client: OAuthClient, now_ms: int) -> None:
        """Record that a client was used, so that its changed registration is kept."""
        if client.is_changed:
            await self._store.touch(client.client_id, now_ms=now_ms)


def client_of_registration(registration: Registration) -> OAuthClient | None:
    """Return the client of a changed registration; None if it was removed."""
    if registration.removed:
        return None
    marks = frozenset(fingerprint(uri) for uri in registration.redirect_uris)
    return OAuthClient(registration.client_id, registration.name, registration.method, marks, is_changed=True)


def is_secret_of(signing: OAuthSigner, client: OAuthClient, secret: str) -> bool:
    """Compare a client's secret in constant time."""
    return signing.is_client_secret(client.client_id, secret)


def document_host(client_id: str) -> str:
    """Return the host of a client id that is the address of a metadata document; empty for a registered client."""
    return find_host(client_id) if client_id.startswith("https://") else ""


def clean_name(text: str) -> str:
    """Remove invisible and direction characters from a name, and collapse white space."""
    visible = (char for char in text if char.isspace() or unicodedata.category(char) not in _HIDDEN)
    return " ".join("".join(visible).split())

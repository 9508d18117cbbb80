"""Signed values that the server does not store: client ids, registration tokens, forms, browser sessions, refresh
tokens
and access tokens.

Each purpose has a separate key, derived from the master key. So all replicas agree, before and after a restart, and a
value signed for one purpose is invalid for another.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import re
import secrets
from collections.abc import Callable
from typing import Any

import jwt
from itsdangerous import BadData, Signer, URLSafeSerializer

from cluster.secrecy import Vault

_KINDS = {"key_derivation": "hmac", "digest_method": hashlib.sha256}
_TYPE = "at+jwt"
_UNJUDGED: jwt.types.Options = {
    "verify_exp": False, "verify_aud": False, "verify_iat": False, "verify_nbf": False, "verify_sub": False,
    "verify_jti": False, "verify_iss": False,
}  # fmt: skip
"The checks of times and audience use the server's clock and addresses."
LONGEST = 16_000
"Maximum characters of a signed value in a request; longer ones are refused unread."
_SIGNATURE = re.compile(r"[A-Za-z0-9_-]{42}[AEIMQUYcgkosw048]")
"32 bytes in base64url: the last character holds four bits and two zeros."


class _AsciiJson:
    """JSON that keeps bytes which are not UTF-8: they become escaped surrogates."""

    @staticmethod
    def dumps(value: Any, **_: Any) -> str:
        return json.dumps(value, separators=(",", ":"))

    @staticmethod
    def loads(text: str | bytes) -> Any:
        return json.loads(text)


class PurposeSigner:
    """Signs and verifies values of one purpose."""

    def __init__(self, key: bytes, purpose: str) -> None:
        self._serializer: URLSafeSerializer = URLSafeSerializer(
            key, salt=purpose.encode(), serializer=_AsciiJson(), signer_kwargs=_KINDS
        )

    def seal(self, value: Any) -> str:
        """Return a signed JSON value; it consists of `A-Za-z0-9-_.`."""
        return str(self._serializer.dumps(value))

    def open(self, text: str) -> Any | None:
        """Return the value that `seal` signed; None for any other text."""
        if not _is_whole(text):
            return None
        try:
            return self._serializer.loads(text)
        except BadData:
            return None


class OAuthSigner:
    """All signatures of the authorization server."""

    def __init__(self, vault: Vault, randomness: Callable[[int], bytes] = secrets.token_bytes) -> None:
        self._randomness = randomness
        root = vault.derive("oauth")
        self.clients = PurposeSigner(root, "client")
        self.registrations = PurposeSigner(root, "registration")
        self.forms = PurposeSigner(root, "form")
        self.sessions = PurposeSigner(root, "session")
        self.devices = PurposeSigner(root, "device")
        self._refresh = Signer(root, salt=b"refresh", **_KINDS)  # type: ignore[arg-type]
        self._access_key = vault.derive("oauth access token")
        self._secret_key = vault.derive("oauth client secret")
        self._slot_key = vault.derive("oauth slot")

    def random(self, size: int = 32) -> str:
        """Return an unguessable random text in base64url."""
        return base64.urlsafe_b64encode(self._randomness(size)).rstrip(b"=").decode()

    def client_secret(self, client_id: str) -> str:
        """Return the secret of a confidential client; it is derived and never stored."""
        digest = hmac.digest(self._secret_key, client_id.encode(), "sha256")
        return base64.urlsafe_b64encode(digest).rstrip(b"=").decode()

    def hash_slot(self, text: str, slots: int = 4096) -> str:
        """Map a name to one of few slots, so that the number of counters for names stays bounded."""
        digest = hmac.digest(self._slot_key, text.encode("utf-8", "surrogatepass"), "sha256")
        return str(int.from_bytes(digest[:4], "big") % slots)

    def issue_refresh(self, grant_id: str) -> str:
        """Return a refresh token of a grant; a forged one is detected without the store."""
        return self._refresh.sign(f"{grant_id}.{self.random()}").decode()

    def refresh_grant(self, token: str) -> str | None:
        """Return the grant of a genuine refresh token."""
        if not _is_whole(token):
            return None
        try:
            return self._refresh.unsign(token).decode().partition(".")[0]
        except BadData:
            return None

    def issue_access(self, claims: dict[str, Any]) -> str:
        """Return a signed access token with these claims."""
        return jwt.encode(claims, self._access_key, algorithm="HS256", headers={"typ": _TYPE})

    def access_claims(self, token: str) -> dict[str, Any] | None:
        """Return the claims of a genuine access token; the caller checks times and audience."""
        if not _is_whole(token):
            return None
        try:
            found = jwt.decode_complete(token, self._access_key, algorithms=["HS256"], options=_UNJUDGED)
        except (jwt.InvalidTokenError, ValueError, RecursionError):
            return None
        return found["payload"] if found["header"].get("typ") == _TYPE else None


def _is_whole(text: str) -> bool:
    """Return whether a value has the only base64 spelling that `seal` writes; decoders accept others."""
    if len(text) > LONGEST or not text.isascii():
        return False
    return _SIGNATURE.fullmatch(text.rpartition(".")[2]) is not None


def sha256(text: str) -> str:
    """Return the SHA-256 of a random value, used as a look-up key."""
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()

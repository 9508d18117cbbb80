"""Signed values that the server does not store: client ids, registration tokens, forms, refresh
tokens
and access tokens.

Each purpose has a separate key, derived from the master key. So all replicas agree, before and after a restart, and a
value signed for one purpose is invalid for another.
"""

from __future__ import annotations

import base64
import hmac
import secrets
from collections.abc import Callable
from typing import Any

import jwt
from itsdangerous import BadData, Signer

from cluster.crypto import Vault
from deployments.edge.access.signing import KINDS, PurposeSigner, is_whole

# RFC 9068, 2.1: the type tells an access token from every other JWT.
_TYPE = "at+jwt"
_UNJUDGED: jwt.types.Options = {
    "verify_exp": False,
    "verify_aud": False,
    "verify_iat": False,
    "verify_nbf": False,
    "verify_sub": False,
    "verify_jti": False,
    "verify_iss": False,
}
"The checks of times and audience use the server's clock and addresses."


class OAuthSigner:
    """All signatures of the authorization server."""

    def __init__(self, vault: Vault, randomness: Callable[[int], bytes] = secrets.token_bytes) -> None:
        self._randomness = randomness
        roots = vault.derive_all("oauth")
        self.clients = PurposeSigner(roots, "client")
        self.registrations = PurposeSigner(roots, "registration")
        self.forms = PurposeSigner(roots, "form")
        # Reversed as in `PurposeSigner`: the library signs with the last key, and the first is the newest.
        self._refresh = Signer(roots[::-1], salt=b"refresh", **KINDS)
        self._access_keys = vault.derive_all("oauth access token")
        self._secret_keys = vault.derive_all("oauth client secret")

    def random(self, size: int = 32) -> str:
        """Return an unguessable random text in base64url."""
        return base64.urlsafe_b64encode(self._randomness(size)).rstrip(b"=").decode()

    def client_secret(self, client_id: str) -> str:
        """Return the secret of a confidential client; it is derived and never stored."""
        return _derive_secret(self._secret_keys[0], client_id)

    def is_client_secret(self, client_id: str, secret: str) -> bool:
        """Return whether any of the keys gives a client this secret; the time discloses nothing about it."""
        given = secret.encode("utf-8", "surrogatepass")
        # All keys are compared, without an early end: the time must not say which one matched.
        matches = [
            hmac.compare_digest(given, _derive_secret(key, client_id).encode()) for key in self._secret_keys
        ]
        return any(matches)

    def issue_refresh(self, grant_id: str) -> str:
        """Return a refresh token of a grant; a forged one is detected without the store."""
        return self._refresh.sign(f"{grant_id}.{self.random()}").decode()

    def grant_of_refresh(self, token: str) -> str | None:
        """Return the grant of a genuine refresh token."""
        if not is_whole(token):
            return None
        try:
            return self._refresh.unsign(token).decode().partition(".")[0]
        except BadData:
            return None

    def issue_access(self, claims: dict[str, Any]) -> str:
        """Return a signed access token with these claims."""
        return jwt.encode(claims, self._access_keys[0], algorithm="HS256", headers={"typ": _TYPE})

    def access_claims(self, token: str) -> dict[str, Any] | None:
        """Return the claims of a genuine access token; the caller checks times and audience."""
        if not is_whole(token):
            return None
        for key in self._access_keys:
            try:
                # One fixed algorithm: a token whose header chooses it could choose `none`.
                decoded = jwt.decode_complete(token, key, algorithms=["HS256"], options=_UNJUDGED)
            # RecursionError: JSON of the token that is nested too deeply.
            except (jwt.InvalidTokenError, ValueError, RecursionError):
                continue
            return decoded["payload"] if decoded["header"].get("typ") == _TYPE else None
        return None


def _derive_secret(key: bytes, client_id: str) -> str:
    digest = hmac.digest(key, client_id.encode(), "sha256")
    return base64.urlsafe_b64encode(digest).rstrip(b"=").decode()

"""Signed values that the server does not store: client ids, registration tokens, forms, browser sessions, refresh
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

from cluster.secrecy import Vault
from deployments.edge.signing import KINDS, PurposeSigner, SlotHash, is_whole

_TYPE = "at+jwt"
_UNJUDGED: jwt.types.Options = {
    "verify_exp": False, "verify_aud": False, "verify_iat": False, "verify_nbf": False, "verify_sub": False,
    "verify_jti": False, "verify_iss": False,
}  # fmt: skip
"The checks of times and audience use the server's clock and addresses."


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
        self._refresh = Signer(root, salt=b"refresh", **KINDS)
        self._access_key = vault.derive("oauth access token")
        self._secret_key = vault.derive("oauth client secret")
        self.hash_slot = SlotHash(vault)

    def random(self, size: int = 32) -> str:
        """Return an unguessable random text in base64url."""
        return base64.urlsafe_b64encode(self._randomness(size)).rstrip(b"=").decode()

    def client_secret(self, client_id: str) -> str:
        """Return the secret of a confidential client; it is derived and never stored."""
        digest = hmac.digest(self._secret_key, client_id.encode(), "sha256")
        return base64.urlsafe_b64encode(digest).rstrip(b"=").decode()

    def issue_refresh(self, grant_id: str) -> str:
        """Return a refresh token of a grant; a forged one is detected without the store."""
        return self._refresh.sign(f"{grant_id}.{self.random()}").decode()

    def refresh_grant(self, token: str) -> str | None:
        """Return the grant of a genuine refresh token."""
        if not is_whole(token):
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
        if not is_whole(token):
            return None
        try:
            found = jwt.decode_complete(token, self._access_key, algorithms=["HS256"], options=_UNJUDGED)
        except (jwt.InvalidTokenError, ValueError, RecursionError):
            return None
        return found["payload"] if found["header"].get("typ") == _TYPE else None

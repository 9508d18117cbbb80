"""What we sign so that we need not remember it: client ids, registration tokens, forms,
browser sessions, refresh and access tokens.

Every purpose has a key of its own, derived from the master key, so all replicas agree before and after a restart
and nothing signed for one purpose passes for another.
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
"Times and audience are judged by our own clock and addresses."
LONGEST = 16_000
"Characters of anything signed that comes back; longer ones are refused unread."
_SIGNATURE = re.compile(r"[A-Za-z0-9_-]{42}[AEIMQUYcgkosw048]")
"32 bytes as base64url writes them: the last character holds four bits and two zeros."


class _AsciiJson:
    """JSON that survives bytes which are no text: they travel as escaped surrogates."""

    @staticmethod
    def dumps(value: Any, **_: Any) -> str:
        return json.dumps(value, separators=(",", ":"))

    @staticmethod
    def loads(text: str | bytes) -> Any:
        return json.loads(text)


class PurposeSigner:
    """Values of one purpose, signed and readable by whoever holds them."""

    def __init__(self, key: bytes, purpose: str) -> None:
        self._serializer: URLSafeSerializer = URLSafeSerializer(
            key, salt=purpose.encode(), serializer=_AsciiJson(), signer_kwargs=_KINDS
        )

    def seal(self, value: Any) -> str:
        """Sign a JSON value; the result is made of `A-Za-z0-9-_.`."""
        return str(self._serializer.dumps(value))

    def open(self, text: str) -> Any | None:
        """Read what `seal` made; None for everything else."""
        if not _is_whole(text):
            return None
        try:
            return self._serializer.loads(text)
        except BadData:
            return None


class OAuthSigner:
    """All of our signatures."""

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
        """Make up something nobody can guess, in base64url."""
        return base64.urlsafe_b64encode(self._randomness(size)).rstrip(b"=").decode()

    def client_secret(self, client_id: str) -> str:
        """Compute the secret of a confidential client; it is nowhere kept."""
        digest = hmac.digest(self._secret_key, client_id.encode(), "sha256")
        return base64.urlsafe_b64encode(digest).rstrip(b"=").decode()

    def hash_slot(self, text: str, slots: int = 4096) -> str:
        """Sort a name into one of few slots, so that counters for strangers' names stay bounded."""
        digest = hmac.digest(self._slot_key, text.encode("utf-8", "surrogatepass"), "sha256")
        return str(int.from_bytes(digest[:4], "big") % slots)

    def issue_refresh(self, grant_id: str) -> str:
        """Make a refresh token of a grant: genuine ones can be told from guesses without the store."""
        return self._refresh.sign(f"{grant_id}.{self.random()}").decode()

    def refresh_grant(self, token: str) -> str | None:
        """Tell which grant a genuine refresh token belongs to."""
        if not _is_whole(token):
            return None
        try:
            return self._refresh.unsign(token).decode().partition(".")[0]
        except BadData:
            return None

    def issue_access(self, claims: dict[str, Any]) -> str:
        """Sign the claims of an access token."""
        return jwt.encode(claims, self._access_key, algorithm="HS256", headers={"typ": _TYPE})

    def access_claims(self, token: str) -> dict[str, Any] | None:
        """Read a genuine access token; times and audience are for the caller to judge."""
        if not _is_whole(token):
            return None
        try:
            found = jwt.decode_complete(token, self._access_key, algorithms=["HS256"], options=_UNJUDGED)
        except (jwt.InvalidTokenError, ValueError, RecursionError):
            return None
        return found["payload"] if found["header"].get("typ") == _TYPE else None


def _is_whole(text: str) -> bool:
    """Can this have come from us? Those who decode base64 forgive much; of all spellings we write one."""
    if len(text) > LONGEST or not text.isascii():
        return False
    return _SIGNATURE.fullmatch(text.rpartition(".")[2]) is not None


def sha256(text: str) -> str:
    """Hash something random for looking it up."""
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()

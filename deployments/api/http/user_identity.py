"""The identity of the user of a request: proven by a token, a proof or a secret key, never by a browser's claim.

    publishable key   a token or `user_hash` proves the user; the user type is the token's, or the one that the second
                      form of the hash proves; a proven user without a type is `free`, all others `anonymous`
    secret key        the body is trusted, because the shop's server sent it

The rules for users are in `docs/concepts/identities.md`.
"""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from cluster.clock import from_ms
from deployments.api.http.browser_writes import address_pseudonym
from deployments.api.wire.ask import AskBody
from deployments.edge.access.identity_proof import verify_user_hash
from deployments.edge.http.request import ApiRequest

_RESERVED_CLAIMS = frozenset({"user_id", "sub", "user_type", "exp", "nbf", "iat", "iss", "aud"})
VERIFIED_TYPE = "free"
"User type of a user whose id is proven and whose type is not."
ANONYMOUS_TYPE = "anonymous"


@dataclass(frozen=True, slots=True)
class UserIdentity:
    """The user of a request, as far as proven."""

    user_id: str
    "Empty unless proven."
    anonymous_id: str
    user_type: str
    "User type for metering; unproven claims are ignored."
    metadata: Mapping[str, Any]
    claims: Mapping[str, Any] = field(default_factory=dict)
    "Other claims of the token; only the server of the shop sees them."
    origin: str = ""
    "Pseudonym of the client's address if no user is proven; empty otherwise."

    @property
    def user_key(self) -> str:
        return "u:" + self.user_id if self.user_id else "a:" + self.anonymous_id

    @property
    def counting_id(self) -> str:
        """Return the key for counting distinct users; unproven users of one address share a key."""
        return "o:" + self.origin if self.origin else self.user_key


def user_identity_from_request(request: ApiRequest, body: AskBody, now_ms: int) -> UserIdentity:
    """Return the identity of the user of a request.

    Errors:
        Unauthenticated: a `user_hash` is wrong
    """
    token = request.token
    metadata = dict((body.metadata if body.metadata is not None else body.meta) or {})
    claims: dict[str, Any] = {}
    if token is not None:
        claims = {name: value for name, value in token.claims.items() if name not in _RESERVED_CLAIMS}
        # What the shop signed wins over what the browser says under the same name.
        metadata = {name: value for name, value in metadata.items() if name not in claims}
    anonymous_id = body.anonymous_id or default_anonymous_id(request, now_ms)
    user_id, user_type, is_proven = _find_identity(request, body)
    origin = "" if is_proven else address_pseudonym(request)
    return UserIdentity(user_id, anonymous_id, user_type, metadata, claims, origin)


def _find_identity(request: ApiRequest, body: AskBody) -> tuple[str, str, bool]:
    """Return the user, the user type, and whether either was proven."""
    token = request.token
    credential = request.credential
    token_type = token.user_type if token is not None else ""
    if credential.is_secret:
        user_id = token.user_id if token is not None and token.user_id else body.user_id or ""
        return user_id, token_type or str(body.user_type or ANONYMOUS_TYPE), True
    if token is not None and token.user_id:
        return token.user_id, token_type or VERIFIED_TYPE, True
    user_id = body.user_id or ""
    user_key = user_id or body.anonymous_id or ""
    if not body.user_hash or not user_key:
        return "", token_type or ANONYMOUS_TYPE, bool(token_type)
    proven = verify_user_hash(credential, body.user_hash, user_key, body.user_type or "")
    return user_id, token_type or proven or (VERIFIED_TYPE if user_id else ANONYMOUS_TYPE), True


def default_anonymous_id(request: ApiRequest, now_ms: int) -> str:
    """Return the default visitor id: `SHA1("<api key>:<ip>:<user agent>:<date>")`.

    With `keyed_visitor_ids` it is HMAC-SHA1 of the same text under the secret key. A client behind the same address
    knows the whole text, and could otherwise compute the id and read the visitor's history.

    The REST interface prescribes SHA-1. Without the secret key the digest is only a name and protects nothing.
    """
    day = from_ms(now_ms).date().isoformat()
    credential = request.credential
    text = f"{credential.text}:{request.ip}:{request.user_agent}:{day}".encode("utf-8", "surrogatepass")
    if credential.app.settings.keyed_visitor_ids and credential.secrets:
        return hmac.digest(credential.secrets[0], text, "sha1").hex()
    return hashlib.sha1(text, usedforsecurity=False).hexdigest()

